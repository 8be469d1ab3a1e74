/* A program whose sections do what can be seen, and the harness that runs it beside serial experiments. */
#ifndef VSCAF_TEST_UNSEEN_H
#define VSCAF_TEST_UNSEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../support/agent.h"
#include "../../support/check.h"
#include "../../support/scripted_clock.h"
#include "papi/standin_papi.h"

#define INSTANCES_MOST 2000

enum outcome {
    ENDS,      /* experiments tell something */
    ABANDONED, /* the seal ends them */
    REFUSED,   /* there are none */
    EITHER,
};

struct course {
    void (*act)(void); /* in each section, on the master thread; NULL: nothing but computing */
    void (*before)(void), (*after)(void);
    enum outcome outcome; /* of two experiments at least */
    int signals;          /* SIGCHLD of the program's own, for each section */
    bool for_ever;        /* the child does not end by itself */
    bool more;            /* one section more, though the outcome is there */
};

struct act {
    const char *name;
    void (*run)(void);
};

extern const struct act unseen_calls[], unseen_memory[], unseen_refusals[], unseen_estimates[];
extern struct standin_script standin_script;
extern struct vscaf_page *page;
extern pid_t program;      /* a sealed child sees that it is another */
extern pid_t master;       /* the thread that runs the sections */
extern unsigned instances; /* of sections */
extern bool real_limits;    /* children have the limit by the wall clock that the shim sets */
extern bool without_limits; /* children have no limit of time at all */

/* In a sealed child: whether it asked for a limit by the wall clock, of half a second to one. */
bool wall_limited(void);

/* False in a sealed child. */
bool real(void);

uint64_t now_ns(clockid_t clock);

/* Something to do for a while, by CPU time. The clock that the shim reads goes on by as much, in each thread. */
double busy(double ms);

/* Children in the process table, zombies among them; the first one, and its state. */
int children(pid_t *first, char *state);

/* Between sections: no child, no zombie, nothing to wait for, no signal but these. */
void check_nothing_left(int signals);

/* In the program: waits until a child that runs beside it is through. */
void settle(void);

/* Runs sections until the experiments had their outcome, and checks that there was no other. Each section in which an
 * experiment runs lasts until the child is through. */
void sections(const struct course *course);

#endif
