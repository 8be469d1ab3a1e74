/* `vscaf-agent --status`: asks the running agent, prints what it says. */
#ifndef VSCAF_STATUS_SHOW_H
#define VSCAF_STATUS_SHOW_H

#include "system/options.h"

/* Returns the exit status: 0, or 1 after saying why on stderr. */
int status_show(const struct options *options);

#endif
