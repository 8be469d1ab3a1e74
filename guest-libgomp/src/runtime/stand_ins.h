/* What stands in for the functions of a runtime: a caller whose runtime has no such symbol (a weak reference, an object
 * without a runtime) gets the serial meaning of the construct. */
#ifndef VSCAF_GOMP_STAND_INS_H
#define VSCAF_GOMP_STAND_INS_H

#include "runtime/runtime.h"

/* Each of them, as a function of its type. */
#define X(member, symbol, type, stand_in) type stand_in;
VSCAF_RUNTIME_FUNCTIONS(X)
#undef X

#endif
