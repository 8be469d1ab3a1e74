/* Following one section's code: every way through it, for any thread of any team. */
#ifndef VSCAF_INSPECT_RUN_H
#define VSCAF_INSPECT_RUN_H

#include "code.h"
#include "inspect.h"
#include "kept.h"
#include "known.h"
#include "state.h"

#define STEPS_MAX 6000000u /* instructions to follow for one section; about 2 s */
#define CALLS_MAX 16u      /* calls inside each other */
#define PLACES_MAX 48u

/* A place that is found by the thread's number or the team's size. */
struct numbered_place {
    uint64_t group;  /* the place without the number */
    int64_t offset, factor; /* of the thread's number */
    bool stored, loaded;
    bool waited; /* a loop waits for a place of this group */
    bool of_others; /* it may belong to another thread of the team */
    uint64_t at;
};

#define WAIT_SUMS_MAX 16u

/* A look at a loop that may wait for another thread (loop_wait.c). While it lasts, TAINT_LOADED stands for what other threads
 * may change from turn to turn, and TAINT_LOCK for what the turns themselves carry on. */
struct wait_look {
    uint32_t loop;  /* 0: there is none */
    bool floats;    /* only at floating-point numbers */
    bool still;     /* only at places that are the same in each turn */
    bool branches;  /* also at what branches decide */
    bool polls;     /* a branch depends on such a place alone */
    bool lost;      /* not all branches could be followed */
    uint64_t sums[WAIT_SUMS_MAX]; /* hashes of places that a turn adds to: what is read there, the turns carry on */
    size_t sum_count;
};

struct run {
    const struct elf_file *file;
    struct code *code;
    struct symbols symbols;
    bool kmpc; /* the section has the arguments of clang's runtime */

    bool silent; /* a first look at a loop: nothing is found yet */
    bool lenient; /* and it is not known yet what earlier turns of an inner loop have written */
    enum vscaf_reason reason;
    bool keeps; /* it may leave data in its threads (vscaf_verdict_keeps) */
    uint64_t at;
    const char *detail;
    struct inspect_known_set relies;
    struct kept_use *thread_data;

    uint64_t context; /* of the calls and turns that lead here */
    uint32_t loop;    /* the innermost loop instance */
    uint64_t steps;
    uint64_t call_number; /* of runs of functions */
    uint64_t barriers;    /* so far */
    int64_t taken;        /* the lowest place of the stack that a pointer may point to, so far */
    bool in_task;         /* any thread may run this */
    bool stores_integers; /* to shared memory, so far */
    bool epochs;          /* it is known to, so integers there may change while the section runs */
    unsigned calls;
    uint64_t entries[CALLS_MAX + 1];
    int64_t frames[CALLS_MAX + 1]; /* stack places where the functions' frames end */
    bool no_memory;

    uint64_t loads;       /* from shared memory, so far */
    bool stores_floats;   /* to shared memory, so far */
    bool waits_for_float; /* a loop ends when such a place changes; `waits_at` */
    uint64_t waits_at;
    struct wait_look look;

    bool uses_team; /* the team's size decides about something */
    bool heap_leaves, heap_numbers; /* memory of its own is given to others; it holds numbers */
    uint16_t heap_taints;
    struct numbered_place places[PLACES_MAX];
    size_t place_count;
};

/* The section needs the program's own number. The first reason stays. */
void run_reject(struct run *run, enum vscaf_reason reason, uint64_t at, const char *detail);
bool run_rejected(const struct run *run);
/* True if nothing more can change the result. */
bool run_settled(const struct run *run);

/* Taints of a condition that what it chooses has too. */
uint16_t run_choice_taints(const struct run *run);
/* An unknown number that is made from these. */
struct value run_unknown(struct run *run, uint64_t at, uint64_t from, uint16_t taints, uint32_t loop);

/* One of several values, as these decided. */
struct value run_chosen(struct run *run, uint64_t at, const struct value *value, uint16_t taints);

/* memory.c */
uint64_t memory_thread_bytes(const struct elf_file *file);
struct value memory_address(struct run *run, struct state *state, const struct operand *operand);
/* `holds`: what kind of number may be there. */
/* A name for a constant, as if it were a place that is loaded from. */
uint64_t memory_constant(int64_t number);
struct value memory_load(struct run *run, struct state *state, const struct value *address, unsigned bytes, enum holds holds,
                         uint64_t at);
enum store_kind { STORE_PLAIN, STORE_ATOMIC };
/* STORE_ATOMIC: what it replaces cannot have changed. */
void memory_store(struct run *run, struct state *state, const struct value *address, unsigned bytes,
                  const struct value *value, enum store_kind kind, enum holds holds, uint64_t at);
/* Adds a number to shared memory, for each thread that comes here. */
void memory_atomic_add(struct run *run, struct state *state, const struct value *address, unsigned bytes,
                       const struct value *value, uint64_t at);
/* `size` bytes from the address on are written. */
void memory_fill(struct run *run, struct state *state, const struct value *address, const struct value *size,
                 const struct value *value, uint64_t at);
/* Memory that a function may read or write. */
void memory_read_any(struct run *run, struct state *state, const struct value *address, const struct value *size, uint64_t at);
/* A pointer to the stack: what is found through pointers that are not known may be there. */
void memory_note_taken(struct run *run, const struct value *pointer);
/* What the memory from this address on may hold depends on. `size`: how many bytes; NULL: not known. */
uint16_t memory_held(const struct run *run, const struct state *state, const struct value *address, const struct value *size);
/* What a load from shared memory depends on: TAINT_LOADED, but for the rules of a look at a loop. */
uint16_t memory_loaded(const struct run *run, const struct value *address, bool floating);
/* The same of what was loaded before, and turns out to be a floating-point number. */
uint16_t memory_loaded_before(const struct run *run, const struct value *value);
/* A loop waits for places of this group (struct numbered_place). */
void memory_note_wait(struct run *run, uint64_t group);
/* Whether this place is executed by one thread of the team, or for each part of divided work. */
bool state_is_divided(const struct state *state);
uint16_t state_branch_taints(const struct state *state);

/* What chooses between two values, if it is thread < work % team, the formula for shares. */
struct formula {
    uint64_t work;   /* 0: it is something else */
    uint16_t way;    /* 1: the first of the two values is that of the threads below work % team; 2: the second is */
    uint16_t taints; /* of the comparison */
};

/* step.c */
struct value register_get(const struct state *state, unsigned number);
void register_set(struct state *state, unsigned number, const struct value *value);
/* What a register holds, vector registers too. */
struct value any_register_get(const struct state *state, unsigned number);
/* A vector register becomes something else. `keeps`: a part of it stays as it was. */
void vector_set(struct run *run, struct state *state, unsigned number, const struct value *value, bool keeps, uint64_t at);
void step_instruction(struct run *run, struct state *state, const struct instruction *instruction);
struct value step_select(struct run *run, struct state *state, uint64_t at, uint64_t place, const struct value *one,
                         const struct value *other, const struct formula *formula, bool *is_part);

/* merge.c: what `to` and `from` have in common, at this address. */
void merge_states(struct run *run, struct state *to, const struct state *from, uint64_t at);

/* share.c */
enum share_place { PLACE_START, PLACE_END, PLACE_SIZE };
/* Where the thread's part of that work begins, or ends. */
struct value share_part(struct run *run, uint64_t work, uint32_t loop, enum share_place place);
/* Recognizes where a part of divided work begins and ends, and whether the value depends on that or on the turn alone. */
void share_recognize(struct run *run, const struct state *state, struct value *value);
/* Work by the team's size. False: it is not. */
bool share_divide(struct run *run, const struct value *work, const struct value *team, struct value *quotient,
                  struct value *rest);
/* Where a share begins, divided by a number: the first of the numbers of nested loops that were made one. False: it is
 * something else that is divided. */
bool share_split(struct run *run, const struct value *start, const struct value *divisor, struct value *quotient,
                 struct value *rest);
/* The same, as compilers divide by a constant: a multiple of the start, shifted to the right. */
bool share_split_by_constant(struct run *run, const struct value *product, unsigned shift, struct value *quotient);
/* The smaller of where a part ends and a limit that is the same for all: there the part ends then. */
bool share_clip(struct run *run, const struct value *smaller, const struct value *larger, struct value *clipped);
/* The symbol of such a number in a turn of a loop, and in the turn after that. */
uint32_t share_digit(struct run *run, uint32_t instance, uint32_t of);
uint32_t share_next(struct run *run, uint32_t digit);
/* What a place that had `in` before the loop has in a turn, or at its end (`next`), if these numbers are counted on. */
bool share_as_digits(struct run *run, const struct value *in, uint32_t instance, bool next, struct value *digits);
/* A rest is smaller than its divisor. */
void share_bound_digits(struct run *run, struct state *turn, const struct value *value);
/* If the difference, which is not 0, tells that a rest may be counted on: what is known then. */
bool share_not_last_digit(struct run *run, const struct value *difference, struct value *bound);
/* One way counts the rest on, the other begins with the next quotient: the result, where they meet. */
bool share_next_digits(struct run *run, const struct state *one_state, const struct value *one, const struct state *other_state,
                       const struct value *other, struct value *next);
/* Which way of thread < work % team, the formula by which compilers divide work, is open; a condition says that it holds (1)
 * or does not (2); and the work, if a comparison is that. 0: none. */
uint16_t share_way(const struct state *state, uint64_t work);
uint16_t share_condition_way(const struct run *run, const struct value *left, uint16_t condition);
uint64_t share_condition_divides(const struct run *run, const struct value *left, const struct value *right);

/* call.c. False: it does not return. */
bool call_target(struct run *run, struct state *state, const struct instruction *call, bool jump);

/* follow.c */
/* Follows a function; `state` becomes that at its return. False: it does not return. */
bool follow_function(struct run *run, uint64_t entry, struct state *state, uint64_t from);

#endif
