/* vscaf-agent --check: what this guest has of what the agent needs, and how to mend what is missing. */
#ifndef VSCAF_CHECK_H
#define VSCAF_CHECK_H

#include "system/options.h"

/* Prints a line for each thing. Returns the exit status: 0 all that is needed is there, 1 something is missing. */
int check_run(const struct options *options);

#endif
