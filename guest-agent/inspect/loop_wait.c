/* Loops that wait for another thread. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

#define LOOKS_MAX 16u /* at a loop that may wait */
#define CALL_CHANGES UINT64_C(0xfc7) /* rax, rcx, rdx, rsi, rdi, r8 to r11 */

static void find_written(struct looked *looked)
{
    const struct function *function = looked->frame->function;
    for (size_t b = 0; b < function->block_count; b++) {
        const struct block *block = &function->blocks[b];
        for (uint32_t i = 0; code_in_loop(function, (int32_t)b, looked->loop) && i < block->count; i++) {
            const struct instruction *instruction = &function->instructions[block->first + i];
            for (size_t o = 0; o < instruction->count; o++) {
                const struct operand *operand = &instruction->operands[o];
                bool is_register = operand->kind == OPERAND_REGISTER && operand->number < REGISTERS;
                if (is_register && operand->writes)
                    looked->written |= UINT64_C(1) << operand->number;
            }
            looked->written |= instruction->writes_more;
            if (instruction->flow == FLOW_CALL || instruction->flow == FLOW_CALL_INDIRECT)
                looked->written |= ~UINT64_C(0) << REGISTER_VECTOR | CALL_CHANGES;
        }
    }
    looked->written &= ~(UINT64_C(1) << RSP);
}

static void look_at(uint16_t *taints, bool carried, uint16_t learned)
{
    *taints = (uint16_t)((*taints & ~(TAINT_LOADED | TAINT_LOCK)) | (carried ? TAINT_LOCK : 0) | (learned & TAINT_LOADED));
}

/* A turn's start for a look. `learned` has the taints of earlier turns' ends. */
static void make_look(struct run *run, struct state *turn, const struct looked *looked, const struct state *learned)
{
    loop_make_turn(run, turn, looked->in, looked->changes, looked->instance, looked->frame);
    if (looked->earlier != NULL)
        loop_add_earlier_turns(run, turn, looked->earlier, looked->counter, looked->instance);
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        look_at(&turn->registers[r].taints, looked->written >> r & 1, learned->registers[r].taints);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++)
        look_at(&turn->vectors[v].taints, looked->written >> (v + REGISTER_VECTOR) & 1, learned->vectors[v].taints);
    for (size_t i = 0; i < turn->slot_count; i++) {
        struct slot *slot = &turn->slots[i];
        bool changes = looked->changes->slots[i].kind != CHANGE_NONE;
        const struct slot *end = state_slot((struct state *)(uintptr_t)learned, slot->place, slot->bytes);
        look_at(&slot->value.taints, changes, end != NULL ? end->value.taints : 0);
    }
    look_at(&turn->stack_taints, false, learned->stack_taints);
    look_at(&turn->thread_taints, false, learned->thread_taints);
    look_at(&turn->stack_float_taints, false, learned->stack_float_taints);
    look_at(&turn->thread_float_taints, false, learned->thread_float_taints);
    look_at(&turn->spilled_taints, false, learned->spilled_taints);
    look_at(&turn->left.taints, false, 0);
    for (size_t i = 0; i < turn->branch_count; i++)
        turn->branches[i].taints &= (uint16_t)~(TAINT_LOADED | TAINT_LOCK);
}

static bool learn_taints(uint16_t *taints, uint16_t end)
{
    bool more = end & ~*taints & TAINT_LOADED;
    *taints |= end & TAINT_LOADED;
    return more;
}

/* Adds what a turn's end has to what is known of ends. True: it is more. */
static bool learn_look(struct state *learned, const struct state *end)
{
    bool more = false;
    struct state *areas = learned;
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        more |= learn_taints(&learned->registers[r].taints, end->registers[r].taints);
    for (unsigned v = 0; v < REGISTERS - REGISTER_VECTOR; v++)
        more |= learn_taints(&learned->vectors[v].taints, end->vectors[v].taints);
    for (size_t i = 0; i < end->slot_count; i++) {
        const struct slot *slot = &end->slots[i];
        struct slot *same = state_slot(learned, slot->place, slot->bytes);
        bool thread = slot->place >= THREAD_PLACES;
        if (same != NULL)
            more |= learn_taints(&same->value.taints, slot->value.taints);
        if (same == NULL && (slot->holds & HOLDS_INTEGER))
            more |= learn_taints(thread ? &areas->thread_taints : &areas->spilled_taints, slot->value.taints);
        if (same == NULL && (slot->holds & HOLDS_FLOATING))
            more |= learn_taints(thread ? &areas->thread_float_taints : &areas->stack_float_taints, slot->value.taints);
    }
    more |= learn_taints(&areas->stack_taints, end->stack_taints);
    more |= learn_taints(&areas->thread_taints, end->thread_taints);
    more |= learn_taints(&areas->stack_float_taints, end->stack_float_taints);
    more |= learn_taints(&areas->thread_float_taints, end->thread_float_taints);
    more |= learn_taints(&areas->spilled_taints, end->spilled_taints);
    return more;
}

/* Whether the loop ends when another thread changes shared memory. `exits` becomes what the look has found. */
static bool look(struct run *run, const struct looked *looked, bool floats, bool still, bool branches, struct exits *exits)
{
    struct state *learned = calloc(1, sizeof *learned), *turn = malloc(sizeof *turn);
    /* Inner loops learn anew what they are: what is known of them outside the look stays. */
    size_t count = run->symbols.loop_count;
    struct loop_instance *loops = malloc((count + 1) * sizeof *loops);
    if (learned == NULL || turn == NULL || loops == NULL) {
        run->no_memory = true;
        free(learned);
        free(turn);
        free(loops);
        return false;
    }
    memcpy(loops, run->symbols.loops, count * sizeof *loops);
    uint16_t heap = run->heap_taints;
    assert(!run->silent && run->look.loop == 0);
    run->heap_taints &= (uint16_t)~(TAINT_LOADED | TAINT_LOCK);
    run->silent = true;
    run->look = (struct wait_look){.loop = looked->instance, .floats = floats, .still = still, .branches = branches};
    memcpy(learned->slots, looked->in->slots, looked->in->slot_count * sizeof learned->slots[0]);
    learned->slot_count = looked->in->slot_count;
    for (size_t i = 0; i < learned->slot_count; i++)
        learned->slots[i].value.taints = 0;
    bool more = true;
    for (unsigned round = 0; round < LOOKS_MAX && more && !follow_out_of_steps(run, 0); round++) {
        size_t sums = run->look.sum_count;
        uint16_t before = run->heap_taints;
        follow_free_exits(exits);
        make_look(run, turn, looked, learned);
        follow_turn(run, looked->frame, looked->loop, turn, exits);
        more = exits->back != NULL && learn_look(learned, exits->back);
        more |= (sums == 0 && run->look.sum_count > 0) || before != run->heap_taints;
    }
    bool clean = exits->count == 0, any = false;
    for (size_t i = 0; i < exits->count; i++) {
        const struct loop_exit *exit = &exits->all[i];
        bool polls = branch_polls(&exit->left, &exit->right), under = false;
        for (size_t b = 0; b < exit->state->branch_count; b++)
            under |= exit->state->branches[b].taints & TAINT_LOADED;
        any |= polls;
        clean |= !polls && !under;
    }
    bool waits = more || run->look.lost || any || !clean
                 || (run->look.polls && run->symbols.loops[looked->instance].yields);
    memcpy(run->symbols.loops, loops, count * sizeof *loops);
    free(loops);
    run->heap_taints = heap;
    run->look = (struct wait_look){0};
    run->silent = false;
    free(learned);
    free(turn);
    return waits;
}

/* True if the number of turns alone comes nearer to this way out in each turn. */
static bool ends_by_turns(const struct run *run, const struct loop_exit *exit, const struct looked *looked)
{
    struct value difference, rest, turn = value_of_symbol(looked->counter, 0);
    if (!value_add(&exit->left, &exit->right, -1, &difference))
        return false;
    int64_t factor = value_factor(&difference, looked->counter);
    return factor != 0 && value_add(&difference, &turn, -factor, &rest)
           && !value_varies(&run->symbols, &rest, looked->instance);
}

static bool in_each_turn(const struct function *function, int32_t loop, int32_t block)
{
    int32_t header = function->loops[loop].header;
    for (size_t b = 0; b < function->block_count; b++) {
        int32_t at = (int32_t)b;
        const struct block *last = &function->blocks[b];
        if (!code_in_loop(function, at, loop) || (last->next[0] != header && last->next[1] != header))
            continue;
        while (at != block && at != header && at >= 0)
            at = function->blocks[at].dominator;
        if (at != block)
            return false;
    }
    return true;
}

/* A loop that looks at shared memory until another thread changes it: whether it is left does not depend on what it does
 * itself. `loads`: whether its turns read shared memory at all. */
void loop_check_wait(struct run *run, struct looked *looked, const struct exits *exits, bool barrier, bool loads)
{
    uint32_t instance = looked->instance;
    uint64_t at = follow_block_address(looked->frame, looked->frame->function->loops[looked->loop].header);
    bool still_loads = true, fixed = true;
    bool counts = !run->symbols.loops[instance].yields; /* all its ends are turns that come by themselves */
    uint16_t numbers = state_branch_taints(looked->in);
    for (size_t i = 0; i < exits->count; i++) {
        const struct value *sides[] = {&exits->all[i].left, &exits->all[i].right};
        uint16_t taints = value_compared(sides[0], sides[1]);
        still_loads &= (taints & TAINT_LOADED) != 0;
        for (size_t s = 0; s < 2; s++)
            for (size_t t = 0; t < sides[s]->count; t++) {
                const struct symbol *symbol = &run->symbols.all[sides[s]->terms[t].symbol];
                bool varies = symbol_varies(&run->symbols, sides[s]->terms[t].symbol, instance);
                bool still = symbol->kind == SYMBOL_LOAD
                             && !(symbol->left != 0 && loop_inner(&run->symbols, symbol->left, instance) == symbol->left);
                still_loads &= still || !varies;
                fixed &= !varies;
            }
        counts &= ends_by_turns(run, &exits->all[i], looked) && in_each_turn(looked->frame->function, looked->loop, exits->all[i].from);
        fixed &= !(taints & TAINT_LOADED);
        numbers |= taints;
    }
    /* For ever, or not at all. */
    if (fixed && taints_numbered(numbers))
        run_reject(run, VSCAF_REASON_TELLS, at, "");
    if (exits->count == 0 || barrier)
        return;
    struct exits seen = {0};
    bool waits = still_loads, later = false;
    if (!waits && loads && !counts) {
        find_written(looked);
        if (run->epochs) {
            waits = look(run, looked, false, false, true, &seen);
        } else {
            /* The section stores no integers in shared memory, but it may store others. */
            waits = look(run, looked, true, false, false, &seen) || look(run, looked, true, true, true, &seen);
            later = waits;
        }
    }
    if (!waits) {
        follow_free_exits(&seen);
        return;
    }
    /* Flags of the threads: by the rule for such places (inspect.c). */
    bool flags = seen.count == 0 || seen.count == exits->count;
    for (size_t i = 0; i < exits->count && flags; i++) {
        uint32_t left, right;
        const struct symbol *symbol = NULL;
        uint16_t taints = exits->all[i].left.taints;
        if (value_is_symbol(&exits->all[i].left, &left))
            symbol = &run->symbols.all[left];
        if ((symbol == NULL || symbol->kind != SYMBOL_LOAD) && value_is_symbol(&exits->all[i].right, &right)) {
            symbol = &run->symbols.all[right];
            taints = exits->all[i].right.taints;
        }
        bool neither = seen.count > 0
                       && !((seen.all[i].left.taints | seen.all[i].right.taints) & (TAINT_LOADED | TAINT_LOCK));
        /* The symbol may have taints of a first look, before it was known how loops around divide work. */
        if (symbol != NULL && symbol->kind == SYMBOL_LOAD && taints_numbered(symbol->taints) && taints_numbered(taints))
            memory_note_wait(run, symbol->work);
        else
            flags = neither;
    }
    follow_free_exits(&seen);
    if (!flags && later) {
        run->waits_for_float = true;
        run->waits_at = at;
    } else if (!flags) {
        run_reject(run, VSCAF_REASON_WAITS, at, "");
    }
}
