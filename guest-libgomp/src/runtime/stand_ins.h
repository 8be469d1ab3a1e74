/* Stand-ins for the functions of a runtime. A caller whose runtime lacks a symbol (a weak reference, or an object
 * without a runtime) gets the serial meaning of the construct. */
#ifndef VSCAF_GOMP_STAND_INS_H
#define VSCAF_GOMP_STAND_INS_H

#include "runtime/runtime.h"

/* Declares each of them as a function of its type. */
#define X(member, symbol, type, stand_in) type stand_in;
VSCAF_RUNTIME_FUNCTIONS(X)
#undef X

#endif
