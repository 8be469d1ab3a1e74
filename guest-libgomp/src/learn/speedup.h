/* One point of a program's speedup, however it was learned. */
#ifndef VSCAF_GOMP_SPEEDUP_H
#define VSCAF_GOMP_SPEEDUP_H

struct speedup {
    unsigned p;            /* team size */
    double speedup;        /* T(1) / T(p), serial time between sections included in both */
    double standard_error; /* widened as Student's distribution is, so that 1.96 of it make the 95% interval */
    unsigned samples;      /* independent comparisons behind it */
};

#endif
