/* An agent that changes the team size all the time. */
#ifndef VSCAF_TEST_RESIZE_H
#define VSCAF_TEST_RESIZE_H

#include <stdint.h>

#define RESIZE_TEAM_MAX 4

/* Starts an agent whose page is resized at random between 1 and RESIZE_TEAM_MAX threads. `pace` is "ticks" (by calls
 * of resize_tick, in the middle of constructs), or the period in ms. */
void resize_begin(const char *pace);

/* Constructs call this while they work. */
void resize_tick(void);

/* How often the team size changed. */
unsigned resize_changes(void);

/* Ends the agent. Checks that the page was used and that the team size really changed. */
void resize_end(void);

#endif
