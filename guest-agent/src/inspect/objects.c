#include "inspect/objects.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct objects *objects, struct known_object *object)
{
    objects->bytes -= record_bytes(object->record);
    free(object->record);
    *object = (struct known_object){0};
}

/* A place for a record of that size; NULL: there is none. */
static struct known_object *make_room(struct objects *objects, size_t bytes)
{
    for (;;) {
        struct known_object *free_place = NULL, *oldest = NULL;
        for (uint32_t i = 0; i < OBJECTS_MAX; i++) {
            struct known_object *place = &objects->places[i];
            if (place->record == NULL)
                free_place = place;
            else if (place->references == 0 && (oldest == NULL || place->used < oldest->used))
                oldest = place;
        }
        if (free_place != NULL && objects->bytes + bytes <= OBJECTS_BYTES_MAX)
            return free_place;
        if (oldest == NULL)
            return NULL;
        forget(objects, oldest);
    }
}

struct known_object *objects_add(struct objects *objects, struct record *record, const struct file_identity *identity,
                                 uint64_t account)
{
    struct known_object *object = NULL;
    for (uint32_t i = 0; i < OBJECTS_MAX && object == NULL; i++)
        if (objects->places[i].record != NULL &&
            memcmp(objects->places[i].record->sha256, record->sha256, RECORD_SHA256_BYTES) == 0)
            object = &objects->places[i];
    if (object != NULL) { /* the newer one has what was asked for last */
        objects->bytes -= record_bytes(object->record);
        free(object->record);
    } else {
        object = make_room(objects, record_bytes(record));
    }
    if (object == NULL) {
        free(record);
        return NULL;
    }
    object->record = record;
    if (identity->root_only || !object->identity.root_only) { /* a copy of another user does not hide root's file */
        object->identity = *identity;
        object->account = account;
    }
    object->used = ++objects->uses;
    objects->bytes += record_bytes(record);
    return object;
}

struct known_object *objects_find(struct objects *objects, const struct file_identity *identity, uint64_t account)
{
    if (!identity->root_only)
        return NULL;
    for (uint32_t i = 0; i < OBJECTS_MAX; i++) {
        struct known_object *object = &objects->places[i];
        if (object->record != NULL && file_identity_equal(&object->identity, identity) &&
            (object->account == OBJECTS_ANYBODY || object->account == account)) {
            object->used = ++objects->uses;
            return object;
        }
    }
    return NULL;
}

void objects_free(struct objects *objects)
{
    for (uint32_t i = 0; i < OBJECTS_MAX; i++)
        if (objects->places[i].record != NULL)
            forget(objects, &objects->places[i]);
}
