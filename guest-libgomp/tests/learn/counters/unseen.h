/* A program whose sections have visible effects, and the harness that runs serial experiments next to them. */
#ifndef VSCAF_TEST_UNSEEN_H
#define VSCAF_TEST_UNSEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../support/agent.h"
#include "../../support/check.h"
#include "../../support/scripted_clock.h"
#include "papi/standin_papi.h"

#define INSTANCES_MAX 2000

enum outcome {
    ENDS,      /* experiments give a result */
    ABANDONED, /* the sandbox ends all experiments */
    REFUSED,   /* there are no experiments */
    EITHER,
};

struct scenario {
    void (*act)(void); /* in each section, on the master thread; NULL: only computing */
    void (*before)(void), (*after)(void);
    enum outcome outcome; /* of at least two experiments */
    int signals;          /* SIGCHLD of the program's own, for each section */
    bool for_ever;        /* the child does not end by itself */
    bool more;            /* one section more, even if the outcome is known already */
};

struct act {
    const char *name;
    void (*run)(void);
};

extern const struct act unseen_calls[], unseen_memory[], unseen_refusals[], unseen_estimates[];
extern struct standin_script standin_script;
extern struct vscaf_page *page;
extern pid_t program;      /* a sandboxed child has another PID */
extern pid_t master;       /* the thread that runs the sections */
extern unsigned instances; /* instances of sections so far */
extern bool real_limits;    /* children have the real-time limit that the shim sets */
extern bool cpu_limits;     /* and the limit of CPU time */
extern bool without_limits; /* children have no limit of time at all */
extern bool late_children;  /* children never get through the preparations for a section */

/* In a sandboxed child: whether it asked for a real-time limit of half a second to one second. */
bool wall_limited(void);

/* False in a sandboxed child. */
bool real(void);

uint64_t now_ns(clockid_t clock);

/* Computes for that much CPU time. In the program, the shim's clock advances by as much, for each thread. */
double busy(double ms);

/* The number of children in the process table, with zombies. Returns the first one's PID and state, too. */
int children(pid_t *first, char *state);

/* Between sections: checks that there is no child, no zombie, nothing to wait for, and no other signal. */
void check_nothing_left(int signals);

/* In the program: waits until a child that runs next to it has finished. */
void settle(void);

/* Runs sections until the experiments have had the expected outcome, and checks that there was no other. A section with
 * an experiment lasts until its child has finished. */
void run_scenario(const struct scenario *scenario);

#endif
