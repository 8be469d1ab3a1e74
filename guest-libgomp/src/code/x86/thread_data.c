#include "code/x86/thread_data.h"

#include <string.h>

#include "code/x86/slots.h"

void data_record_kept_read(struct inspection *in)
{
    if (in->master)
        return;
    if (!in->findings.keeps_thread_data)
        in->findings.keeps_at = in->at;
    in->findings.keeps_thread_data = true;
}

void data_record_untracked(struct inspection *in)
{
    if (!in->recording || !in->view->tls_bytes)
        return;
    in->findings.unsure = true;
    in->findings.touches_thread_data = true;
    data_record_kept_read(in);
}

void data_record_beside(struct inspection *in, const struct object_reference *reference)
{
    /* What std::call_once passes to itself is no data that is kept; nor is errno. */
    if (in->recording && !in->master && strcmp(reference->name, "errno")
        && strcmp(reference->name, "_ZSt15__once_callable") && strcmp(reference->name, "_ZSt11__once_call"))
        in->findings.thread_data_beside = true;
}

static bool is_thread_pointer(struct value value)
{
    return value.kind == VALUE_OWN || value.kind == VALUE_THREAD;
}

/* The number that the instruction adds to this register; 0: it is another instruction. */
static int64_t added(const struct instruction *i, uint8_t to)
{
    bool adds = i->map == MAP_ONE && !i->vector && !i->memory && (i->opcode == 0x81 || i->opcode == 0x83)
                && i->rm == to && (i->reg & 7) == 0;
    return adds ? i->immediate : 0;
}

/* True if the block that is being read is a loop, and each turn moves the pointer on by `bytes`. */
static bool moves_each_iteration(const struct inspection *in, uint8_t pointer, int32_t bytes)
{
    const struct block *block = in->code.blocks + in->block;
    if (block->next[0] != in->block && block->next[1] != in->block)
        return false;
    for (uint32_t at = block->first; at < (uint32_t)block->first + block->count; at++)
        if (added(in->code.instructions + at, pointer))
            return added(in->code.instructions + at, pointer) == bytes;
    return false;
}

/* How far the block that is being read has moved the counter on before this instruction. */
static int64_t moved_before(const struct inspection *in, const struct instruction *i, uint8_t counter)
{
    int64_t moved = 0;
    for (const struct instruction *at = in->code.instructions + in->code.blocks[in->block].first; at < i; at++)
        moved += added(at, counter);
    return moved;
}

void data_access_own(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                       const struct instruction *i, const struct state *state)
{
    if (!in->recording)
        return;
    in->findings.touches_thread_data = true;
    if (access & ACCESS_READ && !written_covers(&in->written, place.offset, bytes, place.open, place.step))
        data_record_kept_read(in);
    if (!(access & ACCESS_WRITE))
        return;
    in->findings.writes_thread_data = true;
    struct written written = {.start = place.offset,
                              .end = place.open ? place.offset : place.offset + bytes,
                              .bytes = bytes,
                              .unit = place.step > bytes ? place.step : bytes,
                              .open = place.open,
                              .index = DECODE_NO_REGISTER,
                              .scale = 1,
                              .loop = in->block};
    /* The range of the one index register tells the array's length, if nothing else is added to the array's start. */
    if (i && place.open && i->memory) {
        bool two = i->index != DECODE_NO_REGISTER && i->base < GPRS;
        uint8_t index = i->index != DECODE_NO_REGISTER ? i->index : i->base;
        uint8_t start = i->base;
        if (two && i->scale == 1 && is_thread_pointer(state->registers[index])) { /* the sum is the same in either order */
            index = i->base;
            start = i->index;
        }
        const struct value *base = two ? &state->registers[start] : NULL;
        if (index < GPRS && !is_thread_pointer(state->registers[index])
            && (!base || (is_thread_pointer(*base) && !base->open))) {
            written.index = index;
            written.scale = i->index != DECODE_NO_REGISTER ? i->scale : 1;
            struct value counter = state->registers[index];
            written.first = counter.kind == VALUE_NUMBER ? counter.offset : 0;
            if (counter.kind == VALUE_NUMBER && counter.open) { /* it has the value of the turn's start */
                written.start += moved_before(in, i, index) * written.scale;
                written.end = written.start;
            }
        } else if (!two && index < GPRS) {
            written.each_iteration = moves_each_iteration(in, index, written.unit);
        }
    }
    written_add(&in->written, &written);
}

void data_access(struct inspection *in, struct value place, unsigned access, int32_t bytes,
                         const struct instruction *i, const struct state *state)
{
    if (value_own(in->view, &place)) {
        data_access_own(in, place, access, bytes, i, state);
    } else if (place.kind == VALUE_THREAD && place.open && !place.offset) {
        data_record_untracked(in); /* somewhere in the thread data of any object */
    } else if (place.kind == VALUE_STACK && !place.open && access & ACCESS_WRITE) {
        slot_forget(in, place.offset, (int64_t)place.offset + bytes);
    }
}

void data_escapes(struct inspection *in, struct value value)
{
    if (value_own(in->view, &value))
        data_record_untracked(in);
}

static void index_limit(struct inspection *in, const struct state *state, uint8_t index, int64_t limit)
{
    struct value counter = state->registers[index];
    bool counts = counter.kind == VALUE_NUMBER && counter.open && counter.step && counter.offset >= 0;
    written_index_limit(&in->written, in->block, index, limit, counts ? (limit - counter.offset) / counter.step : 0);
}

void data_record_comparison(struct inspection *in, const struct state *state, const struct instruction *i)
{
    if (!in->recording || i->memory || i->map != MAP_ONE || i->vector)
        return;
    if ((i->opcode == 0x39 || i->opcode == 0x3b) && i->rm < GPRS) {
        struct value one = state->registers[i->reg], other = state->registers[i->rm];
        if (!value_own(in->view, &one) || !value_own(in->view, &other))
            return;
        bool one_runs = one.open && other.open ? one.offset < other.offset : one.open;
        struct value running = one_runs ? one : other, end = one_runs ? other : one;
        /* If both pointers move, the end in an outer loop, their distance must be a whole number of turns. */
        bool whole = !end.open
                     || (running.step > end.step && ((int64_t)end.offset - running.offset) % running.step == 0);
        if (running.open && whole && end.offset > running.offset) /* it may be one turn ahead of the writes */
            written_ends(&in->written, (int64_t)running.offset - running.step, end.offset);
    } else if ((i->opcode == 0x83 || i->opcode == 0x81) && (i->reg & 7) == 7 && i->rm < GPRS) {
        index_limit(in, state, i->rm, i->immediate);
    } else if (i->opcode == 0x3d) {
        index_limit(in, state, RAX, i->immediate);
    }
}
