/* Makes slow system calls outside of the loop. To switch one CPU takes 50 to 330 ms, to change a partition 20 to 70 ms.
 * Under a loaded hypervisor both can take seconds. One thread of the agent owns all state. An order is copied to a
 * second thread, which makes these few system calls, touches nothing else, and ends. It is a thread and not a process,
 * because it needs no second copy of the agent and ends with it. */
#ifndef VSCAF_SWITCHER_H
#define VSCAF_SWITCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus/cpus.h"
#include "cpus/parking.h"

enum switch_kind { SWITCH_ONLINE, SWITCH_OFFLINE, SWITCH_PARK };

struct switch_order {
    enum switch_kind kind;
    uint32_t cpu;                /* SWITCH_ONLINE, SWITCH_OFFLINE */
    struct parking_order parked; /* SWITCH_PARK */
    const char *sysfs;           /* an argument of the program, so it is always valid */
    /* The result. */
    int status; /* 0 or -errno */
};

struct switcher_job;

struct switcher {
    int event; /* poll it: readable when an order is done; -1: none */
    struct switcher_job *job;
};

/* If there is no event, every order is carried out at once, in the calling thread. */
void switcher_open(struct switcher *switcher);

/* Waits at most two seconds for an order that is under way. False if it is stuck. */
bool switcher_close(struct switcher *switcher);

bool switcher_busy(const struct switcher *switcher);

/* Takes one order, when not busy. True if there was no thread for it and it is done already. Then no event comes. */
bool switcher_submit(struct switcher *switcher, const struct switch_order *order);

/* Call it when the event is readable. */
void switcher_clear_event(const struct switcher *switcher);

/* True once for each order, when it is done. *order is then the order as it was given, with the result. */
bool switcher_take_result(struct switcher *switcher, struct switch_order *order);

#endif
