/* --check: the port to the host, the socket (or an agent that serves it already), the shim for programs. */
#ifndef VSCAF_CHECK_ENDS_H
#define VSCAF_CHECK_ENDS_H

#include "tell/check_lines.h"

void check_port(struct check *check);
void check_socket(struct check *check);
void check_shim(struct check *check);

#endif
