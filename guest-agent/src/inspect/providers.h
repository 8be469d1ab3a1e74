/* Libraries that are expected to define the functions on which verdicts rely. */
#ifndef VSCAF_PROVIDERS_H
#define VSCAF_PROVIDERS_H

#include <stdbool.h>

/* Whether a file of this name is one of the C, C++, Fortran and OpenMP libraries, or the shim. */
bool provider_named(const char *path);

#endif
