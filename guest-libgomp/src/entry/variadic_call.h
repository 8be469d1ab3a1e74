/* A call with any number of arguments. Each is a word: a pointer or an integer. */
#ifndef VSCAF_GOMP_VARIADIC_CALL_H
#define VSCAF_GOMP_VARIADIC_CALL_H

#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define VSCAF_VARIADIC_CALL 1
#define VSCAF_ARGUMENTS_MIN 8 /* least length of the array: so many registers are filled, whatever the count */

typedef void any_function(void);

/* Calls function(arguments[0], ..., arguments[count - 1]). The function may be variadic. */
void variadic_call(any_function *function, uint64_t count, const uint64_t *arguments);
#endif

#endif
