/* What is known at one point of a section's code, for any thread of the team. */
#ifndef VSCAF_INSPECT_STATE_H
#define VSCAF_INSPECT_STATE_H

#include "instruction.h"
#include "value.h"

#define SLOTS_MAX 384u
#define RANGES_MAX 48u
#define BOUNDS_MAX 64u
#define BRANCHES_MAX 24u

/* Places of the thread's own memory with a fixed distance from its start. Thread data has the places from THREAD_PLACES
 * on. */
#define THREAD_PLACES (INT64_C(1) << 40)

struct slot {
    int64_t place;
    uint16_t bytes;
    uint16_t holds; /* enum holds */
    bool saved;    /* pushed: no part of an array */
    struct value value;
};

/* Own memory from `low` up to `high` that this section has written, in every thread and on every way to here. */
struct range {
    struct value low, high;
    bool earlier; /* before this turn of divided work */
};

/* A branch that is open: its two ways have not met again yet. */
struct open_branch {
    uint64_t function; /* which run of a function */
    int32_t joins;     /* the block where they meet; -1: at the function's end */
    uint16_t taints;    /* what its condition depends on */
    uint16_t ways;      /* that lead to here: 1, 2, or 3 for both */
    bool once;         /* this way is taken by one thread of the team */
    uint16_t divides;   /* by thread < work % team, the formula for shares: 1 on this way it is true, 2 it is not, 3 both */
    uint64_t work;      /* of that formula */
    bool guard;        /* it tells only threads without any work apart: what is done on this way is done for each turn */
};

/* What a vector register holds. Its symbol says only whether it is still the same. */
struct vector {
    uint32_t symbol;
    uint16_t taints, flags;
    uint16_t origin; /* value.h */
    uint64_t loaded; /* a hash of the place of shared memory from which it was loaded, the same for all threads and turns; 0: none */
};

struct state {
    bool reached;
    bool carries; /* the flags are those of a sum: as numbers without a sign, nothing was compared */
    uint16_t compared_bits;
    uint32_t flags_kept; /* flags that are older than `left` and `right`, by bit */
    uint16_t in_share; /* loops around whose turns are shares of divided work */
    uint16_t locks;    /* critical sections around */
    /* What arrays there may hold: integers and addresses, and floating-point numbers. */
    uint16_t stack_taints, thread_taints, stack_float_taints, thread_float_taints;
    uint16_t turn_taints[4]; /* the same four, of what was stored in this turn of divided work */
    uint16_t spilled_taints; /* what fixed places of the stack may hold that are no longer known */
    bool stack_sums, thread_sums; /* arrays there hold nothing but sums (FLAG_SUM) */
    uint64_t stack_version, thread_version; /* of what arrays there hold: another one after each store */
    int64_t arrays_from; /* the lowest place of the stack that may be in an array that was written */
    uint16_t slot_count, range_count, bound_count, branch_count;
    uint64_t epoch; /* of shared memory: integers that were loaded at the same epoch from the same place are equal */
    uint32_t epoch_loop;
    uint32_t halves; /* registers by bit: the upper half is 0, because only the lower one was written */
    struct value registers[REGISTERS_GENERAL];
    struct vector vectors[REGISTERS - REGISTER_VECTOR];
    struct value left, right; /* the flags stand for left - right */
    struct open_branch branches[BRANCHES_MAX];
    struct value bounds[BOUNDS_MAX]; /* sums that are at most 0 */
    struct range ranges[RANGES_MAX];
    struct slot slots[SLOTS_MAX];
};

void state_copy(struct state *to, const struct state *from);

struct slot *state_slot(struct state *state, int64_t place, unsigned bytes);
/* Forgets what overlaps, but remembers it nowhere. */
void state_forget_places(struct state *state, int64_t from, int64_t end, bool pointers_too);
/* False: there is no room. Then the place is not known. */
bool state_set_slot(struct state *state, int64_t place, unsigned bytes, const struct value *value, enum holds holds);
void state_taint_own(struct state *state, bool thread, enum holds holds, uint16_t taints);
/* What its arrays may hold. */
/* `this_turn`: of what was stored in this turn of divided work. */
uint16_t state_own_taints(const struct state *state, bool thread, enum holds holds, bool this_turn);
/* What a slot holds may be in an array from now on. */
void state_taint_slot(struct state *state, const struct slot *slot);

void state_add_range(struct state *state, const struct value *low, const struct value *high, bool earlier);
/* True if the sum is at least 0 wherever the state's bounds hold. */
bool state_at_least_zero(const struct state *state, const struct value *sum);
void state_add_bound(struct state *state, const struct value *at_most_zero);

#endif
