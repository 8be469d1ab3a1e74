/* `vscaf-agent --status`: asks the running agent, and prints the answer. */
#ifndef VSCAF_STATUS_SHOW_H
#define VSCAF_STATUS_SHOW_H

#include "system/options.h"

/* Returns the exit status: 0, or 1 after printing the reason on stderr. */
int status_show(const struct options *options);

#endif
