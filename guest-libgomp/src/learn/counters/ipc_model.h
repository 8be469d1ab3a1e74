/* Speedup from counters: SCAF's arithmetic, with its uncertainty. Pure: no clock, no system call, no allocation.
 *
 * For a section, E(p) = P(p) / P(serial), where P is the instructions per cycle of one thread: in a team of p, or
 * alone. S(p) = p E(p). Cycles in which a thread waits for the others at the end count, without instructions. For the
 * program, S(p) = T(1) / T(p), over sections and the serial time between them. If all was measured at one p, this is p
 * times the time-weighted mean of E(p) over sections and 1/p over serial time. */
#ifndef VSCAF_GOMP_IPC_MODEL_H
#define VSCAF_GOMP_IPC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "learn/speedup.h"

#define IPC_SECTIONS 64u
#define IPC_SIZES 8u

/* A mean over instances. The weight of each fades. */
struct ipc_mean {
    double weight;
    double weight_squares;
    double mean;
    double squares; /* sum of the squared deviations, weighted */
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
    double serial_ns;    /* between sections, fading */
    double untracked_ns; /* in sections for which there was no room here, at any size */
    unsigned used;
    struct ipc_section sections[IPC_SECTIONS];
};

/* Reduces the weight of all measurements: after `memory_ns` they count about half. */
void ipc_fade(struct ipc_program *program, double elapsed_ns, double memory_ns);

/* Records that one instance ran for `ns` at team size p. */
void ipc_ran(struct ipc_section *section, unsigned p, double ns);

/* Adds the counts of one instance: the instructions of all its `p` threads, and the cycles of the thread that took
 * most. A team of one is a serial measurement. False: the counts are impossible. */
bool ipc_parallel(struct ipc_section *section, unsigned p, double instructions, double most_cycles);

/* Adds the counts of a serial experiment. False: they are impossible. */
bool ipc_serial(struct ipc_section *section, double instructions, double cycles);

/* Number of measurements, with faded ones counting less. For p = 1 these are the serial ones. */
double ipc_samples(const struct ipc_section *section, unsigned p);

/* The instructions per cycle of one thread, over all sections and sizes that were measured: the mean, weighted by the
 * thread time of each. 0: nothing was measured. */
double ipc_of_threads(const struct ipc_program *program);

/* Fills `out` by increasing p and returns how many. 0: unknown, because too little of the time in sections was
 * measured. */
unsigned ipc_estimates(const struct ipc_program *program, struct speedup out[IPC_SIZES]);

#endif
