/* What is known of a number or an address: a sum of symbols with factors, and a constant. Symbols stand for things whose
 * number is not known: what was loaded from a place, the turns of a loop, the thread's number. Equal symbols are equal
 * numbers. Sums count as exact: C leaves signed overflow undefined, and an index that overflows is wrong without vscaf
 * too. */
#ifndef VSCAF_INSPECT_VALUE_H
#define VSCAF_INSPECT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VALUE_TERMS 14u

/* What a number is relative to. */
enum space {
    SPACE_NUMBER, /* nothing; if it is used as an address, a place that other threads can reach */
    SPACE_STACK,  /* the thread's stack at the section's start */
    SPACE_THREAD, /* the object's own thread data */
    SPACE_HEAP,   /* memory that the section has allocated itself */
    SPACE_IMAGE,  /* the object's own address 0 */
};

/* What it depends on. */
enum taint {
    TAINT_THREAD = 1,   /* the thread's number */
    TAINT_TEAM = 2,     /* the team's size */
    TAINT_SHARE = 4,    /* which part of divided work is the thread's: where it begins and ends, what earlier turns left */
    TAINT_STACK = 8,    /* it may be an address of the thread's stack */
    TAINT_PRIVATE = 16, /* it may be an address of the object's thread data */
    TAINT_LOADED = 32,  /* shared memory, as it was read */
    TAINT_LOCK = 64,    /* what an exchange took from shared memory */
    TAINT_TURN = 128,   /* which turn of divided work it is: the same whoever does it */
    TAINT_HEAP = 256,   /* it may be an address of memory that the section has allocated itself */
};
#define TAINTS_NUMBER (TAINT_THREAD | TAINT_TEAM)
#define TAINTS_OWN (TAINT_STACK | TAINT_PRIVATE)
#define TAINTS_MEMORY (TAINTS_OWN | TAINT_HEAP)

enum value_flag {
    FLAG_SUM = 1,  /* 0, plus what this thread's share of divided work has added */
    FLAG_SELF = 2, /* what was read from shared memory, plus such a sum */
    FLAG_UPWARD = 4, /* of an address: what is added to the constant part is not negative */
};

struct term {
    uint32_t symbol;
    int64_t factor;
};

struct value {
    uint16_t space;
    uint16_t count;
    uint16_t taints;
    uint16_t flags;
    uint16_t origin; /* with FLAG_SUM: the place whose content at the turn's start it has, plus what the turn added; 0: none */
    bool half; /* it went through 32 bits: its lower half is right, its upper one may be all of the sign or 0 */
    int64_t offset;
    uint64_t loaded; /* of what a vector register holds: a hash of the place of shared memory, the same for all; 0: none */
    struct term terms[VALUE_TERMS]; /* by symbol */
};

enum symbol_kind {
    SYMBOL_OTHER,
    SYMBOL_LOAD,    /* from shared memory */
    SYMBOL_THREAD,  /* the thread's number */
    SYMBOL_TEAM,    /* the team's size */
    SYMBOL_TEAM_BOUNDED, /* the smaller of the team's size and a number that is the same for all threads */
    SYMBOL_COUNTER, /* the turn of a loop, from 0 on */
    SYMBOL_PRODUCT, /* of two symbols */
    SYMBOL_QUOTIENT, /* of work by the team's size */
    SYMBOL_REST,
    SYMBOL_PART, /* the share of a thread: quotient, or one more */
    SYMBOL_LATER, /* the rest, or 0 */
    SYMBOL_START, /* where a thread's share begins */
    SYMBOL_HIGH,  /* where a share begins, divided by a number that is the same for all threads: `right` is the rest's */
    SYMBOL_LOW,   /* the rest: `left` is the start's symbol, `right` the quotient's, the limit is the divisor */
    SYMBOL_DIGIT, /* in place of one of these in a turn of the loop: `left` is its symbol */
    SYMBOL_NEXT,  /* and in the next turn: `left` is the digit's symbol */
    SYMBOL_MORE,  /* whether there is another chunk of divided work; of sections also which */
    SYMBOL_CYCLE, /* the turn's number where a thread begins at its own and goes on by the team's size */
    SYMBOL_ONCE,  /* not 0 in one thread of the team */
    SYMBOL_TURN,  /* during a first look at a loop: what a place has at the start of a turn */
};

struct symbol {
    uint64_t key;
    uint16_t kind;
    uint16_t taints;         /* of a load: those of its address */
    uint16_t bytes;          /* of a load */
    bool has_most;          /* of a counter: `most` is known */
    bool some;              /* of a part: it has one turn or more */
    bool partial;           /* it depends on which part of divided work is the thread's (TAINT_SHARE) */
    bool steps;             /* of a turn's start: it goes on by the team's size. Of a load: so does its address, or by a step */
    uint32_t loop;          /* the loop in which it differs from turn to turn; 0: none */
    uint32_t left, right;   /* symbols of a product. Of a load: left is the loop in which its address differs */
    uint64_t work;          /* hash of the work that is divided. Of a load: the group of its address (memory.c) */
    uint32_t most;          /* of a counter: which of the limits is the turn in which the loop is left, at the latest */
};

struct state;

/* How a loop divides work among the threads. */
enum loop_mode {
    LOOP_WHOLE,  /* it does not: each thread takes every turn */
    LOOP_SHARE,  /* from the start of the thread's part to its end, each turn once */
    LOOP_CYCLES, /* from the thread's number on by the team's size, each turn once */
    LOOP_CHUNKS, /* a chunk of work for each turn, as the runtime gives them */
};

/* One run of a loop inside others. */
struct loop_instance {
    uint32_t outer;
    bool yields; /* its turns let other threads run */
    uint64_t key;
    uint32_t counter; /* its symbol */
    uint16_t mode;     /* enum loop_mode */
    uint32_t start;   /* LOOP_SHARE: the symbol of the part's start */
    bool stores_stack, stores_thread, stores_heap; /* a turn stores to arrays there */
    const struct state *before; /* while it is followed: what is known before its first turn */
};

struct symbols {
    struct symbol *all;
    size_t count, room;
    uint32_t *index; /* by key; a power of two */
    size_t index_size;
    struct value *limits; /* of counters */
    size_t limit_count, limit_room;
    struct loop_instance *loops;
    size_t loop_count, loop_room;
    bool no_memory;
};

#define SYMBOLS_MAX 4000000u

uint64_t hash_mix64(uint64_t hash, uint64_t word);

void symbols_free(struct symbols *symbols);
/* The symbol with that key; it is made if it is new. */
uint32_t symbol_of(struct symbols *symbols, uint64_t key, enum symbol_kind kind, uint32_t loop);
/* Notes the turn in which a loop is left, at the latest. */
void symbol_limit(struct symbols *symbols, uint32_t counter, const struct value *turn);
uint32_t loop_instance_of(struct symbols *symbols, uint64_t key, uint32_t outer);
/* True if the symbol may differ from turn to turn of this loop. */
bool symbol_varies(const struct symbols *symbols, uint32_t symbol, uint32_t loop);
uint32_t loop_inner(const struct symbols *symbols, uint32_t one, uint32_t other);

struct value value_number(int64_t number);
/* Whether taints name the thread or the team, other than as a proven share of divided work. */
static inline bool taints_numbered(uint16_t taints)
{
    return taints & TAINTS_NUMBER;
}

/* Its taints, and those of its space. */
uint16_t value_taints(const struct value *value);
/* What a comparison of two values depends on. Threads have different stacks and thread data: an address there tells them
 * apart as the thread's number does, if it is not compared with another such address, or an address alone with 0. */
uint16_t value_compared(const struct value *left, const struct value *right);
struct value value_of_symbol(uint32_t symbol, uint16_t taints);
bool value_is_number(const struct value *value, int64_t *number);
bool value_is_zero(const struct value *value);
/* True if it is that symbol alone. */
bool value_is_symbol(const struct value *value, uint32_t *symbol);
bool value_equal(const struct value *one, const struct value *other);
uint64_t value_hash(const struct value *value);
int64_t value_factor(const struct value *value, uint32_t symbol);
bool value_varies(const struct symbols *symbols, const struct value *value, uint32_t loop);
uint32_t value_loop(const struct symbols *symbols, const struct value *value);

/* one + factor * other. False: it is not a sum that can be written. Taints are united in any case. */
bool value_add(const struct value *one, const struct value *other, int64_t factor, struct value *sum);
bool value_scale(const struct value *one, int64_t factor, struct value *product);
bool value_multiply(struct symbols *symbols, const struct value *one, const struct value *other, struct value *product);
/* Puts `by` in place of a symbol. */
bool value_replace(const struct value *value, uint32_t symbol, const struct value *by, struct value *result);

#endif
