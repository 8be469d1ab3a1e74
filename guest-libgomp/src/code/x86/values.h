/* The values that registers and stack slots have while a section's code is read. */
#ifndef VSCAF_GOMP_VALUES_H
#define VSCAF_GOMP_VALUES_H

#include <assert.h>
#include <string.h>

#include "code/object_view.h"
#include "code/x86/decode/instruction.h"

enum value_kind {
    VALUE_UNKNOWN,
    VALUE_NUMBER,  /* `offset`; open: counts up from there in steps */
    VALUE_ADDRESS, /* an address in the object; `offset` from its load address */
    VALUE_LOADED,  /* loaded from that address of the object: perhaps a distance from the thread pointer */
    VALUE_STACK,   /* `offset` from the stack pointer at the section's start */
    VALUE_THREAD,  /* `offset` from the thread pointer */
    VALUE_OWN,     /* in the object's own thread data; `offset` from its start */
    VALUE_OFFSET,  /* becomes VALUE_OWN when added to the thread pointer */
    VALUE_TEAM,    /* the team's size, unchanged since it was asked for; in all else like VALUE_UNKNOWN */
};

struct value {
    uint8_t kind; /* enum value_kind */
    bool open;    /* or more than `offset`, by an unknown amount */
    uint16_t step; /* that amount is a multiple of this; 0: not known */
    int32_t offset;
};

struct state {
    struct value registers[GPRS];
    bool reached;
};

/* For computations: only moves keep a VALUE_TEAM. */
static inline struct value value_plain(struct value value)
{
    return value.kind == VALUE_TEAM ? (struct value){.kind = VALUE_UNKNOWN} : value;
}

/* True if the value is not lost in a move of four bytes. */
static inline bool value_is_short(struct value value)
{
    return value.kind == VALUE_NUMBER || value.kind == VALUE_TEAM;
}

/* The sum of two values in an address or an addition. */
struct value value_add(const struct code_view *view, struct value one, struct value other);

/* The value, multiplied by `times`. */
struct value value_multiply(struct value value, int64_t times);

/* True: `value` points into the object's own thread data, and is now VALUE_OWN. A pointer to another object's thread
 * data is not changed. */
bool value_own(const struct code_view *view, struct value *value);

static inline bool value_equal(struct value one, struct value other)
{
    static_assert(sizeof one == 8, "struct value has no bytes between its members");
    return !memcmp(&one, &other, sizeof one);
}

/* Makes `into` cover both values. True: it has changed. */
bool value_merge(struct value *into, struct value from);

/* The address of the instruction's memory operand. `next` is the address of the next instruction. */
struct value value_of_address(const struct code_view *view, const struct state *state,
                              const struct instruction *instruction, uintptr_t next);

static inline struct value value_number(int64_t number)
{
    if (number != (int32_t)number)
        return (struct value){.kind = VALUE_UNKNOWN};
    return (struct value){.kind = VALUE_NUMBER, .offset = (int32_t)number};
}

#endif
