/* The state of reading one section's code. */
#ifndef VSCAF_GOMP_INSPECTION_H
#define VSCAF_GOMP_INSPECTION_H

#include "code/x86/code.h"
#include "code/x86/values.h"
#include "code/x86/written.h"

#define INSPECT_STATES 3072u /* blocks of all functions that are being followed, one inside another */
#define INSPECT_SLOTS 96u
#define INSPECT_FOLLOWED 256u

#define ARGUMENTS 6u

struct slot {
    int32_t offset;
    struct value value;
};

/* A function that was followed, with its arguments that point to thread data. */
struct followed {
    const struct code_function *function;
    struct value arguments[ARGUMENTS];
    struct value result;
    bool master;
};

/* The single values come before the arrays: see struct code. */
struct inspection {
    const struct code_view *view;
    struct code_findings findings;
    size_t slot_count;
    size_t states_used;
    size_t followed_count;
    uint32_t steps;
    bool thread_number;
    bool initial_exec; /* the object has relocations that may refer to thread data of others */
    bool team_size;
    bool asked; /* the program is told a number within the section */
    bool master; /* only thread 0 comes here, and each team has that thread */
    bool recording; /* false: only values are computed, to learn what loops do */
    uint32_t block;
    uintptr_t at; /* address of the present instruction */
    struct code code;
    struct written_set written;
    struct slot slots[INSPECT_SLOTS];
    struct state states[INSPECT_STATES];
    struct followed followed[INSPECT_FOLLOWED];
};


#endif
