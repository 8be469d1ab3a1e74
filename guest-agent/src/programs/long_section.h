/* Measures sections that last longer than LONG_SECTION_NS from outside: the page has nothing about them before they
 * end. */
#ifndef VSCAF_LONG_SECTION_H
#define VSCAF_LONG_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "programs/clients.h"

/* Shorter sections do not count as long. While others compete, a process in a long section wants only the CPUs that its
 * threads use. If that began earlier, a program with sections of half a second would change its demand several times a
 * second. */
#define LONG_SECTION_NS UINT64_C(1000000000)

/* Reads the counts of sections once a period. True: a section started or ended in the period. */
bool long_section_count(struct client *client, uint64_t now_ns);

/* Counts the threads that run in long sections. `proc`: the place of procfs. *turn: the slot whose threads are read
 * first. It moves on if there were too many threads for one period. */
void long_section_period(struct clients *clients, const char *proc, uint32_t *turn, uint64_t now_ns);

#endif
