/* --check: who is at the other ends: the host, an agent that runs already, the programs. */
#ifndef VSCAF_CHECK_ENDS_H
#define VSCAF_CHECK_ENDS_H

#include "tell/check_lines.h"

void check_port(struct check *check);
void check_socket(struct check *check);
void check_shim(struct check *check);

#endif
