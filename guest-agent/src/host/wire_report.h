/* Writes the agent's report (guest-agent/wire/README.md). Reports are sent all the time and may be 64 KiB long. With
 * jansson, a report of 64 programs with estimates costs 2 ms and a megabyte. This way it costs a twentieth. */
#ifndef VSCAF_WIRE_REPORT_H
#define VSCAF_WIRE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "inspect/own_number.h"
#include "pages/learned.h"

/* One process in a report. */
struct wire_process {
    int64_t pid;
    const char *name; /* any bytes; those that are not printable UTF-8 are replaced */
    uint32_t team;
    const char *malleable; /* "full", "shrink", "rigid" */
    bool running;
    const struct speedup_point *points;
    size_t points_count;

    /* Optional fields. */
    bool override;                  /* VSCAF_MALLEABLE set how malleable it is */
    bool long_section;              /* its section has lasted for a second or longer */
    bool contained;                 /* it runs only on its share of the CPUs */
    bool has_own;                   /* `own` is known */
    struct own_number own;          /* why a section of it needs its own number of threads */
    double ipc;                     /* instructions per cycle of a thread; 0: not measured */
    const struct learned *learning; /* cost and method of learning; NULL: nothing to report */
    double learn_budget;            /* fraction of the process's CPU time that learning may cost */
    bool decomposed;                /* decomposition is known */
    struct learned_decomposition decomposition;
};

struct wire_report {
    int64_t sequence;
    const struct cpu_set *online;
    uint32_t demand;
    double busy; /* CPUs */
    const struct wire_process *processes;
    size_t processes_count;
    bool quiet;          /* no report follows until something changes */
    bool steal_governor; /* Linux's steal governor takes CPUs from programs, too */
};

/* Returns a line with its end, at most WIRE_LINE_BYTES, for the caller to free(); NULL: no memory. A report that would
 * be longer leaves out, in this order, until it fits: learning and decomposition of processes that do not run, then of
 * all; points of processes that do not run, then of all; the last processes. */
char *wire_write_report(const struct wire_report *report);

#endif
