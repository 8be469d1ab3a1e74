#include "code/x86/slots.h"

static struct slot *slot_at(struct inspection *in, int32_t offset)
{
    for (size_t i = 0; i < in->slot_count; i++)
        if (in->slots[i].offset == offset)
            return in->slots + i;
    return NULL;
}

void slot_forget(struct inspection *in, int64_t from, int64_t to)
{
    for (size_t i = 0; i < in->slot_count;) {
        if (in->slots[i].offset + 8 > from && in->slots[i].offset < to)
            in->slots[i] = in->slots[--in->slot_count];
        else
            i++;
    }
}

bool slot_store(struct inspection *in, int32_t offset, unsigned bytes, struct value value)
{
    /* A loop's counter gets its first value: keep what is known of its steps. */
    const struct slot *known = slot_at(in, offset);
    if (known && known->value.kind == VALUE_NUMBER && known->value.open && value.kind == VALUE_NUMBER && !value.open)
        value = (struct value){.kind = VALUE_NUMBER, .open = true, .step = known->value.step, .offset = value.offset};
    slot_forget(in, offset, (int64_t)offset + bytes);
    if (value.kind == VALUE_UNKNOWN || bytes < 4 || (bytes == 4 && !value_is_short(value)))
        return true;
    if (in->slot_count == INSPECT_SLOTS)
        return !value_own(in->view, &value);
    in->slots[in->slot_count++] = (struct slot){offset, value};
    return true;
}

struct value slot_load(struct inspection *in, int32_t offset)
{
    const struct slot *slot = slot_at(in, offset);
    return slot ? slot->value : (struct value){.kind = VALUE_UNKNOWN};
}
