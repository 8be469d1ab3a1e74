/* Loads and stores: whose memory it is, and what a store says about the team. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

#define BYTES_UNKNOWN INT64_C(-1)
#define SECTION_STACK_END INT64_C(4096) /* above it is what only the runtime knows */

bool state_is_divided(const struct state *state)
{
    if (state->in_share > 0)
        return true;
    for (size_t i = 0; i < state->branch_count; i++)
        if (state->branches[i].once)
            return true;
    return false;
}

uint16_t state_branch_taints(const struct state *state)
{
    uint16_t taints = 0;
    for (size_t i = 0; i < state->branch_count; i++)
        if (!state->branches[i].once && !state->branches[i].divides && !state->branches[i].guard)
            taints |= state->branches[i].taints;
    return taints;
}

static bool state_depends_on_team(const struct state *state)
{
    for (size_t i = 0; i < state->branch_count; i++)
        if (!state->branches[i].once && !state->branches[i].divides && (state->branches[i].taints & TAINT_TEAM)
            && !(state->branches[i].taints & TAINT_THREAD))
            return true;
    return false;
}

/* The program's thread data ends at the thread pointer. */
uint64_t memory_thread_bytes(const struct elf_file *file)
{
    uint64_t align = file->tls_align && file->tls_align <= 4096 ? file->tls_align : 1;
    return file->tls_bytes <= UINT64_C(1) << 32 ? (file->tls_bytes + align - 1) / align * align : 0;
}

struct value memory_address(struct run *run, struct state *state, const struct operand *operand)
{
    struct value address = {.offset = operand->value};
    bool known = true, upward = true;
    uint16_t taints = 0;
    if (operand->absolute) {
        address.space = SPACE_IMAGE;
    } else if (operand->thread_segment) {
        address.space = SPACE_THREAD; /* the thread pointer is the end of the program's thread data */
        address.offset += (int64_t)memory_thread_bytes(run->file);
    }
    if (operand->base != REGISTER_NONE) {
        struct value base = register_get(state, operand->base);
        taints |= value_taints(&base);
        upward = base.count == 0;
        known = value_add(&address, &base, 1, &address);
    }
    if (operand->index != REGISTER_NONE) {
        /* Of many indexes in a vector register: one address that is not known stands for all. */
        struct value index = any_register_get(state, operand->index), scaled;
        taints |= value_taints(&index);
        upward &= operand->index < REGISTERS_GENERAL && state->halves >> operand->index & 1;
        known &= operand->index < REGISTERS_GENERAL && value_scale(&index, operand->scale, &scaled);
        known = known && value_add(&address, &scaled, 1, &address);
    }
    if (!known) {
        struct value parts[2] = {value_number(0), value_number(0)};
        if (operand->base != REGISTER_NONE)
            parts[0] = register_get(state, operand->base);
        if (operand->index != REGISTER_NONE)
            parts[1] = any_register_get(state, operand->index);
        taints |= operand->thread_segment ? TAINT_PRIVATE : 0;
        uint64_t key = hash_mix64((uint64_t)operand->value, operand->scale);
        for (size_t i = 0; i < 2; i++)
            key = hash_mix64(key, value_hash(&parts[i]));
        uint32_t loop = loop_inner(&run->symbols, value_loop(&run->symbols, &parts[0]), value_loop(&run->symbols, &parts[1]));
        return run_unknown(run, 0, key, taints, loop);
    }
    /* A constant in code that is not position-independent. */
    if (run->file->fixed && address.space == SPACE_NUMBER && address.offset > 0 && elf_is_mapped(run->file, (uint64_t)address.offset)
        && (address.count == 0 || operand->base == REGISTER_NONE || elf_is_mapped(run->file, (uint64_t)operand->value)))
        address.space = SPACE_IMAGE;
    if (address.taints & TAINT_SHARE)
        share_recognize(run, state, &address);
    address.taints = value_taints(&address);
    address.flags = upward ? FLAG_UPWARD : 0;
    return address;
}

/* Thread data of other objects, or the thread control block. */
static bool outside_thread_data(const struct run *run, const struct value *address)
{
    int64_t bytes = (int64_t)memory_thread_bytes(run->file);
    return !run->file->has_tls || (address->count == 0 && (address->offset < 0 || address->offset >= bytes));
}

/* Where the frame ends that holds a place of the stack. */
static int64_t frame_end(const struct run *run, int64_t place)
{
    int64_t end = place + 4096;
    for (unsigned i = 0; i < run->calls; i++)
        if (run->frames[i] > place)
            end = run->frames[i];
    return end;
}

/* Where the frame begins that holds a place of the stack. */
static int64_t frame_start(const struct run *run, int64_t place)
{
    int64_t start = -THREAD_PLACES;
    for (unsigned i = 0; i < run->calls; i++)
        if (run->frames[i] <= place && run->frames[i] > start)
            start = run->frames[i];
    return start;
}

static bool not_negative(const struct run *run, uint32_t symbol)
{
    const struct symbol *of = &run->symbols.all[symbol];
    switch (of->kind) {
    case SYMBOL_OTHER:
    case SYMBOL_LOAD:
    case SYMBOL_TURN: return false;
    case SYMBOL_PRODUCT: return not_negative(run, of->left) && not_negative(run, of->right);
    default: return true;
    }
}

/* Where an array of the stack may begin and end that has this place in it. */
static void array_of(const struct run *run, const struct value *address, int64_t *from, int64_t *end)
{
    *from = address->offset;
    *end = frame_end(run, address->offset);
    if (address->flags & FLAG_UPWARD)
        return;
    /* An index that may go down: the array may begin before the constant part of the address. */
    for (size_t i = 0; i < address->count; i++)
        if (address->terms[i].factor < 0 || !not_negative(run, address->terms[i].symbol))
            *from = frame_start(run, address->offset);
}

/* The place of own memory at a fixed distance. */
static bool fixed_place(const struct value *address, int64_t *place)
{
    *place = address->space == SPACE_THREAD ? THREAD_PLACES + address->offset : address->offset;
    return (address->space == SPACE_STACK || address->space == SPACE_THREAD) && address->count == 0;
}

static int64_t thread_factor(const struct run *run, const struct value *address)
{
    for (size_t i = 0; i < address->count; i++)
        if (run->symbols.all[address->terms[i].symbol].kind == SYMBOL_THREAD)
            return address->terms[i].factor;
    return 0;
}

/* A place of shared memory without what names the thread: places of different threads in one array have the same. */
static uint64_t group_of(const struct run *run, const struct value *address)
{
    uint64_t group = address->space, start;
    bool base = false;
    for (size_t i = 0; i < address->count; i++) {
        const struct symbol *symbol = &run->symbols.all[address->terms[i].symbol];
        if (symbol->kind == SYMBOL_LOAD && address->terms[i].factor == 1) {
            group = hash_mix64(group, symbol->work);
            base = true;
        }
    }
    if (address->space != SPACE_IMAGE || base)
        return group;
    /* An array of the object. A place before it is that of the thread before. */
    if (elf_data_object(run->file, (uint64_t)(address->offset + thread_factor(run, address)), &start)
        || elf_data_object(run->file, (uint64_t)address->offset, &start))
        return hash_mix64(group, start);
    return hash_mix64(group, (uint64_t)address->offset & ~UINT64_C(4095));
}

static void note_place(struct run *run, const struct value *address, bool stored, bool others, uint64_t at)
{
    if (run->silent)
        return;
    uint64_t group = group_of(run, address);
    int64_t factor = thread_factor(run, address);
    for (size_t i = 0; i < run->place_count; i++) {
        struct numbered_place *place = &run->places[i];
        if (place->group != group || place->stored != stored || place->offset != address->offset || place->factor != factor)
            continue;
        place->of_others |= others;
        return;
    }
    if (run->place_count == PLACES_MAX) {
        run_reject(run, VSCAF_REASON_NUMBER_ALONE, at, "");
        return;
    }
    run->places[run->place_count++] = (struct numbered_place){.group = group,
                                                              .offset = address->offset,
                                                              .factor = factor,
                                                              .stored = stored,
                                                              .loaded = !stored,
                                                              .of_others = others,
                                                              .at = at};
}

void memory_note_wait(struct run *run, uint64_t group)
{
    for (size_t i = 0; i < run->place_count; i++)
        run->places[i].waited |= run->places[i].group == group;
}

/* True if all bytes from the address on were written before, by this section. */
static bool written(const struct run *run, const struct state *state, const struct value *address, int64_t bytes, bool this_turn)
{
    struct value low = *address, high = *address;
    high.offset += bytes;
    for (size_t r = 0; r < state->range_count; r++) {
        struct value under, over;
        if (this_turn && state->ranges[r].earlier)
            continue;
        if (!value_add(&low, &state->ranges[r].low, -1, &under) || !value_add(&state->ranges[r].high, &high, -1, &over))
            continue;
        /* Both must be at least 0 for each turn of the loops. */
        bool covered = true;
        struct value *both[] = {&under, &over};
        for (size_t b = 0; covered && b < 2; b++) {
            struct value *sum = both[b];
            for (size_t rounds = 0; rounds < 2 * VALUE_TERMS; rounds++) {
                size_t i = 0;
                while (i < sum->count && run->symbols.all[sum->terms[i].symbol].kind != SYMBOL_COUNTER)
                    i++;
                if (i == sum->count)
                    break;
                const struct symbol *counter = &run->symbols.all[sum->terms[i].symbol];
                struct value by = value_number(0);
                if (sum->terms[i].factor < 0) {
                    if (!counter->has_most)
                        break;
                    by = run->symbols.limits[counter->most];
                    /* Behind the loop's test, in the same turn, one less. */
                    struct value less = value_of_symbol(sum->terms[i].symbol, 0), none = value_number(0), minus;
                    less.offset = 1;
                    if (value_add(&none, &by, -1, &minus) && value_add(&less, &minus, 1, &less))
                        for (size_t c = 0; c < state->bound_count; c++) {
                            struct value rest;
                            int64_t number;
                            if (value_add(&state->bounds[c], &less, -1, &rest) && value_is_number(&rest, &number)
                                && number >= 0) {
                                by.offset--;
                                break;
                            }
                        }
                }
                if (!value_replace(sum, sum->terms[i].symbol, &by, sum))
                    break;
            }
            covered = state_at_least_zero(state, sum);
        }
        if (covered)
            return true;
    }
    return false;
}

static void read_thread_data(struct run *run, struct state *state, const struct value *address, unsigned bytes, uint64_t at)
{
    if (run->silent || (!run->in_task && written(run, state, address, bytes, false)))
        return;
    /* An index that is not known stays within its object: the whole object must have been written. */
    uint64_t start, end;
    if (address->count > 0 && address->offset >= 0
        && elf_tls_object(run->file, (uint64_t)address->offset, &start, &end)) {
        struct value whole = {.space = SPACE_THREAD, .offset = (int64_t)start};
        if (written(run, state, &whole, (int64_t)(end - start), false))
            return;
    }
    run_reject(run, VSCAF_REASON_KEEPS_DATA, at, "");
}

/* True if the number is where a part of divided work begins or ends. */
static bool is_bound(const struct run *run, const struct value *value)
{
    bool bound = true;
    for (size_t i = 0; i < value->count; i++) {
        uint16_t kind = run->symbols.all[value->terms[i].symbol].kind;
        bound &= kind == SYMBOL_START || kind == SYMBOL_PART;
    }
    return bound;
}

static void note_store(struct run *run, const struct value *address)
{
    uint16_t taints = value_taints(address);
    for (uint32_t loop = run->loop; loop != 0; loop = run->symbols.loops[loop].outer) {
        struct loop_instance *of = &run->symbols.loops[loop];
        of->stores_stack |= (taints & TAINT_STACK) != 0;
        of->stores_thread |= (taints & TAINT_PRIVATE) != 0;
        of->stores_heap |= (taints & TAINT_HEAP) != 0;
    }
}

/* Whether the array was stored to before the loop. Else no turn may read what it has not stored there itself: a thread's
 * first turn would read what nobody has stored. */
static bool stored_before(const struct run *run, const struct state *before, const struct value *address, int64_t bytes)
{
    int64_t from, end;
    if (before == NULL || address->space != SPACE_STACK)
        return true;
    array_of(run, address, &from, &end);
    if (address->count == 0 && bytes != BYTES_UNKNOWN)
        end = address->offset + bytes;
    if (before->arrays_from < end)
        return true;
    for (size_t i = 0; i < address->count; i++)
        if (address->terms[i].factor < 0)
            return true; /* the index goes down */
    for (size_t i = 0; i < before->slot_count; i++) {
        const struct slot *slot = &before->slots[i];
        if (!slot->saved && slot->place + slot->bytes > from && slot->place < end)
            return true;
    }
    return false;
}

/* Whether places that are known make up all these bytes. */
static bool is_made_of_slots(const struct state *state, const struct value *address, int64_t bytes)
{
    int64_t place, at;
    if (!fixed_place(address, &place))
        return false;
    for (at = place; at < place + bytes;) {
        int64_t next = at;
        for (size_t i = 0; i < state->slot_count; i++)
            if (state->slots[i].place <= at && state->slots[i].place + state->slots[i].bytes > next)
                next = state->slots[i].place + state->slots[i].bytes;
        if (next == at)
            return false;
        at = next;
    }
    return true;
}

/* When a place of own memory was stored: in this turn of divided work; maybe in an earlier one, so that what it holds depends
 * on which turns are the thread's; or before all turns, or there are none. */
enum stored { STORED_THIS_TURN, STORED_EARLIER, STORED_ANY_TIME };

static enum stored when_stored(const struct run *run, const struct state *state, const struct value *address, int64_t bytes)
{
    uint16_t taints = value_taints(address);
    bool divided = false, stores = false, before = false;
    for (uint32_t loop = run->loop; loop != 0; loop = run->symbols.loops[loop].outer) {
        const struct loop_instance *of = &run->symbols.loops[loop];
        if (of->mode == LOOP_WHOLE)
            continue;
        divided = true;
        stores |= (of->stores_stack && (taints & TAINT_STACK)) || (of->stores_thread && (taints & TAINT_PRIVATE))
                  || (of->stores_heap && (taints & TAINT_HEAP));
        before |= stored_before(run, of->before, address, bytes);
    }
    if (!divided)
        return STORED_ANY_TIME;
    bool known = bytes != BYTES_UNKNOWN && (is_made_of_slots(state, address, bytes) || written(run, state, address, bytes, true));
    if (run->lenient || known)
        return STORED_THIS_TURN;
    uint64_t start, end;
    if (address->space == SPACE_THREAD && address->count > 0 && address->offset >= 0
        && elf_tls_object(run->file, (uint64_t)address->offset, &start, &end)) {
        struct value whole = {.space = SPACE_THREAD, .offset = (int64_t)start};
        if (written(run, state, &whole, (int64_t)(end - start), true))
            return STORED_THIS_TURN;
    }
    return !stores ? STORED_ANY_TIME : before ? STORED_EARLIER : STORED_THIS_TURN;
}

/* A name for what a place of an array holds (struct value). */
static uint16_t origin_of(const struct value *address)
{
    return (uint16_t)(0x8000u | (value_hash(address) & 0x7fffu));
}

/* A hash of the address: the same at each time, also if it was loaded itself. */
static uint64_t place_of(const struct run *run, const struct value *address)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < address->count; i++) {
        const struct symbol *symbol = &run->symbols.all[address->terms[i].symbol];
        uint64_t name = symbol->kind == SYMBOL_LOAD ? hash_mix64(symbol->work, symbol->bytes) : address->terms[i].symbol;
        sum += hash_mix64(name, (uint64_t)address->terms[i].factor); /* in any order */
    }
    return hash_mix64(hash_mix64(address->space, (uint64_t)address->offset), sum);
}

uint64_t memory_constant(int64_t number)
{
    return hash_mix64(UINT64_C(0xc057), (uint64_t)number);
}

/* True if it is another place in each turn of the loop. */
static bool steps_with(const struct run *run, uint32_t symbol, uint32_t loop)
{
    const struct symbol *of = &run->symbols.all[symbol];
    switch (of->kind) {
    case SYMBOL_COUNTER: return of->loop == loop;
    case SYMBOL_CYCLE:
    case SYMBOL_TURN: return of->steps && of->loop == loop;
    case SYMBOL_LOAD: return of->steps && of->left == loop;
    case SYMBOL_PRODUCT: return steps_with(run, of->left, loop) || steps_with(run, of->right, loop);
    default: return false;
    }
}

static bool address_steps(const struct run *run, const struct value *address, uint32_t loop)
{
    for (size_t i = 0; loop != 0 && i < address->count; i++)
        if (steps_with(run, address->terms[i].symbol, loop))
            return true;
    return false;
}

uint16_t memory_loaded(const struct run *run, const struct value *address, bool floating)
{
    const struct wait_look *look = &run->look;
    if (look->loop == 0)
        return TAINT_LOADED;
    if (look->floats && !floating)
        return 0; /* the section stores no integers */
    uint64_t place = value_hash(address);
    for (size_t i = 0; i < look->sum_count; i++)
        if (look->sums[i] == place)
            return TAINT_LOCK;
    bool varies = value_varies(&run->symbols, address, look->loop);
    return address_steps(run, address, look->loop) || (look->still && varies) ? 0 : TAINT_LOADED;
}

uint16_t memory_loaded_before(const struct run *run, const struct value *value)
{
    uint32_t symbol;
    if (!run->look.floats || !value_is_symbol(value, &symbol) || run->symbols.all[symbol].kind != SYMBOL_LOAD)
        return 0;
    const struct symbol *load = &run->symbols.all[symbol];
    bool varies = load->left != 0 && loop_inner(&run->symbols, load->left, run->look.loop) == load->left;
    return (load->steps && load->left == run->look.loop) || (run->look.still && varies) ? 0 : TAINT_LOADED;
}

uint16_t memory_held(const struct run *run, const struct state *state, const struct value *address, const struct value *size)
{
    uint16_t of = value_taints(address), taints = of & (TAINTS_NUMBER | TAINT_SHARE);
    int64_t from = run->taken, end, bytes = BYTES_UNKNOWN; /* where a pointer may lead that is not known */
    if (address->space == SPACE_STACK)
        array_of(run, address, &from, &end);
    end = SECTION_STACK_END; /* its length is not known */
    if (of & TAINT_STACK)
        taints |= state->stack_taints | state->stack_float_taints | state->spilled_taints;
    if (of & TAINT_PRIVATE)
        taints |= state->thread_taints | state->thread_float_taints;
    for (size_t i = 0; i < state->slot_count; i++) {
        const struct slot *slot = &state->slots[i];
        bool thread = slot->place >= THREAD_PLACES, reached = slot->place < end && slot->place + slot->bytes > from;
        if (thread ? of & TAINT_PRIVATE : (of & TAINT_STACK) && reached)
            taints |= value_taints(&slot->value);
    }
    if (of & TAINT_HEAP)
        taints |= run->heap_taints;
    if (size != NULL && (!value_is_number(size, &bytes) || bytes < 0))
        bytes = BYTES_UNKNOWN;
    if ((of & TAINTS_MEMORY) && when_stored(run, state, address, bytes) == STORED_EARLIER)
        taints |= TAINT_SHARE;
    bool constant = address->space == SPACE_IMAGE && address->count == 0 && elf_is_constant(run->file, (uint64_t)address->offset, 1);
    if (!constant && (address->space == SPACE_NUMBER || address->space == SPACE_IMAGE))
        taints |= memory_loaded(run, address, false) | (address->taints & TAINT_TURN);
    return taints;
}

struct value memory_load(struct run *run, struct state *state, const struct value *address, unsigned bytes, enum holds holds,
                         uint64_t at)
{
    int64_t place, content = 0;
    bool has_content = false;
    struct value loaded, size = value_number(bytes);
    if (address->space == SPACE_THREAD && outside_thread_data(run, address)) {
        /* The thread control block: the stack's guard, and the thread pointer itself. */
        int64_t offset = address->offset - (int64_t)memory_thread_bytes(run->file);
        if (address->count == 0 && offset == 0)
            return (struct value){.space = SPACE_THREAD, .offset = address->offset};
        if (address->count != 0 || offset != 0x28)
            run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, "");
        return run_unknown(run, at, 1, 0, 0);
    }
    if (address->space == SPACE_THREAD)
        read_thread_data(run, state, address, bytes, at);
    if (address->space == SPACE_STACK || address->space == SPACE_THREAD) {
        bool stack = address->space == SPACE_STACK;
        enum stored stored = when_stored(run, state, address, bytes);
        uint16_t taints = state_own_taints(state, !stack, holds, stored == STORED_THIS_TURN), flags = 0;
        if (stack && (holds & HOLDS_INTEGER) && (address->count == 0 || bytes <= 8))
            taints |= state->spilled_taints;
        if (fixed_place(address, &place)) {
            struct slot *slot = state_slot(state, place, bytes);
            if (slot != NULL)
                return slot->value;
            /* The runtime writes where a part begins and ends as a long number, also for a loop over short ones. */
            slot = bytes == 4 ? state_slot(state, place, 8) : NULL;
            if (slot != NULL && slot->value.space == SPACE_NUMBER && slot->value.count > 0 && is_bound(run, &slot->value))
                return slot->value;
        }
        /* An array, or a part of something: it may hold whatever was stored in such places. */
        int64_t from, end;
        array_of(run, address, &from, &end);
        for (size_t i = 0; i < state->slot_count; i++) {
            const struct slot *slot = &state->slots[i];
            if ((slot->place >= THREAD_PLACES) == stack || !(slot->holds & holds))
                continue; /* a program does not read integers as floating-point numbers */
            bool overlaps = slot->place + slot->bytes > place && slot->place < place + (int64_t)bytes;
            bool in_array = !stack || (slot->place < end && slot->place + slot->bytes > from && !slot->saved);
            if (address->count > 0 ? in_array : overlaps)
                taints |= value_taints(&slot->value);
        }
        /* Which of its elements is read. */
        taints |= address->taints & (TAINTS_NUMBER | TAINT_SHARE);
        if (stack ? state->stack_sums : state->thread_sums)
            flags = FLAG_SUM;
        if (stored == STORED_EARLIER)
            taints |= TAINT_SHARE;
        loaded = run_unknown(run, at, hash_mix64(value_hash(address), run->steps), taints, run->loop);
        loaded.flags = flags;
        loaded.origin = flags && state->in_share > 0 ? origin_of(address) : 0;
        return loaded;
    }
    if (address->space == SPACE_HEAP)
        return run_unknown(run, at, hash_mix64(value_hash(address), run->steps),
                           run->heap_taints | (address->taints & (TAINTS_NUMBER | TAINT_SHARE))
                               | (when_stored(run, state, address, bytes) == STORED_EARLIER ? TAINT_SHARE : 0),
                           run->loop);
    if (address->space == SPACE_IMAGE && address->count == 0) {
        uint64_t from = (uint64_t)address->offset;
        struct elf_reference reference = elf_reference_at(run->file, from);
        if (reference.type != 0 && bytes == 8) {
            bool own_offset = run->file->machine == EM_X86_64
                              && (reference.type == R_X86_64_TPOFF64 || reference.type == R_X86_64_DTPOFF64);
            if (own_offset && !reference.defined_here) {
                run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, reference.name);
            } else if (own_offset) {
                return value_number((int64_t)reference.value - (int64_t)memory_thread_bytes(run->file));
            }
            /* A function may be another object's of that name. */
            if (reference.defined_here && reference.stays && !reference.function)
                return (struct value){.space = SPACE_IMAGE, .offset = (int64_t)reference.value};
        }
        const unsigned char *from_file = elf_at(run->file, from, bytes);
        if (from_file != NULL && bytes == 8 && elf_is_constant(run->file, from, bytes)) {
            memcpy(&content, from_file, 8);
            has_content = true;
        }
        if (holds != HOLDS_FLOATING && from_file != NULL && (bytes == 4 || bytes == 8) && elf_is_constant(run->file, from, bytes)) {
            int64_t number = 0;
            int32_t small;
            memcpy(bytes == 4 ? (void *)&small : (void *)&number, from_file, bytes);
            return value_number(bytes == 4 ? small : number);
        }
    }
    if (address->taints & TAINT_PRIVATE)
        run_reject(run, VSCAF_REASON_KEEPS_DATA, at, "");
    bool constant = address->space == SPACE_IMAGE && address->count == 0 && elf_is_constant(run->file, (uint64_t)address->offset, bytes);
    uint16_t taints = constant && run->look.loop != 0 ? 0 : memory_loaded(run, address, holds == HOLDS_FLOATING);
    run->loads += !constant;
    if (address->taints & (TAINT_STACK | TAINT_HEAP)) /* one of several places, some of them the thread's own */
        taints |= memory_held(run, state, address, &size);
    if (taints_numbered(address->taints)) {
        note_place(run, address, false, (address->taints & TAINT_TEAM) != 0, at);
        /* What it holds belongs to that number. */
        taints |= address->taints & TAINTS_NUMBER;
    }
    taints |= address->taints & (TAINT_SHARE | TAINT_TURN);
    if (address->taints & (TAINT_STACK | TAINT_HEAP)) {
        /* What the section stores in its own memory begins no new epoch. */
        loaded = run_unknown(run, at, hash_mix64(value_hash(address), run->steps), taints, run->loop);
        loaded.flags = FLAG_SELF;
        return loaded;
    }
    uint32_t loop = loop_inner(&run->symbols, value_loop(&run->symbols, address), state->epoch_loop);
    uint64_t key = hash_mix64(hash_mix64(value_hash(address), bytes), state->epoch);
    uint32_t symbol = symbol_of(&run->symbols, key, SYMBOL_LOAD, loop);
    run->symbols.all[symbol].taints |= address->taints;
    run->symbols.all[symbol].partial = (taints & TAINT_SHARE) != 0;
    run->symbols.all[symbol].bytes = (uint16_t)bytes;
    run->symbols.all[symbol].left = value_loop(&run->symbols, address);
    run->symbols.all[symbol].steps = address_steps(run, address, run->symbols.all[symbol].left);
    run->symbols.all[symbol].work = taints_numbered(address->taints) ? group_of(run, address)
                                    : has_content             ? memory_constant(content)
                                                              : place_of(run, address);
    loaded = value_of_symbol(symbol, taints);
    loaded.flags = FLAG_SELF;
    return loaded;
}

/* With an index that is not known, all of the object that begins there. */
static void note_written(struct run *run, const struct value *address)
{
    if (!run->silent)
        kept_add_written(run->file, run->thread_data,
                         address->count == 0 || address->offset > 0 ? (uint64_t)address->offset : UINT64_MAX);
}

/* Whether a place of an array still holds a sum: in a loop over shares, what it had and what this turn has added. */
static bool stays_sum(const struct state *state, const struct value *address, const struct value *value)
{
    return (value->flags & FLAG_SUM) && (state->in_share == 0 ? value->origin == 0 : value->origin == origin_of(address));
}

static void new_version(const struct run *run, struct state *state, bool thread, uint64_t at)
{
    uint64_t *version = thread ? &state->thread_version : &state->stack_version;
    *version = hash_mix64(hash_mix64(*version, at), run->steps);
}

void memory_note_taken(struct run *run, const struct value *pointer)
{
    if (pointer->space == SPACE_STACK && pointer->offset < run->taken)
        run->taken = pointer->offset;
}

/* These places may hold this value now, or what they held before. An integer is not stored where a pointer is, and no array
 * holds the registers that a function saves. */
static void weaken(struct run *run, struct state *state, int64_t from, int64_t end, const struct value *value, unsigned bytes,
                   enum holds holds, bool sum, uint64_t at)
{
    uint16_t taints = value_taints(value);
    bool pointer = value->space != SPACE_NUMBER || (taints & TAINTS_MEMORY)
                   || (bytes == 8 && (holds & HOLDS_INTEGER) && (taints & TAINT_LOADED));
    for (size_t i = 0; i < state->slot_count; i++) {
        struct slot *slot = &state->slots[i];
        if (slot->place >= end || slot->place + slot->bytes <= from || (slot->value.space != SPACE_NUMBER && !pointer)
            || slot->saved || !(slot->holds & holds))
            continue;
        slot->holds |= (uint8_t)holds;
        /* A sum to which something was added, or was not, is that of the same place. */
        uint16_t flags = sum ? slot->value.flags & FLAG_SUM : 0, origin = slot->value.origin;
        slot->value = run_unknown(run, at, (uint64_t)slot->place, value_taints(&slot->value) | taints, run->loop);
        slot->value.flags = flags;
        slot->value.origin = flags ? origin : 0;
    }
}

/* Arrays of the own stack: any place of them may have changed. */
static void store_own_array(struct run *run, struct state *state, const struct value *address, const struct value *value,
                            unsigned bytes, enum holds holds, uint64_t at)
{
    bool thread = address->space == SPACE_THREAD;
    note_store(run, address);
    state_taint_own(state, thread, holds, value->taints);
    new_version(run, state, thread, at);
    bool sum = stays_sum(state, address, value);
    if (!sum)
        *(thread ? &state->thread_sums : &state->stack_sums) = false;
    int64_t from = THREAD_PLACES, end = INT64_MAX;
    if (!thread)
        array_of(run, address, &from, &end);
    weaken(run, state, from, end, value, bytes, holds, sum, at);
    if (!thread)
        state->arrays_from = from < state->arrays_from ? from : state->arrays_from;
}

static void store_heap(struct run *run, const struct state *state, const struct value *address, const struct value *value)
{
    uint16_t taints = value_taints(value) | (address->taints & (TAINTS_NUMBER | TAINT_SHARE))
                      | (state_branch_taints(state) & TAINTS_NUMBER);
    note_store(run, address);
    run->heap_taints |= taints;
    if (!run->silent && (taints & (TAINTS_NUMBER | TAINT_SHARE)))
        run->heap_numbers = true;
}

static bool store_own(struct run *run, struct state *state, const struct value *address, unsigned bytes,
                      const struct value *from, enum holds holds, uint64_t at)
{
    int64_t place;
    struct value own = *from;
    const struct value *value = &own;
    /* Which element changes is known from what is there afterwards. */
    if (!fixed_place(address, &place))
        own.taints |= address->taints & (TAINTS_NUMBER | TAINT_SHARE);
    if (address->space == SPACE_HEAP) {
        store_heap(run, state, address, value);
        return true;
    }
    if (address->space != SPACE_STACK && address->space != SPACE_THREAD)
        return false;
    if (address->space == SPACE_THREAD)
        note_written(run, address);
    if (address->space == SPACE_THREAD || address->count > 0) {
        struct value low = *address, high = *address;
        low.taints = high.taints = 0;
        low.flags = high.flags = 0;
        high.offset += bytes;
        state_add_range(state, &low, &high, false);
    }
    if (!fixed_place(address, &place) || bytes > 64) {
        store_own_array(run, state, address, value, bytes, holds, at);
        return true;
    }
    bool thread = address->space == SPACE_THREAD;
    if (state_slot(state, place, bytes) == NULL)
        note_store(run, address);
    if (!(value->flags & FLAG_SUM) || (value->origin && state_slot(state, place, bytes) == NULL))
        *(thread ? &state->thread_sums : &state->stack_sums) = false;
    if (!state_set_slot(state, place, bytes, value, holds)) {
        state_taint_own(state, thread, holds, value->taints);
        new_version(run, state, thread, at);
        state->arrays_from = !thread && place < state->arrays_from ? place : state->arrays_from;
    }
    return true;
}

/* What a store to shared memory says. `added`: the value is what the place had, plus a sum of this thread. */
static void check_shared(struct run *run, struct state *state, const struct value *address, const struct value *value,
                         bool atomic, uint64_t at)
{
    bool to_numbered = taints_numbered(address->taints), divided = state->in_share > 0;
    uint16_t branches = state_branch_taints(state);
    if (value->taints & TAINTS_OWN) {
        run_reject(run, VSCAF_REASON_UNKNOWN_STORE, at, "an address of its own memory");
        return;
    }
    /* All threads take such a way, or none: whether they do depends on the team. */
    if (state_depends_on_team(state)) {
        run_reject(run, VSCAF_REASON_TELLS, at, "");
        return;
    }
    if ((value_taints(value) & TAINT_HEAP) && !run->silent)
        run->heap_leaves = true;
    if (taints_numbered(value->taints)) {
        run_reject(run, value->taints & TAINT_TEAM ? VSCAF_REASON_TELLS : VSCAF_REASON_NUMBER_ALONE, at, "");
        return;
    }
    if (to_numbered) {
        note_place(run, address, true, false, at);
        return;
    }
    /* Work that one thread does may be done by any: what it stores must not tell which. The same holds for a turn. */
    bool once = state_is_divided(state) && !divided;
    if (taints_numbered(branches) && !once) {
        run_reject(run, branches & TAINT_TEAM ? VSCAF_REASON_TELLS : VSCAF_REASON_NUMBER_ALONE, at, "");
        return;
    }
    bool sum = (value->flags & FLAG_SELF) && (atomic || state->locks > 0) && !divided && !once;
    if (((address->taints | branches) & TAINT_SHARE) || ((value->taints & TAINT_SHARE) && !sum)) {
        run_reject(run, VSCAF_REASON_TELLS, at, "");
        return;
    }
    if (divided || once)
        return;
    if ((value->taints & TAINT_LOADED) && !sum)
        run_reject(run, VSCAF_REASON_COUNTS, at, "");
}

void memory_store(struct run *run, struct state *state, const struct value *address, unsigned bytes,
                  const struct value *value, enum store_kind kind, enum holds holds, uint64_t at)
{
    if (address->space == SPACE_THREAD && outside_thread_data(run, address)) {
        run_reject(run, VSCAF_REASON_FOREIGN_DATA, at, "");
        return;
    }
    memory_note_taken(run, value);
    if (store_own(run, state, address, bytes, value, holds, at))
        return;
    if (address->taints & TAINTS_OWN) {
        /* One of several places, some of them the thread's own. */
        if ((address->taints & TAINT_PRIVATE) || address->space == SPACE_IMAGE)
            run_reject(run, VSCAF_REASON_UNKNOWN_STORE, at, "one of several places");
        state_taint_own(state, false, holds, value->taints | (address->taints & (TAINTS_NUMBER | TAINT_SHARE)));
        new_version(run, state, false, at);
        state->arrays_from = run->taken < state->arrays_from ? run->taken : state->arrays_from;
        struct value marked = *value;
        marked.taints |= address->taints & (TAINTS_NUMBER | TAINT_SHARE);
        bool sum = stays_sum(state, address, value);
        note_store(run, address);
        state->stack_sums &= sum;
        weaken(run, state, run->taken, THREAD_PLACES / 2, &marked, bytes, holds, sum, at);
    }
    if (address->taints & TAINT_HEAP)
        store_heap(run, state, address, value);
    if (run->look.loop != 0 && (value->flags & FLAG_SELF) && run->look.sum_count < WAIT_SUMS_MAX)
        run->look.sums[run->look.sum_count++] = value_hash(address);
    run->stores_floats |= (holds & HOLDS_FLOATING) != 0;
    check_shared(run, state, address, value, kind == STORE_ATOMIC, at);
    if (holds & HOLDS_INTEGER)
        run->stores_integers = true;
    if ((holds & HOLDS_INTEGER) && run->epochs) {
        state->epoch = hash_mix64(state->epoch, at);
        state->epoch_loop = run->loop;
    }
}

void memory_atomic_add(struct run *run, struct state *state, const struct value *address, unsigned bytes,
                       const struct value *value, uint64_t at)
{
    if (store_own(run, state, address, bytes, value, HOLDS_INTEGER, at))
        return;
    struct value sum = *value;
    sum.taints |= TAINT_LOADED;
    sum.flags = (value->flags & FLAG_SUM) && !value->origin ? FLAG_SELF : 0;
    memory_store(run, state, address, bytes, &sum, STORE_ATOMIC, HOLDS_INTEGER, at);
}

void memory_fill(struct run *run, struct state *state, const struct value *address, const struct value *size,
                 const struct value *value, uint64_t at)
{
    int64_t bytes;
    bool known = value_is_number(size, &bytes);
    /* Whether a byte is written depends on how many are. */
    struct value stored = *value;
    stored.taints |= size->taints & (TAINTS_NUMBER | TAINT_SHARE);
    if (address->space == SPACE_STACK || address->space == SPACE_THREAD)
        stored.taints |= address->taints & (TAINTS_NUMBER | TAINT_SHARE);
    value = &stored;
    bool sum = (value->flags & FLAG_SUM) && state->in_share == 0; /* in a turn, what earlier ones have added is gone */
    if (address->space == SPACE_STACK || address->space == SPACE_THREAD) {
        struct value high;
        note_store(run, address);
        if (value_add(address, size, 1, &high) && !(size->taints & (TAINTS_NUMBER | TAINTS_MEMORY))) {
            struct value low = *address;
            low.taints = high.taints = low.flags = high.flags = 0;
            state_add_range(state, &low, &high, false);
        }
    }
    if (address->space == SPACE_THREAD) {
        note_written(run, address);
        weaken(run, state, THREAD_PLACES, INT64_MAX, value, 8, HOLDS_EITHER, sum, at);
        state_taint_own(state, true, HOLDS_EITHER, value->taints);
        new_version(run, state, true, at);
        state->thread_sums &= sum;
    } else if (address->space == SPACE_STACK) {
        if (address->count == 0 && known && bytes >= 0 && bytes < 1 << 20) {
            int64_t from = address->offset, end = from + bytes;
            for (size_t i = 0; i < state->slot_count; i++) { /* what is left of a larger place may still be read */
                const struct slot *slot = &state->slots[i];
                bool overlaps = slot->place < end && slot->place + slot->bytes > from;
                if (overlaps && (slot->place < from || slot->place + slot->bytes > end))
                    state_taint_slot(state, slot);
            }
            state_forget_places(state, from, end, true);
        } else
            store_own_array(run, state, address, value, 8, HOLDS_EITHER, at);
        state_taint_own(state, false, HOLDS_EITHER, value->taints);
        new_version(run, state, false, at);
        state->arrays_from = address->offset < state->arrays_from ? address->offset : state->arrays_from;
        state->stack_sums &= sum;
    } else {
        memory_store(run, state, address, 8, value, STORE_PLAIN, HOLDS_EITHER, at);
    }
}

void memory_read_any(struct run *run, struct state *state, const struct value *address, const struct value *size, uint64_t at)
{
    int64_t bytes;
    if (address->space == SPACE_THREAD && !run->silent) {
        struct value high;
        if (value_is_number(size, &bytes) && bytes > 0) {
            read_thread_data(run, state, address, (unsigned)(bytes > INT32_MAX ? INT32_MAX : bytes), at);
        } else if (!value_add(address, size, 1, &high) || !written(run, state, address, 1, false)) {
            run_reject(run, VSCAF_REASON_KEEPS_DATA, at, "");
        } else {
            high.offset -= 1;
            if (!written(run, state, &high, 1, false))
                run_reject(run, VSCAF_REASON_KEEPS_DATA, at, "");
        }
    } else if (address->taints & TAINT_PRIVATE && address->space != SPACE_THREAD) {
        run_reject(run, VSCAF_REASON_KEEPS_DATA, at, "");
    } else if (taints_numbered(address->taints) && address->space != SPACE_STACK && address->space != SPACE_HEAP) {
        note_place(run, address, false, (address->taints & TAINT_TEAM) != 0, at);
    }
}
