/* A file next to the agent's socket, with what must be put back. If this agent is killed, the next one at that socket
 * reads it. */
#ifndef VSCAF_CONTAIN_RECORD_H
#define VSCAF_CONTAIN_RECORD_H

#include "contain/contained.h"

/* Writes the file or, if there is nothing to put back, removes it. Returns 0 or -errno. */
int contain_record_write(struct contain *contain);

/* Fills the list from the file. Returns 0, also if there is no file; or -errno. */
int contain_record_read(struct contain *contain);

#endif
