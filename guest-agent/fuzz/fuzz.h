/* Shared by the fuzz targets: code that takes an input apart, and a cheap test environment for an agent. */
#ifndef VSCAF_FUZZ_H
#define VSCAF_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/messages.h"
#include "programs/peer.h"

extern int fuzz_stderr; /* the original stderr; -close_fd_mask=2 discards the agent's own log */

/* Aborts if `condition` is false. It must hold for every input. */
#define MUST(condition)                                                                         \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            dprintf(fuzz_stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                            \
        }                                                                                       \
    } while (0)

/* The bytes of an input, read from the front. Past the end, reads return zeros. */
struct bytes {
    const uint8_t *at;
    size_t left;
};

uint64_t take_number(struct bytes *bytes, size_t size);

/* Takes at most `most` bytes; their number is in *length. */
const char *take_bytes(struct bytes *bytes, size_t most, size_t *length);

/* A new agent with four CPUs under ./sys that can be switched, and its /proc under ./proc: plain files. `clients`
 * processes have joined it. Each has an empty page and runs in another PID namespace. There is only one agent: each
 * call resets it. */
struct agent *agent_reset(uint32_t clients);

#define FUZZ_CPUS 4
#define FUZZ_CLIENTS_MAX 3u

/* Removes the file that switches a CPU on and off. For CPU 0, which has none: brings all such files back. */
void fix_cpu(uint32_t cpu);

void write_file(const char *path, const char *text, size_t length);

/* Takes every line that the agent wants to send, and checks that each is a message as wire/README.md defines it.
 * Returns their number. */
int check_lines(struct agent *agent);

/* Checks what must hold for the shares after a period. */
void check_agent(const struct agent *agent);

#endif
