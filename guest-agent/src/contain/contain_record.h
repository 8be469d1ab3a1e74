/* What is to be put back should this agent be killed: a file beside its socket, read by the next agent there. */
#ifndef VSCAF_CONTAIN_RECORD_H
#define VSCAF_CONTAIN_RECORD_H

#include "contain/contained.h"

/* Writes what is to be put back, or removes the file where that is nothing. Returns 0 or -errno. */
int contain_record_write(struct contain *contain);

/* Fills the list. Returns 0, also when there is no record; or -errno. */
int contain_record_read(struct contain *contain);

#endif
