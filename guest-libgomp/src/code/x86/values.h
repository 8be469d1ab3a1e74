/* The values that registers and stack slots have while a section's code is read. */
#ifndef VSCAF_GOMP_VALUES_H
#define VSCAF_GOMP_VALUES_H

#include <assert.h>
#include <string.h>

#include "code/object_view.h"
#include "code/x86/decode/instruction.h"

enum value_kind {
    VALUE_UNKNOWN,
    VALUE_NUMBER,  /* `offset`; open: counts up from it in steps */
    VALUE_ADDRESS, /* of the object: from its load address */
    VALUE_LOADED,  /* what lies at that address of the object: perhaps a distance from the thread pointer */
    VALUE_STACK,   /* from the stack pointer at the section's start */
    VALUE_THREAD,  /* from the thread pointer */
    VALUE_OWN,     /* into the object's own thread data, from its start */
    VALUE_OFFSET,  /* what added to the thread pointer is VALUE_OWN */
};

struct value {
    uint8_t kind; /* enum value_kind */
    bool open;    /* or more, by an amount that is not known */
    uint16_t step; /* by multiples of this, 0: not known */
    int32_t offset;
};

struct state {
    struct value registers[GPRS];
    bool reached;
};

/* The sum of two values, as an address calculation or an addition makes it. */
struct value value_add(const struct code_view *view, struct value one, struct value other);

/* `times` the value. */
struct value value_multiply(struct value value, int64_t times);

/* True: `value` is a pointer into the object's own thread data, and is then VALUE_OWN. Others' is left alone. */
bool value_own(const struct code_view *view, struct value *value);

static inline bool value_same(struct value one, struct value other)
{
    static_assert(sizeof one == 8, "struct value has no bytes between its members");
    return !memcmp(&one, &other, sizeof one);
}

/* What either of the two may be. True: `into` has changed. */
bool value_merge(struct value *into, struct value from);

/* The address of the instruction's memory operand; `next` is the address of the instruction behind it. */
struct value value_of_address(const struct code_view *view, const struct state *state,
                              const struct instruction *instruction, uintptr_t next);

static inline struct value value_number(int64_t number)
{
    if (number != (int32_t)number)
        return (struct value){.kind = VALUE_UNKNOWN};
    return (struct value){.kind = VALUE_NUMBER, .offset = (int32_t)number};
}

#endif
