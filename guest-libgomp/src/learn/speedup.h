/* One point of a program's speedup. It is the same for all metrics. */
#ifndef VSCAF_GOMP_SPEEDUP_H
#define VSCAF_GOMP_SPEEDUP_H

struct speedup {
    unsigned p;            /* team size */
    double speedup;        /* T(1) / T(p); both include the serial time between sections */
    double standard_error; /* widened like Student's distribution, so the 95% interval is +-1.96 of it */
    unsigned samples;      /* independent comparisons that it is based on */
};

#endif
