/* The program's side of a join, as lean as can be: what the shim does, without the shim. */
#ifndef VSCAF_BENCH_JOINING_H
#define VSCAF_BENCH_JOINING_H

#include <stdint.h>
#include <sys/types.h>

#include "vscaf/page.h"

/* A joined process's socket and page; -1 and NULL where it could not join. */
struct joined {
    int fd;
    struct vscaf_page *page;
};

/* connect() alone. Returns the socket or -1. */
int joining_connect(const char *path);

/* The rest of a join: what the process is, and the page. */
struct joined joining_greet(int fd);

struct joined joining_join(const char *path);

/* Closes the socket and unmaps the page. */
void joining_leave(struct joined *joined);

/* A child that SIGKILL ends when its parent does; as fork(). */
pid_t joining_fork(void);

/* One section that takes about `turns` rounds of nothing, published as the shim does. */
void joining_section(struct vscaf_page *page, uint32_t turns);

/* Everything that a shim publishes: a full set of estimates around `seed`, learning's cost, a decomposition. */
void joining_publish(struct vscaf_page *page, uint32_t seed);

uint64_t joining_now_ns(void); /* CLOCK_MONOTONIC */

/* Says why on standard error and ends the process with status 1. */
_Noreturn void joining_fail(const char *what);

#endif
