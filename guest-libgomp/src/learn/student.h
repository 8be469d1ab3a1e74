/* Student's distribution, for means of few samples. */
#ifndef VSCAF_GOMP_STUDENT_H
#define VSCAF_GOMP_STUDENT_H

/* Its 97.5% quantile over that of the normal distribution, by degrees of freedom. */
double student_widening(double freedom);

#endif
