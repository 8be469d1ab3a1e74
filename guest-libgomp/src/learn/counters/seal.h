/* A child that nothing else can notice: a copy of the process that runs on by itself and cannot act on anything
 * outside.
 *
 * It has no descriptor, and its shared mappings are read-only. A seccomp filter lets through only calls that have no
 * effect outside, and time limits end it. wait() does not see it, and it sends no SIGCHLD. The process that made it
 * never waits for it. */
#ifndef VSCAF_GOMP_SEAL_H
#define VSCAF_GOMP_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum seal_state {
    SEAL_NEW = 0,
    SEAL_RUNS,     /* also: it ended without storing a state (exit, SIGKILL) */
    SEAL_FINISHED, /* it called seal_leave */
    SEAL_CALL,     /* it made a system call that has an effect outside; `detail` is its number */
    SEAL_FAULT,    /* it got a signal by its own fault, such as a write to shared memory; `detail` is its number */
    SEAL_TIME,     /* it reached a limit; `detail` is the signal of that limit */
    SEAL_REFUSED,  /* it is not safe, or the kernel does not support it; it never ran. `detail`: see seal.c */
};

struct seal_limits {
    uint32_t cpu_ms;
    uint32_t wall_ms;
    int niceness;
};

/* True in a sealed child, and never reset there. */
extern bool seal_inside;

/* False if this build cannot make sealed children (architecture, sanitizers). */
bool seal_supported(void);

/* Makes the child. Returns like fork, but in the child only after seal_go. -1: it cannot be made. Only one child at a
 * time, and only one thread may call. If the process forks, its sealed child stays the parent's. */
pid_t seal_clone(const struct seal_limits *limits);

/* Lets the child run. */
void seal_go(void);

/* In the child: ends it, without exit handlers. */
_Noreturn void seal_leave(void);

/* The state of the child. May be called at any time after seal_clone. */
enum seal_state seal_look(uint32_t *detail);

/* The child's CPU time so far; 0: unknown. Call it before seal_end. */
uint64_t seal_cpu_ns(void);

/* Ends the child if it still runs, and removes it from the process table. Returns the state before. This takes well
 * under a millisecond, unless no CPU is free for the child to end on. After 0.1 s it is left to the next call. */
enum seal_state seal_end(uint32_t *detail);

/* For a child made by fork: it has no sealed child. */
void seal_after_fork(void);

/* True: a child that was ended is not yet gone. */
bool seal_remains(void);

#endif
