#include "state.h"

#include <stdlib.h>
#include <stddef.h>
#include <string.h>

void state_copy(struct state *to, const struct state *from)
{
    memcpy(to, from, offsetof(struct state, branches));
    memcpy(to->branches, from->branches, from->branch_count * sizeof from->branches[0]);
    memcpy(to->bounds, from->bounds, from->bound_count * sizeof from->bounds[0]);
    memcpy(to->ranges, from->ranges, from->range_count * sizeof from->ranges[0]);
    memcpy(to->slots, from->slots, from->slot_count * sizeof from->slots[0]);
}

struct slot *state_slot(struct state *state, int64_t place, unsigned bytes)
{
    for (size_t i = 0; i < state->slot_count; i++)
        if (state->slots[i].place == place && state->slots[i].bytes == bytes)
            return &state->slots[i];
    return NULL;
}

void state_forget_places(struct state *state, int64_t from, int64_t end, bool pointers_too)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->slot_count; i++) {
        const struct slot *slot = &state->slots[i];
        bool overlaps = slot->place < end && slot->place + slot->bytes > from;
        bool keeps = !overlaps || (!pointers_too && slot->value.space != SPACE_NUMBER);
        if (keeps && kept != i)
            state->slots[kept] = *slot;
        kept += keeps;
    }
    state->slot_count = (uint16_t)kept;
}

void state_taint_own(struct state *state, bool thread, enum holds holds, uint16_t taints)
{
    if (holds & HOLDS_INTEGER)
        *(thread ? &state->thread_taints : &state->stack_taints) |= taints;
    if (holds & HOLDS_FLOATING)
        *(thread ? &state->thread_float_taints : &state->stack_float_taints) |= taints & (uint16_t)~TAINTS_MEMORY;
    if (holds & HOLDS_INTEGER)
        state->turn_taints[thread] |= taints;
    if (holds & HOLDS_FLOATING)
        state->turn_taints[2 + thread] |= taints & (uint16_t)~TAINTS_MEMORY;
}

uint16_t state_own_taints(const struct state *state, bool thread, enum holds holds, bool this_turn)
{
    uint16_t taints = 0;
    if (this_turn)
        return (uint16_t)((holds & HOLDS_INTEGER ? state->turn_taints[thread] : 0)
                          | (holds & HOLDS_FLOATING ? state->turn_taints[2 + thread] : 0));
    if (holds & HOLDS_INTEGER)
        taints |= thread ? state->thread_taints : state->stack_taints;
    if (holds & HOLDS_FLOATING)
        taints |= thread ? state->thread_float_taints : state->stack_float_taints;
    return taints;
}

void state_taint_slot(struct state *state, const struct slot *slot)
{
    bool thread = slot->place >= THREAD_PLACES;
    if (thread || (slot->holds & HOLDS_FLOATING))
        state_taint_own(state, thread, thread ? (enum holds)slot->holds : HOLDS_FLOATING, value_taints(&slot->value));
    if (!thread && (slot->holds & HOLDS_INTEGER))
        state->spilled_taints |= value_taints(&slot->value);
}

bool state_set_slot(struct state *state, int64_t place, unsigned bytes, const struct value *value, enum holds holds)
{
    struct slot set = {.place = place, .bytes = (uint16_t)bytes, .holds = (uint16_t)holds, .value = *value};
    /* Another size at the same place would be out of date. What is left of a larger one may still be read. */
    bool others = false;
    for (size_t i = 0; i < state->slot_count; i++) {
        const struct slot *slot = &state->slots[i];
        bool overlaps = slot->place < place + bytes && slot->place + slot->bytes > place;
        others |= overlaps && (slot->place != place || slot->bytes != bytes);
        if (overlaps && (slot->place < place || slot->place + slot->bytes > place + bytes))
            state_taint_slot(state, slot);
    }
    struct slot *same = state_slot(state, place, bytes);
    if (same != NULL && !others) {
        *same = set;
        return true;
    }
    state_forget_places(state, place, place + bytes, true);
    if (state->slot_count == SLOTS_MAX)
        return false;
    state->slots[state->slot_count++] = set;
    return true;
}

/* other - one, if that is a number. */
static bool distance(const struct value *one, const struct value *other, int64_t *bytes)
{
    struct value difference;
    return value_add(other, one, -1, &difference) && value_is_number(&difference, bytes);
}

void state_add_range(struct state *state, const struct value *low, const struct value *high, bool earlier)
{
    struct range range = {.low = *low, .high = *high, .earlier = earlier};
    int64_t bytes;
    for (bool joined = true; joined;) {
        joined = false;
        for (size_t i = 0; i < state->range_count; i++) {
            struct range *other = &state->ranges[i];
            if (other->earlier != earlier)
                continue;
            int64_t to_low, to_high;
            bool low_known = distance(&other->low, &range.low, &to_low), high_known = distance(&other->high, &range.high, &to_high);
            if (low_known && high_known && to_low >= 0 && to_high <= 0)
                return; /* inside */
            bool covers = low_known && high_known && to_low <= 0 && to_high >= 0;
            bool behind = distance(&other->high, &range.low, &bytes) && bytes == 0;
            bool before = distance(&range.high, &other->low, &bytes) && bytes == 0;
            /* They overlap, and both ends are known. */
            if (!covers && !behind && !before && low_known && high_known) {
                behind = to_low > 0 && to_high > 0 && distance(&range.low, &other->high, &bytes) && bytes >= 0;
                before = to_low < 0 && to_high < 0 && distance(&other->low, &range.high, &bytes) && bytes >= 0;
            }
            if (!covers && !behind && !before)
                continue;
            if (behind)
                range.low = other->low;
            if (before)
                range.high = other->high;
            *other = state->ranges[--state->range_count];
            joined = true;
            break;
        }
    }
    if (state->range_count < RANGES_MAX) /* else it counts as not written */
        state->ranges[state->range_count++] = range;
}

bool state_at_least_zero(const struct state *state, const struct value *sum)
{
    int64_t number;
    if (sum->space != SPACE_NUMBER)
        return false;
    if (value_is_number(sum, &number))
        return number >= 0;
    /* sum = -times * bound + something that is at least 0 */
    for (size_t i = 0; i < state->bound_count; i++) {
        int64_t factor = value_factor(&state->bounds[i], sum->terms[0].symbol);
        if (factor == 0 || sum->terms[0].factor % factor != 0)
            continue;
        int64_t times = -(sum->terms[0].factor / factor);
        struct value rest;
        if (times > 0 && value_add(sum, &state->bounds[i], times, &rest) && value_is_number(&rest, &number) && number >= 0)
            return true;
    }
    return false;
}

void state_add_bound(struct state *state, const struct value *at_most_zero)
{
    if (at_most_zero->count == 0)
        return;
    for (size_t i = 0; i < state->bound_count; i++)
        if (value_equal(&state->bounds[i], at_most_zero))
            return;
    if (state->bound_count == BOUNDS_MAX) {
        memmove(state->bounds, state->bounds + 1, (BOUNDS_MAX - 1) * sizeof state->bounds[0]);
        state->bound_count--;
    }
    state->bounds[state->bound_count++] = *at_most_zero;
}
