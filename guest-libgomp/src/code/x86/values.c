#include "code/x86/values.h"

#include <elf.h>

#define STEP_MAX 65535

static struct value unknown(void)
{
    return (struct value){.kind = VALUE_UNKNOWN};
}

static bool is_pointer(struct value value)
{
    return value.kind == VALUE_THREAD || value.kind == VALUE_OWN || value.kind == VALUE_STACK
           || value.kind == VALUE_ADDRESS;
}

static struct value moved(struct value value, int64_t by)
{
    int64_t offset = value.offset + by;
    if (offset != (int32_t)offset)
        return unknown();
    value.offset = (int32_t)offset;
    return value;
}

static struct value opened(struct value value, uint16_t step)
{
    value.open = true;
    value.step = step > value.step ? step : value.step;
    return value;
}

/* The thread pointer plus a value from the object's table (initial-exec). */
static struct value add_loaded(const struct code_view *view, struct value thread, struct value loaded)
{
    struct object_reference reference = object_reference_at(view, view->base + (uintptr_t)(intptr_t)loaded.offset);
#ifdef R_X86_64_TPOFF64
    if (reference.type == R_X86_64_TPOFF64) {
        if (!reference.defined_here)
            return unknown(); /* it refers to another object */
        struct value own = {.kind = VALUE_OWN, .open = thread.open, .step = thread.step};
        return moved(own, (int64_t)reference.value + thread.offset);
    }
#endif
    return opened(thread, 0);
}

struct value value_add(const struct code_view *view, struct value one, struct value other)
{
    one = value_plain(one);
    other = value_plain(other);
    if (other.kind == VALUE_THREAD || (!is_pointer(one) && is_pointer(other)) || one.kind == VALUE_UNKNOWN
        || (other.kind == VALUE_OFFSET && !is_pointer(one))
        || (other.kind == VALUE_NUMBER && !other.open && !other.offset && !is_pointer(one))) {
        struct value swap = one;
        one = other;
        other = swap;
    }
    if (one.kind == VALUE_THREAD) {
        struct value place = one;
        bool base = one.offset == 0 || !value_own(view, &place);
        if (other.kind == VALUE_LOADED && base)
            return add_loaded(view, one, other);
        if (other.kind == VALUE_OFFSET) {
            struct value own = {.kind = VALUE_OWN, .open = one.open || other.open, .step = one.step};
            return moved(own, (int64_t)one.offset + other.offset);
        }
    }
    if (is_pointer(one)) {
        if (is_pointer(other))
            return unknown();
        if (other.kind == VALUE_NUMBER) {
            struct value sum = moved(one, other.offset);
            return other.open && sum.kind != VALUE_UNKNOWN ? opened(sum, other.step) : sum;
        }
        return opened(one, 0);
    }
    if ((one.kind == VALUE_NUMBER || one.kind == VALUE_OFFSET) && other.kind == VALUE_NUMBER) {
        struct value sum = moved(one, other.offset);
        return other.open && sum.kind != VALUE_UNKNOWN ? opened(sum, other.step) : sum;
    }
    if (one.kind == VALUE_NUMBER && !one.open && !one.offset)
        return other;
    if (one.kind == VALUE_OFFSET)
        return opened(one, 0);
    if (one.kind == VALUE_NUMBER && one.open)
        return one;
    return unknown();
}

struct value value_multiply(struct value value, int64_t times)
{
    if (times == 1)
        return value_plain(value);
    if (value.kind != VALUE_NUMBER || times < -STEP_MAX || times > STEP_MAX)
        return unknown();
    int64_t step = value.step * (times < 0 ? -times : times);
    struct value product = value_number(value.offset * times);
    if (product.kind == VALUE_NUMBER) {
        product.open = value.open;
        product.step = (uint16_t)(step > STEP_MAX ? STEP_MAX : step);
    }
    return product;
}

bool value_own(const struct code_view *view, struct value *value)
{
    /* If the array is at the very start: a[i - k] is before its first element. */
    int64_t before = value->open ? 4096 : 0;
    int64_t offset = value->offset;
    if (value->kind == VALUE_THREAD && view->tls_offset)
        offset -= view->tls_offset;
    else if (value->kind != VALUE_OWN)
        return false;
    if (value->kind != VALUE_OWN && (offset < -before || offset >= (int64_t)view->tls_bytes))
        return false;
    value->kind = VALUE_OWN;
    value->offset = (int32_t)offset;
    return true;
}

static bool of_thread(struct value value)
{
    return value.kind == VALUE_THREAD || value.kind == VALUE_OWN || value.kind == VALUE_OFFSET;
}

bool value_merge(struct value *into, struct value from)
{
    struct value before = *into;
    int64_t distance = (int64_t)from.offset - into->offset;
    if (into->kind == from.kind) {
        if (into->kind == VALUE_UNKNOWN)
            return false;
        if (distance && (into->kind == VALUE_LOADED || into->kind == VALUE_ADDRESS)) {
            *into = unknown();
        } else if (distance && !into->open) {
            distance = distance < 0 ? -distance : distance;
            into->offset = from.offset < into->offset ? from.offset : into->offset;
            into->open = true;
            into->step = distance > STEP_MAX ? STEP_MAX : (uint16_t)distance;
        } else if (from.open && !into->open) {
            into->open = true;
            into->step = from.step;
        } else if (into->open && (!into->step || from.step > into->step)) {
            distance = distance < 0 ? -distance : distance;
            into->step = from.step ? from.step : distance > STEP_MAX ? STEP_MAX : (uint16_t)distance;
        }
    } else if (of_thread(from) && !of_thread(*into)) {
        *into = from; /* it may be a pointer to thread data, so it counts as one */
    } else if (of_thread(*into)) {
        return false;
    } else if (from.kind == VALUE_NUMBER && from.open && from.step && into->kind != VALUE_STACK) {
        *into = from;
    } else if (into->kind == VALUE_NUMBER && into->open && into->step) {
        return false;
    } else {
        *into = unknown();
    }
    return before.kind != into->kind || before.open != into->open || before.step != into->step
           || before.offset != into->offset;
}

struct value value_of_address(const struct code_view *view, const struct state *state, const struct instruction *i,
                              uintptr_t next)
{
    if (i->base == DECODE_RIP) {
        struct value value = {.kind = VALUE_ADDRESS};
        return moved(value, (int64_t)(next - view->base) + i->displacement);
    }
    /* The displacement comes last, so that an unknown register does not hide it. */
    struct value value = i->fs ? (struct value){.kind = VALUE_THREAD} : value_number(0);
    if (i->base != DECODE_NO_REGISTER)
        value = value_add(view, value, state->registers[i->base]);
    if (i->index != DECODE_NO_REGISTER)
        value = value_add(view, value, value_multiply(state->registers[i->index], i->scale));
    if (value.kind == VALUE_UNKNOWN || (value.kind == VALUE_LOADED && i->displacement))
        return (struct value){.kind = VALUE_UNKNOWN};
    return value_add(view, value, value_number(i->displacement));
}
