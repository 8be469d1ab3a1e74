/* Where this agent listens, by vscaf/socket_path.h. */
#ifndef VSCAF_AGENT_SOCKET_PATH_H
#define VSCAF_AGENT_SOCKET_PATH_H

#include "vscaf/socket_path.h"

/* The path: `given`, else $VSCAF_SOCKET, else root's or this user's place, written to `own`. */
const char *socket_path_of_agent(const char *given, char own[VSCAF_PLACE_MOST]);

/* The same; this user's directory is made, for nobody else. NULL after saying why on stderr. */
const char *socket_path_to_listen(const char *given, char own[VSCAF_PLACE_MOST]);

#endif
