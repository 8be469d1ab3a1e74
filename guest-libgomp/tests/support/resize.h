/* An agent that changes its mind all the time. */
#ifndef VSCAF_TEST_RESIZE_H
#define VSCAF_TEST_RESIZE_H

#include <stdint.h>

#define RESIZE_TEAM_MOST 4

/* Starts an agent whose page is resized at random between 1 and RESIZE_TEAM_MOST threads. `pace`: "ticks" (by
 * resize_tick, so in the middle of every construct), or the period in ms. */
void resize_begin(const char *pace);

/* To be called from wherever a construct works. */
void resize_tick(void);

/* How often the team got another size. */
unsigned resize_changes(void);

/* Ends it, and checks that the page was in use and that the team really changed. */
void resize_end(void);

#endif
