#include "code/x86/written.h"

/* An array of unknown length counts as written for this many elements after the place where writing began, or rows if
 * the step tells that they are rows. Its elements a[i - k] count as written for as many before that place. */
#define NEIGHBOURS 4
#define NEIGHBOUR_BYTES 16
#define DENSE_NEIGHBOURS 2

/* A loop that the compiler unrolled with vectors. Its step is a power of two of them and tells nothing about rows. */
static bool is_unrolled(const struct written *place)
{
    return place->bytes >= 16 && place->unit % place->bytes == 0 && (place->unit & (place->unit - 1)) == 0;
}

static bool length_known(const struct written *place)
{
    return place->end > place->start;
}

static bool same_iteration(const struct written *one, const struct written *other)
{
    int64_t distance = one->start - other->start;
    return one->open && one->loop == other->loop && one->unit == other->unit && distance > -one->unit
           && distance < one->unit;
}

void written_add(struct written_set *set, const struct written *place)
{
    bool dense = false;
    for (size_t i = 0; i < set->count; i++) {
        struct written *known = set->places + i;
        if (known->open != place->open)
            continue;
        if (place->open) {
            if (known->start == place->start && known->unit == place->unit && known->loop == place->loop)
                return;
        } else if (place->start <= known->end && place->end >= known->start) {
            known->start = place->start < known->start ? place->start : known->start;
            known->end = place->end > known->end ? place->end : known->end;
            return;
        }
    }
    if (place->open) {
        int64_t bytes = place->bytes;
        for (size_t i = 0; i < set->count; i++)
            if (same_iteration(set->places + i, place))
                bytes += set->places[i].bytes;
        if (bytes >= place->unit)
            for (size_t i = 0; i < set->count; i++)
                if (same_iteration(set->places + i, place))
                    set->places[i].dense = set->places[i].unit > set->places[i].bytes;
        dense = place->unit > place->bytes && bytes >= place->unit;
    }
    if (set->count < WRITTEN_MAX) { /* else it counts as not written, which is the safe error */
        set->places[set->count] = *place;
        set->places[set->count++].dense = dense;
    }
}

static bool covers(const struct written *place, int64_t start, bool open, int32_t step)
{
    if (start >= place->start && start < place->end)
        return true;
    if (!place->open) /* a[i - 1] of an array whose first element was set separately */
        return open && start < place->start && start >= place->start - NEIGHBOUR_BYTES;
    int64_t reach = (int64_t)NEIGHBOURS * place->unit;
    if (place->dense)
        reach = is_unrolled(place) ? place->bytes : DENSE_NEIGHBOURS * (int64_t)place->unit;
    if (open && reach < step) /* within the bytes that the reading loop uses in one turn */
        reach = step;
    int64_t end = length_known(place) ? place->end : place->start + reach + place->bytes;
    int64_t around = open ? NEIGHBOUR_BYTES : 0;
    return start >= place->start - (open ? reach + around : 0) && start < end + around;
}

bool written_covers(const struct written_set *set, int64_t start, int32_t bytes, bool open, int32_t step)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct written *place = set->places + i;
        /* Where an array ends is at best a guess, so the first byte must do. */
        if (covers(place, start, open, step)
            && (open || bytes <= 1 || (place->open && !length_known(place))
                || written_covers(set, start + bytes - 1, 1, false, 0)))
            return true;
    }
    return false;
}

void written_ends(struct written_set *set, int64_t start, int64_t end)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->places[i].open && set->places[i].start >= start && set->places[i].start < end
            && set->places[i].start - start < 4096 && set->places[i].end < end)
            set->places[i].end = end;
}

void written_index_limit(struct written_set *set, uint32_t loop, uint8_t index, int64_t limit, int64_t iterations)
{
    for (size_t i = 0; i < set->count; i++) {
        struct written *place = set->places + i;
        int64_t end = place->end;
        if (!place->open || place->loop != loop)
            continue;
        if (place->index == index && limit > place->first)
            end = place->start + (limit - place->first) * place->scale;
        else if (place->each_iteration && iterations > 0)
            end = place->start + iterations * place->unit;
        if (end > place->end)
            place->end = end;
    }
}
