/* An idle process lends its CPUs to the others. It sends a packet, a call, when it wants them back (VSCAF_CONTROL_CALL,
 * page.h). No I/O and no clock. */
#ifndef VSCAF_LEND_H
#define VSCAF_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vscaf/page.h"

/* After a call that no computing followed, none is asked for during this time; twice as long after each more in a row.
 * Else a process that wakes for a moment now and then would resize everybody's team each time. */
#define LEND_QUIET_NS UINT64_C(500000000)
#define LEND_QUIET_MOST_NS UINT64_C(8000000000)

/* Packets in one period that answer nothing. An honest process sends one at most; who sends more is not listened to
 * before the next period. */
#define LEND_NOISE_MOST 2u

/* One process. Begin with all bytes zero. */
struct lend {
    bool asked;        /* it is to call: the bit is set on its page */
    bool called;       /* it did, and was not measured over a whole period since */
    uint32_t number;   /* of the last setting of the bit */
    uint32_t in_vain;  /* calls in a row that no computing followed */
    uint64_t quiet_ns; /* until then it is not asked */
    uint32_t noise;    /* packets in this period that answered nothing */
};

enum lend_packet {
    LEND_NO_CALL,   /* another packet */
    LEND_NOT_ASKED, /* a call that was not asked for */
    LEND_CALLED,    /* it runs: give its CPUs back */
};

/* Takes a packet that came from a joined process. */
enum lend_packet lend_take_packet(struct lend *lend, const void *packet, size_t length);

/* Whether its socket is left alone until the next period. */
bool lend_muted(const struct lend *lend);

/* A period of the agent begins. */
void lend_period(struct lend *lend);

/* It was measured over a whole period: whether it ran. */
void lend_measured(struct lend *lend, bool running, uint64_t now_ns);

/* What its page's control word has for this: bits to add. */
uint32_t lend_control(const struct lend *lend);

#endif
