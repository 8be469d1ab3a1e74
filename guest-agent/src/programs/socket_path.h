/* Finds the path where this agent listens, by the rules of vscaf/socket_path.h. */
#ifndef VSCAF_AGENT_SOCKET_PATH_H
#define VSCAF_AGENT_SOCKET_PATH_H

#include "vscaf/socket_path.h"

/* Returns the path: `given`, else $VSCAF_SOCKET, else root's or this user's place, which it writes to `own`. */
const char *socket_path_of_agent(const char *given, char own[VSCAF_SOCKET_PATH_BYTES]);

/* The same. Also makes this user's directory, with no access for others. NULL after logging the reason. */
const char *socket_path_to_listen(const char *given, char own[VSCAF_SOCKET_PATH_BYTES]);

#endif
