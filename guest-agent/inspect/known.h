/* Functions of other objects of which the rules know what they do. */
#ifndef VSCAF_INSPECT_KNOWN_H
#define VSCAF_INSPECT_KNOWN_H

#include <stdbool.h>

#include "inspect.h"

enum known_class {
    KNOWN_PLAIN,   /* does what its effects say and nothing else */
    KNOWN_MEMORY,  /* returns new memory */
    KNOWN_OUTPUT,  /* writes to a file: once for each call */
    KNOWN_RUNTIME, /* of the OpenMP runtime; call.c has what each does */
    KNOWN_NUMBER,  /* the thread's number */
    KNOWN_TEAM,    /* the team's size */
    KNOWN_TOLD,    /* a number that the program is told; the same for all threads */
    KNOWN_BARRIER,
    KNOWN_SHARE,   /* writes a share of divided work to its arguments, and returns whether there is one */
    KNOWN_ONCE,    /* returns not 0 in one thread */
    KNOWN_LOCK,
    KNOWN_UNLOCK,
    KNOWN_TASK,
    KNOWN_REGION, /* runs a function in a team of its own */
    KNOWN_ENDS,   /* never returns */
};

struct known_function {
    const char *name;
    unsigned char class;
    /* For each argument: r read, w 8 bytes are written, v 4 bytes, u 16 bytes, W as many bytes as the third argument says,
     * R read so, i an address that is used for the call only, - a number. f is a floating-point number, in a register of its
     * own kind. What a plain function returns and writes depends on all of these, and on all that it reads. */
    const char *effects;
};

/* NULL: the function is not known. `number`: its number in struct inspect_known_set. */
const struct known_function *known_function(const char *name, unsigned *number);

bool known_never_returns(const char *name);

#endif
