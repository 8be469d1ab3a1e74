/* A child that cannot be seen: a copy of the process that runs on by itself, and whose every way out is shut.
 *
 * It holds no descriptor, its shared mappings are read-only, a seccomp filter lets through the calls alone that nobody
 * outside can notice, and time limits end it. It is no child to wait() and sends no SIGCHLD. The process that made it
 * never waits for it.
 */
#ifndef VSCAF_GOMP_SEAL_H
#define VSCAF_GOMP_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum seal_state {
    SEAL_NEW = 0,
    SEAL_RUNS,     /* also: gone without a word (exit, SIGKILL) */
    SEAL_FINISHED, /* came to seal_leave */
    SEAL_CALL,     /* made a system call that could be seen; `detail` is its number */
    SEAL_FAULT,    /* a signal of its own doing, as a write to shared memory; `detail` is its number */
    SEAL_TIME,     /* a limit was reached; `detail` is the signal that said so */
    SEAL_REFUSED,  /* not safe, or not supported by the kernel; never ran. `detail`: see seal.c */
};

struct seal_limits {
    uint32_t cpu_ms;
    uint32_t wall_ms;
    int niceness;
};

/* True in a sealed child, and for ever there. */
extern bool seal_inside;

/* Whether this build can make such children at all (architecture, sanitizers). */
bool seal_supported(void);

/* Makes the child. Returns like fork, the child only after seal_go; -1 where it cannot be made. One at a time, and from
 * one thread at a time. A process that forks leaves its sealed child to the parent. */
pid_t seal_clone(const struct seal_limits *limits);

/* Lets it run. */
void seal_go(void);

/* In the child: the end, without exit handlers. */
_Noreturn void seal_leave(void);

/* How far it is; may be called at any time after seal_clone. */
enum seal_state seal_look(uint32_t *detail);

/* Its CPU time so far; 0: unknown. Before seal_end. */
uint64_t seal_cpu_ns(void);

/* Ends it if it runs, and takes it off the process table. How it stood before. That takes well under a
 * millisecond, but where no CPU is free for the child to die on: after 0.1 s it is left to the next call. */
enum seal_state seal_end(uint32_t *detail);

/* In a child of the program's, made by fork: it has no sealed child. */
void seal_after_fork(void);

/* True: a child that was ended has not gone yet. */
bool seal_remains(void);

#endif
