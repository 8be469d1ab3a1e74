/* Following a function: its blocks, its branches (branch.c) and its loops (loop.c). */
#ifndef VSCAF_INSPECT_FOLLOW_H
#define VSCAF_INSPECT_FOLLOW_H

#include "run.h"

#define RSP 4u
#define EXITS_MAX 48u

/* A way out of a loop. */
struct loop_exit {
    int32_t from, to;
    struct value left, right;
    uint16_t condition; /* that holds on this way; CONDITION_OTHER: none is known */
    struct state *state;
};

struct exits {
    uint32_t instance; /* of the loop; 0: each turn is followed by itself */
    struct state *back; /* of all ways back to the header; NULL: none */
    size_t count;
    struct loop_exit all[EXITS_MAX];
};

/* One run of a function. */
struct frame {
    struct function *function;
    uint64_t number;
    struct state **in; /* of each block */
    struct state *result;
};

/* A copy, for the caller to free(). NULL: no memory. */
struct state *follow_copy(struct run *run, const struct state *from);
void follow_free_exits(struct exits *exits);

uint64_t follow_block_address(const struct frame *frame, int32_t block);

/* Whether too much code was followed. Then the section is rejected. */
bool follow_out_of_steps(struct run *run, uint64_t at);

/* Closes the branches that meet at this block. */
void follow_close_branches(struct state *state, uint64_t function, int32_t block);

/* Goes on from one block to another one, in the loop or out of it. */
void follow_leave(struct run *run, struct frame *frame, int32_t loop, int32_t from, int32_t to, const struct state *state,
                  const struct value *left, const struct value *right, uint16_t condition, struct exits *exits);

/* The ways out of a loop go on in the loop around it. */
void follow_pass_exits(struct run *run, struct frame *frame, int32_t outer, struct exits *exits, struct exits *outer_exits);

/* Follows the loop's blocks once, from that state at its header. */
void follow_turn(struct run *run, struct frame *frame, int32_t loop, const struct state *from, struct exits *exits);

/* branch.c: the ways on from a block's last instruction. */
void branch_follow(struct run *run, struct frame *frame, int32_t block, struct state *state, const struct instruction *last,
                   int32_t loop, struct exits *exits);

/* Whether it compares what another thread may change with what the turns of this loop do not change. */
bool branch_polls(const struct value *left, const struct value *right);

/* loop.c */
void loop_follow(struct run *run, struct frame *frame, int32_t loop, int32_t outer, struct exits *outer_exits);

#endif
