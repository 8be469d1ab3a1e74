#include "learn/publish.h"

void publish_speedups(struct vscaf_page *page, const struct speedup *speedups, unsigned count,
                      enum vscaf_metric metric)
{
    /* The writer of a seqlock: the sequence is odd before the first store is visible, and even after the last one
     * is. */
    uint32_t sequence = atomic_load_explicit(&page->estimates_sequence, memory_order_relaxed) | 1u;
    atomic_store_explicit(&page->estimates_sequence, sequence, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    uint32_t used = 0;
    for (unsigned i = 0; i < count && used < VSCAF_ESTIMATES; i++) {
        if (!speedups[i].p)
            continue;
        struct vscaf_estimate *out = &page->estimates[used++];
        atomic_store_explicit(&out->team_size, speedups[i].p, memory_order_relaxed);
        atomic_store_explicit(&out->samples, speedups[i].samples, memory_order_relaxed);
        atomic_store_explicit(&out->speedup_millionths, (uint64_t)(speedups[i].speedup * 1e6), memory_order_relaxed);
        atomic_store_explicit(&out->standard_error_millionths, (uint64_t)(speedups[i].standard_error * 1e6),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&page->estimates_used, used, memory_order_relaxed);
    atomic_store_explicit(&page->metric, (uint32_t)metric, memory_order_relaxed);
    atomic_store_explicit(&page->estimates_sequence, sequence + 1, memory_order_release);
}
