/* Speedup from counters: SCAF's arithmetic, with its uncertainty. Pure: no clock, no system call, no allocation.
 *
 * Of a section, E(p) = P(p) / P(serial): instructions per cycle of a thread of a team of p, against one thread alone;
 * S(p) = p E(p). Cycles in which a thread waits for the others at the end count as cycles without instructions. Of the
 * program, S(p) = T(1) / T(p), sections and the serial time between them together; where all was measured at one p this
 * is the time-weighted mean of E(p) over sections and 1/p over serial time, times p.
 */
#ifndef VSCAF_GOMP_IPC_MODEL_H
#define VSCAF_GOMP_IPC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/speedup.h"

#define IPC_SECTIONS 64u
#define IPC_SIZES 8u

/* A mean over instances whose weight fades. */
struct ipc_mean {
    double weight;
    double weight_squares;
    double mean;
    double squares; /* of the deviations, weighted */
};

struct ipc_size {
    unsigned p;
    double ns; /* wall time of the section's instances at this size, fading */
    struct ipc_mean ipc;
};

struct ipc_section {
    struct ipc_mean serial;
    struct ipc_size sizes[IPC_SIZES];
};

struct ipc_program {
    double serial_ns;  /* between sections, fading */
    double strange_ns; /* in sections that found no place here, at any size */
    unsigned used;
    struct ipc_section sections[IPC_SECTIONS];
};

/* Everything measured so far counts for less: after `memory_ns` about half as much. */
void ipc_fade(struct ipc_program *program, double elapsed_ns, double memory_ns);

/* One instance ran for `ns` at team size p. */
void ipc_ran(struct ipc_section *section, unsigned p, double ns);

/* What the counters said of one instance: in all its `p` threads together, and in the thread that took most cycles.
 * A team of one is a serial measurement. False: counts that cannot be. */
bool ipc_parallel(struct ipc_section *section, unsigned p, double instructions, double most_cycles);

/* What they said of a serial experiment. */
bool ipc_serial(struct ipc_section *section, double instructions, double cycles);

/* Measurements that count still, faded ones less; serial ones for p = 1. */
double ipc_samples(const struct ipc_section *section, unsigned p);

/* Fills `out` by growing p; how many. 0: unknown, too little of the time in sections was measured. */
unsigned ipc_estimates(const struct ipc_program *program, struct speedup out[IPC_SIZES]);

#endif
