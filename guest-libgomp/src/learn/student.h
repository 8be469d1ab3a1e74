/* Student's distribution, for means of a few samples. */
#ifndef VSCAF_GOMP_STUDENT_H
#define VSCAF_GOMP_STUDENT_H

/* Its 97.5% quantile divided by that of the normal distribution, for these degrees of freedom. */
double student_widening(double freedom);

#endif
