/* Loops: what their turns change (loop_changes.c), how they divide work (loop_mode.c), what they wait for (loop_wait.c). */
#ifndef VSCAF_INSPECT_LOOP_H
#define VSCAF_INSPECT_LOOP_H

#include "follow.h"

/* What a loop does to one place. */
enum change { CHANGE_NONE, CHANGE_STEPS, CHANGE_CYCLES, CHANGE_DIGITS, CHANGE_RELOADED, CHANGE_ANY };
struct changing {
    uint16_t kind;
    uint16_t taints, flags;
    struct value step;
};

struct changes {
    struct changing registers[REGISTERS_GENERAL];
    struct changing vectors[REGISTERS - REGISTER_VECTOR];
    bool stack_changes, thread_changes; /* arrays there */
    int64_t arrays_from;
    struct changing slots[SLOTS_MAX];
    uint16_t stack_taints, thread_taints, stack_float_taints, thread_float_taints, spilled_taints;
    bool stack_sums, thread_sums, epoch;
    uint16_t exit_taints;
    bool stores[3];
    uint16_t turn_taints[4];
    bool wrong; /* a place was thought to change in steps, but does not: what followed from that must be forgotten */
};

/* Forgets what places hold. Of how they change, only that they do in no known way is kept, or all if `steps_too`. */
void loop_forget_changes(struct changes *changes, bool steps_too);

/* Names of places, for sums (struct value). 0 is none, and from 0x8000 on they are of arrays. */
uint16_t loop_origin_of_register(unsigned r);
uint16_t loop_origin_of_vector(unsigned v);
uint16_t loop_origin_of_slot(size_t i);

/* Whether both were loaded from one place of shared memory that all threads and turns find alike. */
bool loop_is_reloaded(const struct run *run, const struct value *one, const struct value *other);

/* Any turn's start: what the loop changes is unknown, or known by the number of the turn. */
void loop_make_turn(struct run *run, struct state *turn, const struct state *in, const struct changes *changes,
                    uint32_t instance, const struct frame *frame);

/* Learns from a turn's end what turns change. True: it was something new. */
bool loop_learn(struct run *run, struct frame *frame, int32_t loop, struct changes *changes, const struct state *in,
                const struct state *turn, const struct exits *exits, uint32_t instance);

/* Adds what the turns 0 .. counter - 1 have written to the state at a turn's start. */
void loop_add_earlier_turns(struct run *run, struct state *turn, const struct state *end, uint32_t counter, uint32_t instance);

/* Puts the number of turns in place of the counter. */
void loop_replace_counter(struct state *state, uint32_t counter, const struct value *by);

/* The number of turns after which the loop is left there. False: it is not known. */
bool loop_turns_until(struct run *run, const struct loop_exit *exit, uint32_t counter, uint32_t instance, struct value *turns);

/* Whether a way out is taken by all threads in their first turns, or by none. */
bool loop_leaves_at_once(const struct run *run, const struct loop_exit *exit, uint32_t instance);

/* How the loop divides work, by its ways out. *start: of a share, the symbol of its start. */
enum loop_mode loop_mode_of(struct run *run, const struct frame *frame, int32_t loop, const struct state *in,
                            const struct exits *exits, uint32_t instance, uint32_t *start);

/* What a loop is made of, for a look at it. */
struct looked {
    struct frame *frame;
    int32_t loop;
    const struct state *in;
    const struct changes *changes;
    uint32_t instance, counter;
    const struct state *earlier; /* what a turn's end says of earlier turns (loop_add_earlier_turns); NULL: nothing */
    uint64_t written;            /* registers, by bit */
};

/* Rejects a loop that waits for another thread. `loads`: whether its turns read shared memory at all. */
void loop_check_wait(struct run *run, struct looked *looked, const struct exits *exits, bool barrier, bool loads);

#endif
