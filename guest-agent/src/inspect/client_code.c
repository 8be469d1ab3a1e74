#include "inspect/client_code.h"

#include <stdlib.h>

static bool same_mapping(const struct look_object *a, const struct look_object *b)
{
    return a->start == b->start && a->end == b->end && a->offset == b->offset && a->identified && b->identified &&
           file_identity_equal(&a->identity, &b->identity);
}

static void release_objects(struct client_code *code)
{
    for (uint32_t i = 0; code->objects != NULL && i < code->look->count; i++)
        if (code->objects[i].known != NULL)
            code->objects[i].known->references--;
    free(code->objects);
    look_free(code->look);
    code->objects = NULL;
    code->look = NULL;
}

void client_code_know(struct client_code *code, uint32_t number, struct known_object *known)
{
    struct code_object *object = &code->objects[number];
    if (object->known != NULL)
        object->known->references--;
    object->known = known;
    known->references++;
    object->state = CODE_KNOWN;
    look_close_file(&code->look->objects[number]);
}

void client_code_update(struct client_code *code, struct objects *objects, struct look *look, uint64_t account)
{
    struct client_code before = *code;
    code->look = look;
    code->objects = calloc(look->count > 0 ? look->count : 1, sizeof(*code->objects));
    if (code->objects == NULL) {
        look_free(look);
        code->look = before.look;
        code->objects = before.objects;
        return;
    }
    for (uint32_t i = 0; i < look->count; i++) {
        const struct look_object *mapping = &look->objects[i];
        int64_t old = before.look != NULL ? client_code_at(&before, mapping->start) : -1;
        struct known_object *known = NULL;
        if (old >= 0 && same_mapping(mapping, &before.look->objects[old])) {
            code->objects[i] = before.objects[old];
            known = before.objects[old].known;
            code->objects[i].known = NULL;
        } else {
            code->objects[i].state = !mapping->identified ? CODE_UNREADABLE
                                     : mapping->provider  ? CODE_IDLE
                                                          : CODE_WANTED;
            known = mapping->identified ? objects_find(objects, &mapping->identity, account) : NULL;
        }
        if (known != NULL)
            client_code_know(code, i, known);
        else if (code->objects[i].state != CODE_WANTED)
            look_close_file(&look->objects[i]);
    }
    if (before.look != NULL)
        release_objects(&before);
}

int64_t client_code_at(const struct client_code *code, uint64_t address)
{
    uint32_t low = 0, high = code->look != NULL ? code->look->count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (code->look->objects[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return code->look != NULL && low < code->look->count && code->look->objects[low].start <= address ? (int64_t)low
                                                                                                       : -1;
}

static bool is_empty(const struct inspect_known_set *set)
{
    uint64_t any = 0;
    for (size_t i = 0; i < INSPECT_KNOWN_MAX / 64; i++)
        any |= set->words[i];
    return any == 0;
}

static bool overlap(const struct inspect_known_set *a, const struct inspect_known_set *b)
{
    uint64_t both = 0;
    for (size_t i = 0; i < INSPECT_KNOWN_MAX / 64; i++)
        both |= a->words[i] & b->words[i];
    return both != 0;
}

uint32_t client_code_verdict(const struct client_code *code, const struct record_section *section)
{
    if (is_empty(&section->relies))
        return section->verdict;
    /* It relies on functions of other objects. They must be those of the libraries that are expected to define them. */
    bool unknown = false, unreadable = !code->look->complete;
    for (uint32_t i = 0; i < code->look->count; i++) {
        const struct code_object *object = &code->objects[i];
        if (code->look->objects[i].provider)
            continue;
        if (object->state == CODE_KNOWN && overlap(&section->relies, &object->known->record->defines))
            return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_REPLACED);
        unknown = unknown || object->state == CODE_WANTED;
        unreadable = unreadable || object->state == CODE_UNREADABLE;
    }
    if (unreadable)
        return vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNREADABLE);
    return unknown ? 0 : section->verdict;
}

void client_code_fill(const struct client_code *code, struct vscaf_page *page)
{
    uint32_t used = 0;
    for (uint32_t i = 0; code->look != NULL && i < code->look->count; i++) {
        const struct look_object *mapping = &code->look->objects[i];
        const struct code_object *object = &code->objects[i];
        if (object->state != CODE_KNOWN || mapping->writable || mapping->in_memory)
            continue;
        const struct record *record = object->known->record;
        for (uint32_t j = 0; j < record->count && used < VSCAF_VERDICTS; j++) {
            uint64_t offset = record->sections[j].file_offset;
            if (offset < mapping->offset || offset - mapping->offset >= mapping->end - mapping->start)
                continue;
            uint32_t verdict = client_code_verdict(code, &record->sections[j]);
            if (verdict != 0)
                page->known[used++] = (struct vscaf_known_section){
                    .address = mapping->start + (offset - mapping->offset), .answer = vscaf_answer(verdict)};
        }
    }
    page->known_used = used;
}

void client_code_release(struct client_code *code)
{
    if (code == NULL)
        return;
    if (code->job != NULL)
        look_leave(code->job);
    if (code->look != NULL)
        release_objects(code);
    free(code);
}
