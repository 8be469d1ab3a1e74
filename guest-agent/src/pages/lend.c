#include "pages/lend.h"

#include <string.h>

#define NUMBER_MASK (UINT32_MAX >> VSCAF_CONTROL_CALL_SHIFT)

enum lend_packet lend_take_packet(struct lend *lend, const void *packet, size_t length)
{
    struct vscaf_call call;
    if (length != sizeof(call))
        return LEND_NO_CALL;
    memcpy(&call, packet, sizeof(call));
    if (call.magic != VSCAF_CALL_MAGIC)
        return LEND_NO_CALL;
    if (!lend->call_requested || call.number != lend->number) {
        lend->unrequested_calls += lend->unrequested_calls < UINT32_MAX;
        return LEND_UNREQUESTED;
    }
    lend->call_requested = false;
    lend->called = true;
    return LEND_CALLED;
}

bool lend_muted(const struct lend *lend)
{
    return lend->unrequested_calls > LEND_UNREQUESTED_MAX;
}

void lend_period(struct lend *lend)
{
    lend->unrequested_calls = 0;
}

void lend_measured(struct lend *lend, bool running, uint64_t now_ns)
{
    if (running) {
        lend->fruitless_calls = 0;
    } else if (lend->called) {
        uint64_t backoff_ns = LEND_BACKOFF_NS;
        for (uint32_t i = 0; i < lend->fruitless_calls && backoff_ns < LEND_BACKOFF_MAX_NS; i++)
            backoff_ns *= 2;
        lend->ask_ns = now_ns + (backoff_ns < LEND_BACKOFF_MAX_NS ? backoff_ns : LEND_BACKOFF_MAX_NS);
        lend->fruitless_calls++;
    }
    lend->called = false;
    bool ask = !running && now_ns >= lend->ask_ns;
    if (ask && !lend->call_requested)
        lend->number = (lend->number + 1) & NUMBER_MASK;
    lend->call_requested = ask;
}

uint32_t lend_control(const struct lend *lend)
{
    return lend->call_requested ? VSCAF_CONTROL_CALL | lend->number << VSCAF_CONTROL_CALL_SHIFT : 0;
}
