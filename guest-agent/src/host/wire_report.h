/* The report that the agent sends, as wire/README.md says. Reports go out all the time and may be 64 KiB long. Through
 * jansson, one of 64 programs that all have learned costs 2 ms and a megabyte; this way a twentieth. */
#ifndef VSCAF_WIRE_REPORT_H
#define VSCAF_WIRE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "pages/learned.h"

/* One process in a report. */
struct wire_process {
    int64_t pid;
    const char *name; /* any bytes: what is not printable UTF-8 is replaced */
    uint32_t team;
    const char *malleable; /* "full", "shrink", "rigid" */
    bool running;
    const struct speedup_point *points;
    size_t points_count;

    /* The optional ones. */
    bool override;                  /* VSCAF_MALLEABLE said what it is */
    bool long_section;              /* its section lasts longer than a period */
    bool contained;                 /* it runs on its share of the CPUs only */
    const struct learned *learning; /* what learning costs and how it is done; NULL: nothing to say */
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
};

/* Writes a line with its end, at most WIRE_LINE_BYTES, for the caller to free(); NULL when there is no memory. A report
 * that would be longer leaves out, until it fits: learning and decomposition of processes that do not run, then of all;
 * points of those that do not run, then of all; at last the last processes. */
char *wire_write_report(const struct wire_report *report);

#endif
