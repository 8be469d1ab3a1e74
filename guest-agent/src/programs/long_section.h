/* Sections that last longer than a period, seen from outside: the page says nothing about them before they end. */
#ifndef VSCAF_LONG_SECTION_H
#define VSCAF_LONG_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "programs/clients.h"

/* Takes the sections' counts of one period. True: a section started or ended in it. */
bool long_section_count(struct client *client);

/* Counts the threads that run in the long sections. `proc`: where the processes are. *turn: whose threads are read
 * first; it moves on where there were too many for one period. */
void long_section_period(struct clients *clients, const char *proc, uint32_t *turn, uint64_t now_ns);

#endif
