/* What functions of other objects do with thread data that they are handed, by name. */
#ifndef VSCAF_GOMP_KNOWN_FUNCTIONS_H
#define VSCAF_GOMP_KNOWN_FUNCTIONS_H

#include <stdbool.h>

/* For each of the first arguments: 'w' written, 'r' read, '-' neither; behind the end: no such argument. NULL: nothing
 * is known of the function, it may do anything. A 'w' in front whose length is the third argument: capital 'W'. */
const char *known_effects(const char *name);

bool known_never_returns(const char *name);

#endif
