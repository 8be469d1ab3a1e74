/* An idle process lends its CPUs to the others. When it wants them back, it sends a packet, a call (VSCAF_CONTROL_CALL
 * in page.h). No I/O and no clock. Rules: docs/splitting.md. */
#ifndef VSCAF_LEND_H
#define VSCAF_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vscaf/page.h"

/* If no computing follows a call, the process is not asked to call for this time. Each further such call in a row
 * doubles the time. Otherwise a process that wakes for a moment now and then would resize all teams each time. */
#define LEND_BACKOFF_NS UINT64_C(500000000)
#define LEND_BACKOFF_MAX_NS UINT64_C(8000000000)

/* Calls in one period that were not asked for. An honest process sends at most one. A process that sends more than this
 * is ignored until the next period. */
#define LEND_UNREQUESTED_MAX 2u

/* One process. The caller fills the struct with zero bytes first. */
struct lend {
    bool call_requested;        /* it should call when it starts a section: the bit is set on its page */
    bool called;                /* it called, and has not been measured over a whole period since */
    uint32_t number;            /* counts how often the bit was set; a call repeats it */
    uint32_t fruitless_calls;   /* calls in a row that were not followed by computing */
    uint64_t ask_ns;            /* it is not asked before this time */
    uint32_t unrequested_calls; /* calls in this period that were not asked for */
};

enum lend_packet {
    LEND_NO_CALL,     /* another packet, not a call */
    LEND_UNREQUESTED, /* a call that was not asked for */
    LEND_CALLED,      /* the process runs: give its CPUs back */
};

/* Takes a packet from a joined process. */
enum lend_packet lend_take_packet(struct lend *lend, const void *packet, size_t length);

/* Whether its socket is not read until the next period. */
bool lend_muted(const struct lend *lend);

/* A period of the agent begins. */
void lend_period(struct lend *lend);

/* Call it when the process was measured over a whole period. `running`: it ran. */
void lend_measured(struct lend *lend, bool running, uint64_t now_ns);

/* The bits that lending adds to the control word of its page. */
uint32_t lend_control(const struct lend *lend);

#endif
