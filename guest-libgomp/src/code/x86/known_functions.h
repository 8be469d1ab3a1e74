/* What known functions of other objects do with thread data that they get as an argument. */
#ifndef VSCAF_GOMP_KNOWN_FUNCTIONS_H
#define VSCAF_GOMP_KNOWN_FUNCTIONS_H

#include <stdbool.h>

/* One letter for each argument, from the first: 'w' written, 'r' read, '-' neither. There are no arguments after the
 * end of the string. A 'W' is written with the length in the third argument. NULL: the function is not known, so it may
 * do anything. */
const char *known_effects(const char *name);

bool known_never_returns(const char *name);

#endif
