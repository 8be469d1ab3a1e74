/* Says whether the shim would find an agent. */
#ifndef VSCAF_GOMP_AGENT_THERE_H
#define VSCAF_GOMP_AGENT_THERE_H

#include <stdbool.h>

/* True if a process has opened one of the sockets of vscaf/socket_path.h, and this user may connect to it. */
bool agent_is_there(void);

#endif
