/* vscaf-agent --check: which things that the agent needs this guest has, and what to do if one is missing. */
#ifndef VSCAF_CHECK_H
#define VSCAF_CHECK_H

#include "system/options.h"

/* Prints a line for each thing. Returns the exit status: 0, or 1 if something that is needed is missing. */
int check_run(const struct options *options);

#endif
