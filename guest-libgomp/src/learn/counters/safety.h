/* The reasons that forbid a serial experiment. They are read from /proc without allocating memory. */
#ifndef VSCAF_GOMP_SAFETY_H
#define VSCAF_GOMP_SAFETY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum safety {
    SAFETY_GOOD = 0,
    SAFETY_UNKNOWN,     /* /proc does not tell, or has more lines than are read */
    SAFETY_PRIVILEGED,  /* a set-user-ID program */
    SAFETY_TRACED,      /* the tracer would also get the child */
    SAFETY_FILTERED,    /* the program runs under seccomp or in an emulator */
    SAFETY_LOCKED,      /* locked or pinned memory */
    SAFETY_LARGE,       /* too much memory to copy */
    SAFETY_DEVICE,      /* a device is mapped or open, so an access may have effects outside */
    SAFETY_SHARED,      /* too many shared mappings, or of a kind that counts its users */
    SAFETY_DESCRIPTORS, /* userfaultfd, io_uring, perf events, or too many descriptors to check */
};

struct range {
    uintptr_t start, end;
    int protection; /* PROT_ bits */
};

#define SAFETY_RANGES 64u

/* The shared mappings of the calling process. */
struct ranges {
    unsigned count;
    struct range of[SAFETY_RANGES];
};

/* Checks everything about the calling process that can be seen before a child exists. `resident_bytes`: its memory,
 * from which the cost follows. One thread at a time; takes 0.1 to 0.3 ms. */
enum safety safety_of_process(uint64_t resident_most, uint64_t *resident_bytes);

/* Checks only its mappings, and lists the shared ones. One thread at a time in a process. */
enum safety safety_of_mappings(struct ranges *shared);

#endif
