/* What forbids a serial experiment: looked up in /proc, without allocating. */
#ifndef VSCAF_GOMP_SAFETY_H
#define VSCAF_GOMP_SAFETY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum safety {
    SAFETY_GOOD = 0,
    SAFETY_UNKNOWN,     /* /proc does not say, or says more than is looked at */
    SAFETY_PRIVILEGED,  /* a set-user-ID program */
    SAFETY_TRACED,      /* a tracer would be handed the child */
    SAFETY_FILTERED,    /* the program runs under seccomp or an emulator of its own */
    SAFETY_LOCKED,      /* locked or pinned memory */
    SAFETY_LARGE,       /* more memory than is worth copying */
    SAFETY_DEVICE,      /* a device is mapped or open: its memory is not only memory */
    SAFETY_SHARED,      /* more shared mappings than are looked after, or of a kind that counts its users */
    SAFETY_DESCRIPTORS, /* userfaultfd, io_uring, perf events, or too many descriptors to look at */
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

/* Of the calling process, all that can be seen before a child exists. `resident_bytes`: its memory, to judge the cost
 * by. One thread at a time; takes 0.1 to 0.3 ms. */
enum safety safety_of_process(uint64_t resident_most, uint64_t *resident_bytes);

/* Of its mappings alone; and which of them are shared. One thread at a time in a process. */
enum safety safety_of_mappings(struct ranges *shared);

#endif
