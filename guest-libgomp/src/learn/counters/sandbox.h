/* A child that nothing else can notice: a copy of the process that runs on by itself and cannot act on anything
 * outside.
 *
 * It has no descriptor, and its shared mappings are read-only. A seccomp filter lets through only calls that have no
 * effect outside, and time limits end it. wait() does not see it, and it sends no SIGCHLD. The process that made it
 * never waits for it. */
#ifndef VSCAF_GOMP_SANDBOX_H
#define VSCAF_GOMP_SANDBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum sandbox_state {
    SANDBOX_NEW = 0,
    SANDBOX_RUNS,     /* also: it ended without storing a state (exit, SIGKILL) */
    SANDBOX_FINISHED, /* it called sandbox_exit */
    SANDBOX_CALL,     /* it made a system call that has an effect outside; `detail` is its number */
    SANDBOX_FAULT,    /* it got a signal by its own fault, such as a write to shared memory; `detail` is its number */
    SANDBOX_TIME,     /* it reached a limit; `detail` is the signal of that limit */
    SANDBOX_REFUSED,  /* it is not safe, or the kernel does not support it; it never ran. `detail`: see sandbox.c */
};

struct sandbox_limits {
    uint32_t cpu_ms;
    uint32_t wall_ms;
    int niceness;
};

/* True in a sandboxed child, and never reset there. */
extern bool sandbox_inside;

/* False if this build cannot make sandboxed children (architecture, sanitizers). */
bool sandbox_supported(void);

/* Makes the child. Returns like fork, but in the child only after sandbox_start. -1: it cannot be made. Only one child
 * at a time, and only one thread may call. If the process forks, its sandboxed child stays the parent's. */
pid_t sandbox_clone(const struct sandbox_limits *limits);

/* Lets the child run. */
void sandbox_start(void);

/* In the child: ends it, without exit handlers. */
_Noreturn void sandbox_exit(void);

/* The state of the child. May be called at any time after sandbox_clone. */
enum sandbox_state sandbox_read_state(uint32_t *detail);

/* The child's CPU time so far; 0: unknown. Call it before sandbox_end. */
uint64_t sandbox_cpu_ns(void);

/* Ends the child if it still runs, and removes it from the process table. Returns the state before. This takes well
 * under a millisecond, unless no CPU is free for the child to end on. After 0.1 s it is left to the next call. */
enum sandbox_state sandbox_end(uint32_t *detail);

/* For a child made by fork: it has no sandboxed child. */
void sandbox_after_fork(void);

/* True: a child that was ended is not yet gone. */
bool sandbox_child_remains(void);

#endif
