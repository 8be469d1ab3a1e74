#include "inspect.h"

#include <stdlib.h>
#include <string.h>

#include "run.h"

#define SECTIONS_MAX 16384u
#define RSP 4u
#define RSI 6u
#define RDI 7u
#define CLANG_ARGUMENTS INT64_C(8192) /* a place above the stack for what clang's runtime hands over by address */

void run_reject(struct run *run, enum vscaf_reason reason, uint64_t at, const char *detail)
{
    if (run->silent)
        return;
    run->keeps |= vscaf_verdict_keeps(vscaf_verdict_word(VSCAF_VERDICT_OWN, reason));
    if (run->reason != VSCAF_REASON_NONE)
        return;
    run->reason = reason;
    run->at = at;
    run->detail = detail;
}

bool run_rejected(const struct run *run)
{
    return run->reason != VSCAF_REASON_NONE;
}

bool run_settled(const struct run *run)
{
    return run_rejected(run) && run->keeps;
}

uint16_t run_choice_taints(const struct run *run)
{
    return TAINTS_NUMBER | TAINT_SHARE | (run->look.branches ? TAINT_LOADED : 0);
}

struct value run_unknown(struct run *run, uint64_t at, uint64_t from, uint16_t taints, uint32_t loop)
{
    uint64_t key = hash_mix64(hash_mix64(hash_mix64(at, from), run->context), 500);
    uint32_t symbol = symbol_of(&run->symbols, key, SYMBOL_OTHER, loop);
    if (symbol != 0)
        run->symbols.all[symbol].partial = (taints & TAINT_SHARE) != 0;
    return value_of_symbol(symbol, taints);
}

struct value run_chosen(struct run *run, uint64_t at, const struct value *value, uint16_t taints)
{
    taints &= run_choice_taints(run);
    if (!(taints & TAINT_SHARE)) {
        struct value chosen = *value;
        chosen.taints |= taints;
        chosen.flags = taints ? 0 : value->flags;
        return chosen;
    }
    return run_unknown(run, at, value_hash(value), value_taints(value) | taints, value_loop(&run->symbols, value));
}

/* Places that are found by a thread's number: right for each team up to the number told if the section exchanges data
 * through them itself. What is stored in such an array is also looked up in it as another thread's, and nothing is looked
 * up that was not stored. */
static bool exchanges(const struct run *run)
{
    for (size_t i = 0; i < run->place_count; i++) {
        bool stored = false, of_others = false;
        for (size_t j = 0; j < run->place_count; j++) {
            if (run->places[j].group != run->places[i].group)
                continue;
            stored |= run->places[j].stored;
            of_others |= run->places[j].loaded && (run->places[j].of_others || run->places[j].offset != run->places[i].offset);
        }
        if (!stored || !of_others)
            return false;
    }
    /* Flags: each thread waits for those of lower numbers alone, or for its own. So the one with the lowest number never
     * waits for ever, whatever the team's size. */
    for (size_t i = 0; i < run->place_count; i++) {
        const struct numbered_place *wait = &run->places[i];
        bool lower = false;
        for (size_t j = 0; j < run->place_count; j++)
            lower |= run->places[j].stored && run->places[j].group == wait->group && run->places[j].factor == wait->factor
                     && wait->factor > 0 && wait->offset <= run->places[j].offset && !wait->of_others;
        if (wait->waited && wait->loaded && !lower)
            return false;
    }
    return run->uses_team;
}

static void follow_section(struct run *run, struct state *state, const struct elf_file *file, struct code *code, bool kmpc,
                           struct inspect_section *section, struct kept_use *thread_data, bool epochs)
{
    memset(run, 0, sizeof *run);
    kept_free(thread_data);
    run->thread_data = thread_data;
    memset(state, 0, sizeof *state);
    run->file = file;
    run->code = code;
    run->kmpc = kmpc;
    run->epochs = epochs;
    state->reached = true;
    state->stack_sums = state->thread_sums = true;
    state->arrays_from = INT64_MAX;
    for (unsigned r = 0; r < REGISTERS_GENERAL; r++)
        state->registers[r] = run_unknown(run, r, 600, 0, 0);
    state->registers[RSP] = (struct value){.space = SPACE_STACK};
    state->left = run_unknown(run, 1, 601, 0, 0);
    state->right = value_number(0);
    state->compared_bits = 64;
    for (unsigned v = REGISTER_VECTOR; v < REGISTERS; v++) {
        struct value value = run_unknown(run, v, 602, 0, 0);
        vector_set(run, state, v, &value, false, 0);
    }
    if (kmpc) {
        struct value thread = value_of_symbol(symbol_of(&run->symbols, 1, SYMBOL_THREAD, 0), TAINT_THREAD);
        state->registers[RDI] = (struct value){.space = SPACE_STACK, .offset = CLANG_ARGUMENTS};
        state->registers[RSI] = (struct value){.space = SPACE_STACK, .offset = CLANG_ARGUMENTS + 64};
        state_set_slot(state, CLANG_ARGUMENTS, 4, &thread, HOLDS_INTEGER);
    }
    follow_function(run, section->address, state, 0);
    if (run->no_memory || run->symbols.no_memory)
        run_reject(run, VSCAF_REASON_UNREADABLE, 0, "no memory");
    if (run->waits_for_float && run->stores_floats)
        run_reject(run, VSCAF_REASON_WAITS, run->waits_at, "");
    if (run->heap_leaves && run->heap_numbers)
        run_reject(run, VSCAF_REASON_TELLS, 0, "");
    enum vscaf_verdict verdict = VSCAF_VERDICT_FREE;
    if (run->reason == VSCAF_REASON_NONE && run->place_count > 0) {
        verdict = VSCAF_VERDICT_UP_TO;
        if (!exchanges(run))
            run_reject(run, VSCAF_REASON_NUMBER_ALONE, run->places[0].at, "");
    }
    if (run->reason != VSCAF_REASON_NONE)
        verdict = VSCAF_VERDICT_OWN;
    section->verdict = vscaf_verdict_word(verdict, run->reason);
    if (verdict == VSCAF_VERDICT_OWN && (run->keeps || thread_data->site_count > 0))
        section->verdict |= VSCAF_VERDICT_KEEPS;
    section->at = run->at;
    section->detail = run->detail != NULL ? run->detail : "";
    section->relies = run->relies;
}

static void inspect_section(const struct elf_file *file, struct code *code, bool kmpc, struct inspect_section *section,
                            struct kept_use *thread_data)
{
    struct run *run = calloc(1, sizeof *run);
    struct state *state = calloc(1, sizeof *state);
    section->verdict = (vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNREADABLE) | VSCAF_VERDICT_KEEPS);
    if (run != NULL && state != NULL) {
        /* If it stores no integers in shared memory, those that it loads there are the same while it runs. */
        follow_section(run, state, file, code, kmpc, section, thread_data, false);
        if (run->stores_integers && run->reason != VSCAF_REASON_UNREADABLE) {
            symbols_free(&run->symbols);
            follow_section(run, state, file, code, kmpc, section, thread_data, true);
        }
    }
    if (run != NULL)
        symbols_free(&run->symbols);
    free(run);
    free(state);
}

static bool is_section_name(const char *name)
{
    if (strstr(name, ".cold") != NULL || strstr(name, "_debug__") != NULL)
        return false; /* a part of one, or what clang calls from one */
    return strstr(name, "._omp_fn.") != NULL || strstr(name, "omp_outlined") != NULL;
}

static int by_offset(const void *one, const void *other)
{
    uint64_t left = ((const struct inspect_section *)one)->file_offset, right = ((const struct inspect_section *)other)->file_offset;
    return left < right ? -1 : left > right;
}

static int add_section(struct inspect_result *result, size_t *room, uint64_t offset, uint64_t address, const char *name)
{
    if (result->count == SECTIONS_MAX)
        return 0;
    if (result->count == *room) {
        size_t more = *room ? 2 * *room : 64;
        struct inspect_section *sections = realloc(result->sections, more * sizeof *sections);
        if (sections == NULL)
            return -1;
        result->sections = sections;
        *room = more;
    }
    result->sections[result->count++] =
        (struct inspect_section){.file_offset = offset, .address = address, .name = name, .detail = ""};
    return 0;
}

static bool imports(const struct elf_file *file, const char *name)
{
    for (size_t i = 0; i < file->dynamic_symbol_count; i++) {
        struct elf_symbol symbol = elf_symbol(file, true, i);
        if (symbol.section == SHN_UNDEF && strcmp(symbol.name, name) == 0)
            return true;
    }
    return false;
}

/* By offset, each offset once. */
static void sort_sections(struct inspect_result *result)
{
    if (result->count == 0)
        return;
    qsort(result->sections, result->count, sizeof *result->sections, by_offset);
    size_t kept = 1;
    for (size_t i = 1; i < result->count; i++) {
        struct inspect_section *last = &result->sections[kept - 1];
        if (result->sections[i].file_offset != last->file_offset)
            result->sections[kept++] = result->sections[i];
        else if (last->name[0] == '\0')
            last->name = result->sections[i].name;
    }
    result->count = kept;
}

int inspect_object(const void *bytes, size_t size, const uint64_t *also, size_t also_count, struct inspect_result *result)
{
    struct elf_file file;
    size_t room = 0;
    *result = (struct inspect_result){0};
    int status = elf_open(&file, bytes, size);
    if (status < 0)
        return -1;
    result->readable = status == 0;
    if (status != 0) {
        for (size_t i = 0; i < also_count; i++) {
            if (add_section(result, &room, also[i], 0, "") < 0)
                return -1;
            result->sections[result->count - 1].verdict =
                vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_MACHINE) | VSCAF_VERDICT_KEEPS;
        }
        sort_sections(result);
        return 0;
    }
    status = 0;
    for (size_t i = 0; i < file.dynamic_symbol_count; i++) {
        struct elf_symbol symbol = elf_symbol(&file, true, i);
        unsigned number;
        if (symbol.section != SHN_UNDEF && symbol.binding != STB_LOCAL && known_function(symbol.name, &number) != NULL)
            result->defines.words[number / 64] |= UINT64_C(1) << number % 64;
    }
    for (size_t i = 0; status == 0 && i < file.symbol_count; i++) {
        struct elf_symbol symbol = elf_symbol(&file, false, i);
        if (symbol.type == STT_FUNC && is_section_name(symbol.name) && elf_code_bytes(&file, symbol.value) > 0)
            status = add_section(result, &room, elf_offset_of(&file, symbol.value), symbol.value, symbol.name);
    }
    for (size_t i = 0; status == 0 && i < also_count; i++)
        status = add_section(result, &room, also[i], elf_address_of(&file, also[i]), "");
    if (status == 0)
        sort_sections(result);
    struct code *code = calloc(1, sizeof *code);
    struct kept_section *kept = calloc(result->count + 1, sizeof *kept);
    if (status == 0 && code != NULL && kept != NULL) {
        code->file = &file;
        code->catches = imports(&file, "__cxa_begin_catch");
        bool gcc = imports(&file, "GOMP_parallel"), clang = imports(&file, "__kmpc_fork_call");
        for (size_t i = 0; i < result->count; i++) {
            struct inspect_section *section = &result->sections[i];
            bool named = section->name[0] != '\0';
            bool kmpc = named ? strstr(section->name, "omp_outlined") != NULL : clang;
            if (file.machine != EM_X86_64)
                section->verdict = (vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_MACHINE) | VSCAF_VERDICT_KEEPS);
            else if (section->address == UINT64_MAX || (!named && gcc && clang))
                section->verdict = (vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNKNOWN_CODE) | VSCAF_VERDICT_KEEPS);
            else
                inspect_section(&file, code, kmpc, section, &kept[i].use);
            kept[i].entry = section->address;
            kept[i].proven = vscaf_verdict_of(section->verdict) != VSCAF_VERDICT_OWN;
        }
        if (file.machine == EM_X86_64)
            status = kept_check(code, kept, result->count);
        for (size_t i = 0; i < result->count; i++)
            if (kept[i].leaves)
                result->sections[i].verdict =
                    vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_KEEPS_DATA) | VSCAF_VERDICT_KEEPS;
        code_free(code);
    } else {
        status = -1;
    }
    for (size_t i = 0; kept != NULL && i < result->count; i++)
        kept_free(&kept[i].use);
    free(kept);
    free(code);
    elf_close(&file);
    if (status != 0)
        inspect_free(result);
    return status;
}

void inspect_free(struct inspect_result *result)
{
    free(result->sections);
    result->sections = NULL;
    result->count = 0;
}

const char *inspect_reason_text(enum vscaf_reason reason)
{
    static const char *const texts[VSCAF_REASON_COUNT] = {
        [VSCAF_REASON_NONE] = "",
        [VSCAF_REASON_NO_OBJECT] = "its code is in no file",
        [VSCAF_REASON_MACHINE] = "its code is for a processor that vscaf-inspect does not know",
        [VSCAF_REASON_UNREADABLE] = "its file could not be read",
        [VSCAF_REASON_UNKNOWN_CODE] = "some of its code is not understood",
        [VSCAF_REASON_UNKNOWN_CALL] = "calls a function of another object that is not known",
        [VSCAF_REASON_POINTER_CALL] = "calls a function through a pointer",
        [VSCAF_REASON_UNKNOWN_STORE] = "writes to a place that is not understood",
        [VSCAF_REASON_TELLS] = "the size of its team leaves the memory of its threads",
        [VSCAF_REASON_NUMBER_ALONE] = "uses the number of its thread, but not the size of its team",
        [VSCAF_REASON_COUNTS] = "each thread changes a shared value once, so the result counts the threads",
        [VSCAF_REASON_KEEPS_DATA] = "reads thread-private data that another section may have written",
        [VSCAF_REASON_FOREIGN_DATA] = "uses thread-private data of another object",
        [VSCAF_REASON_WAITS] = "a thread waits for another one",
        [VSCAF_REASON_REPLACED] = "a function that it calls comes from another object than expected",
    };
    return (unsigned)reason < VSCAF_REASON_COUNT ? texts[reason] : texts[VSCAF_REASON_UNKNOWN_CODE];
}
