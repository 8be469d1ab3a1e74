/* What the fuzz targets share: taking an input apart, and surroundings of an agent that cost little. */
#ifndef VSCAF_FUZZ_H
#define VSCAF_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/messages.h"
#include "programs/peer.h"

extern int fuzz_words; /* stderr as it was; the agent's own log goes nowhere (-close_fd_mask=2) */

/* What must hold, whatever the input. */
#define MUST(truth)                                                                            \
    do {                                                                                       \
        if (!(truth)) {                                                                        \
            dprintf(fuzz_words, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #truth);     \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

/* The bytes of an input, from the front. At its end come zeros. */
struct bytes {
    const uint8_t *at;
    size_t left;
};

uint64_t take_number(struct bytes *bytes, size_t size);

/* At most `most` bytes; how many in *length. */
const char *take_bytes(struct bytes *bytes, size_t most, size_t *length);

/* An agent with four CPUs under ./sys, which may be switched, and its /proc under ./proc: plain files. `clients`
 * processes have joined it, each with an empty page, in another PID namespace. There is one agent: it begins anew at
 * each call. */
struct agent *agent_anew(uint32_t clients);

#define FUZZ_CPUS 4
#define FUZZ_CLIENTS_MOST 3u

/* Takes the file away by which a CPU is switched, or brings all back (CPU 0, which has none). */
void fix_cpu(uint32_t cpu);

void write_file(const char *path, const char *text, size_t length);

/* Takes every line that the agent has to say, each of which must be a message as wire/README.md says. Returns how many.
 */
int check_lines(struct agent *agent);

/* What must hold of the shares after a period. */
void check_agent(const struct agent *agent);

#endif
