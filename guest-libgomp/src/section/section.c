#include "section/section.h"

#include <string.h>

#include "join/join.h"
#include "join/program.h"
#include "learn/meter.h"
#include "learn/permission.h"
#include "learn/rate.h"
#include "measure/clock.h"
#include "measure/random.h"
#include "section/decompose.h"
#include "team/masters.h"
#include "team/verdicts.h"

/* struct call_site.slot: the high half is the epoch of the join, the low half the state. */
#define SLOT_CLAIMING 0xffffffffu
#define SLOT_NONE 0xfffffffeu /* the page has no free slot: the section counts as dropped */

/* A section whose mean is below these limits (some us) is timed by random samples; above, each instance is timed. A
 * tick is 0.2 to 1 ns. So two readings of the clock cost less than 1% of any section that they time, or are rare. */
#define TINY_TICKS 2048u
#define SMALL_TICKS 8192u
#define TINY_GAP_MASK 31u
#define SMALL_GAP_MASK 7u

_Thread_local struct section_thread section_thread;
_Atomic(struct section_thread *) section_owner;
_Atomic bool section_multiple_masters;
struct fast_path fast_path = {.number = 1};

static uint64_t random_state = 88172645463325252u;

static inline uint64_t slot_of(uint32_t epoch, uint32_t state)
{
    return (uint64_t)epoch << 32 | state;
}

/* The slot of the section on the page of this epoch. SLOT_NONE or SLOT_CLAIMING: it has none, or none yet. */
static __attribute__((noinline)) uint32_t claim_slot(struct section *section, uint64_t seen)
{
    struct call_site *site = section->site;
    uint32_t epoch = section->epoch;
    if ((uint32_t)(seen >> 32) > epoch)
        return SLOT_CLAIMING; /* the section ran on the page of an earlier agent */
    if (!atomic_compare_exchange_strong_explicit(&site->slot, &seen, slot_of(epoch, SLOT_CLAIMING),
                                                 memory_order_relaxed, memory_order_relaxed))
        return SLOT_CLAIMING; /* another thread claims it now; this one instance is not booked */

    struct vscaf_section *sections = section->attachment->page->sections;
    uint64_t build_id = atomic_load_explicit(&site->object, memory_order_relaxed)->build_id;
    uint64_t offset = site->offset ? site->offset : 1; /* 0 would mean free */
    /* A library that was unloaded and loaded again has new call sites with the same names. */
    uint32_t used = atomic_load_explicit(&section->attachment->sections_used, memory_order_relaxed);
    uint32_t index = 0;
    while (index < used && index < VSCAF_SECTIONS
           && (atomic_load_explicit(&sections[index].offset, memory_order_relaxed) != offset
               || atomic_load_explicit(&sections[index].build_id, memory_order_relaxed) != build_id))
        index++;
    if (index >= used && index < VSCAF_SECTIONS) {
        index = atomic_fetch_add_explicit(&section->attachment->sections_used, 1, memory_order_relaxed);
        if (index < VSCAF_SECTIONS) {
            atomic_store_explicit(&sections[index].build_id, build_id, memory_order_relaxed);
            /* Release: the offset marks the slot as used, so the name must be complete. */
            atomic_store_explicit(&sections[index].offset, offset, memory_order_release);
            atomic_fetch_add_explicit(&section->attachment->page->sections_used, 1, memory_order_release);
        }
    }
    if (index >= VSCAF_SECTIONS)
        index = SLOT_NONE;
    /* Relaxed: only the index matters, and nothing is removed from the page. */
    atomic_store_explicit(&site->slot, slot_of(epoch, index), memory_order_relaxed);
    return index;
}

/* The section's point at the size of its team. NULL: there is none, or none yet. Then `ns` is counted in other_ns, or
 * the section as dropped. */
static __attribute__((noinline)) struct vscaf_point *find_point(struct section *section, uint64_t ns)
{
    uint64_t seen = atomic_load_explicit(&section->site->slot, memory_order_relaxed);
    uint32_t index = (uint32_t)seen;
    struct vscaf_page *page = section->attachment->page;
    if (__builtin_expect((uint32_t)(seen >> 32) != section->epoch || index >= VSCAF_SECTIONS, 0)) {
        if ((uint32_t)(seen >> 32) != section->epoch)
            index = claim_slot(section, seen);
        if (index == SLOT_NONE)
            atomic_fetch_add_explicit(&page->sections_dropped, 1, memory_order_relaxed);
        if (index >= VSCAF_SECTIONS)
            return NULL;
    }
    struct vscaf_section *entry = &page->sections[index];
    uint32_t size = section->team.size;
    for (uint32_t i = 0; size && i < VSCAF_POINTS; i++) {
        struct vscaf_point *point = &entry->points[i];
        uint32_t found = atomic_load_explicit(&point->team_size, memory_order_relaxed);
        if (!found
            && atomic_compare_exchange_strong_explicit(&point->team_size, &found, size, memory_order_relaxed,
                                                       memory_order_relaxed))
            found = size;
        if (found == size) {
            if (section->owned) {
                section->site->point = point;
                section->site->point_epoch = section->epoch;
                section->site->point_team = size;
                section->site->fast_path = 0;
            }
            return point;
        }
    }
    atomic_fetch_add_explicit(&entry->other_ns, ns, memory_order_relaxed);
    return NULL;
}

/* Books one instance. If it was timed, `ns` also stands for the instances before it that were not. */
static inline void book(struct section *section, uint64_t ns, bool locked)
{
    struct call_site *site = section->site;
    struct vscaf_point *point;
    if (__builtin_expect(section->owned && site->point_epoch == section->epoch
                             && site->point_team == section->team.size, 1))
        point = site->point;
    else
        point = find_point(section, ns);
    if (!point)
        return;
    section_add(&point->count, 1, locked);
    if (ns)
        section_add(&point->ns, ns, locked);
}

static inline uint32_t gap_after(uint32_t mean_ticks)
{
    if (__builtin_expect(mean_ticks >= SMALL_TICKS, 1))
        return 0;
    return random_bits(&random_state) & (mean_ticks < TINY_TICKS ? TINY_GAP_MASK : SMALL_GAP_MASK);
}

/* The owner's instance was timed. Sets how many of the next ones are not. */
static inline void plan_gap(struct call_site *site, uint64_t ticks)
{
    uint32_t value = ticks > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)ticks;
    uint32_t mean = site->mean_ticks;
    mean = mean ? mean - mean / 8 + value / 8 : value;
    site->mean_ticks = mean ? mean : 1;
    site->gap = site->skip = gap_after(mean);
}

/* `started` must come before the load of the team size. The agent's barrier orders it for the processor (page.h),
 * unless that barrier does not reach this process. For the compiler it must be ordered here. */
static inline void order_start(const struct attachment *attachment)
{
    /* Relaxed: constant while the attachment is the current one. */
    if (__builtin_expect(atomic_load_explicit(&attachment->fence, memory_order_relaxed), 0))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

static void begin_nested(struct section *section, unsigned requested, int level)
{
    /* Acquire: pairs with the release in a join, which comes after the page was mapped. */
    struct vscaf_page *page = atomic_load_explicit(&attachment_current, memory_order_acquire)->page;
    /* Enclosing sections that this runtime does not know belong to another runtime. */
    bool others = level >= 0 && section_thread.depth > (uint32_t)level + 1;
    unsigned sharers = atomic_load_explicit(&section_multiple_masters, memory_order_relaxed) ? masters_count() : 1;
    section->team.argument = team_nested(section->runtime, section->site, page, requested, level,
                                         others ? section_thread.width : 0, sharers);
    if (section_thread.width && section->team.argument)
        section_thread.width *= section->team.argument;
    const struct meter *meter = atomic_load_explicit(&meter_current, memory_order_relaxed);
    if (__builtin_expect(meter->nested != NULL, 0))
        meter->nested(section);
}

/* For each thread except the owner, and for the owner when several threads start sections. True: the meter sees the
 * section. */
static __attribute__((noinline)) bool begin_shared(struct section *section, unsigned requested)
{
    const struct runtime *runtime = section->runtime;
    int level = runtime->get_level();
    if (level > 0) {
        begin_nested(section, requested, level);
        return false;
    }
    struct section_thread *expected = NULL;
    /* Relaxed: a thread only compares the owner with itself. */
    section->owned = atomic_load_explicit(&section_owner, memory_order_relaxed) == &section_thread
                     || atomic_compare_exchange_strong_explicit(&section_owner, &expected, &section_thread,
                                                                memory_order_relaxed, memory_order_relaxed);
    section->start = clock_ticks();
    /* Acquire: pairs with the release below. */
    if (!section->owned && !atomic_load_explicit(&section_multiple_masters, memory_order_acquire)) {
        masters_begin(section->start);
        program_note(VSCAF_PROGRAM_MASTERS);
        /* Release: who sees several masters also sees the bit. Before the generation grows: see prepare_fast_path. */
        atomic_store_explicit(&section_multiple_masters, true, memory_order_release);
        program_changed();
    }
    if (join_maintain_if_due(section->start))
        section->start = clock_ticks();
    struct attachment *attachment = atomic_load_explicit(&attachment_current, memory_order_acquire);
    struct vscaf_page *page = attachment->page;
    section->attachment = attachment;
    section->epoch = atomic_load_explicit(&attachment->epoch, memory_order_relaxed);
    if (!section->owned)
        atomic_fetch_add_explicit(&page->started_others, 1, memory_order_relaxed);
    else if (section->counted != page)
        section_add(&page->started, 1, false);
    order_start(attachment);
    section->team = team_of_section(runtime, section->site, page, requested, section->site != &section->spare.site);
    /* Acquire: masters_begin has counted the first thread. */
    if (atomic_load_explicit(&section_multiple_masters, memory_order_acquire))
        masters_acquire(section);
    uint32_t control = atomic_load_explicit(&page->control, memory_order_relaxed);
    if (__builtin_expect(control & VSCAF_CONTROL_CALL, 0))
        join_call(attachment, control >> VSCAF_CONTROL_CALL_SHIFT);
    return atomic_load_explicit(&meter_current, memory_order_relaxed)->every_thread && permission_to_learn(page);
}

/* What a team was chosen by, read before it was chosen. */
struct inputs {
    uint32_t generation;
    uint32_t team_size;
};

/* The number of the fast path for the section's next instances; 0: they may take none. `control`: the page's, after the
 * user's settings. If the values have changed since the team was chosen, that path is never taken. If a
 * second master has come since this section began, either it is seen here, or the generation has grown meanwhile. */
static uint32_t prepare_fast_path(const struct section *section, const struct inputs *inputs, uint32_t control)
{
    struct attachment *attachment = section->attachment;
    struct vscaf_page *page = attachment->page;
    bool learning = (control & VSCAF_CONTROL_LEARN) != 0;
    /* Relaxed: a fast path with values that have just changed is not taken. */
    uint32_t control_word = atomic_load_explicit(&page->control, memory_order_relaxed);
    if (atomic_load_explicit(&section_multiple_masters, memory_order_relaxed)
        || !section->team.decided || section->team.own_dynamic
        || atomic_load_explicit(&attachment->fence, memory_order_relaxed)
        || !atomic_load_explicit(&attachment->joined, memory_order_relaxed) || (control_word & VSCAF_CONTROL_CALL)
        || (learning && atomic_load_explicit(&meter_current, memory_order_relaxed) != &rate_meter))
        return 0;
    struct fast_path now = {
        .number = fast_path.number,
        .generation = inputs->generation,
        .team_size = inputs->team_size,
        .control = control_word,
        .epoch = section->epoch,
        .learning = learning && section->team.size > 1, /* one thread cannot be compared with fewer */
        .team = section->team,
        .runtime = section->runtime,
        .attachment = attachment,
        .page = page,
    };
    if (now.generation != fast_path.generation || now.team_size != fast_path.team_size
        || now.team.size != fast_path.team.size || now.control != fast_path.control || now.epoch != fast_path.epoch
        || now.learning != fast_path.learning || now.runtime != fast_path.runtime) {
        now.number = now.number == UINT32_MAX ? 1 : now.number + 1; /* 0: none */
        fast_path = now;
    }
    return fast_path.number;
}

void section_begin_full(struct section *section, outlined_function *fn, void *data, unsigned requested)
{
    const void *address;
    memcpy(&address, &fn, sizeof address);
    struct call_site *site = call_site_of(address, &section->spare);
    const struct runtime *runtime = call_site_runtime(site);
    section->fn = fn;
    section->data = data;
    section->site = site;
    section->runtime = runtime;
    section->attachment = NULL;
    section->meter = NULL;
    section->disturbed = false;
    section->team = (struct team){.argument = requested};
    section->owned = false;
    section->decompose_due = false;
    section->on_fast_path = false;
    section->fast_path = 0;
    section->leased = 0;
    section->width = section_thread.width;
    uint32_t depth = section_thread.depth++;
    if (__builtin_expect(!runtime->manageable, 0))
        return;
    if (__builtin_expect(verdict_of(site) == VSCAF_VERDICT_NONE, 0)) {
        if (!requested && !atomic_load_explicit(&team_own_number, memory_order_relaxed))
            join_before_number();
        verdict_look(site, address, atomic_load_explicit(&attachment_current, memory_order_acquire),
                     site != &section->spare.site);
    }
    if (__builtin_expect(atomic_load_explicit(&verdict_awaited, memory_order_relaxed) != 0, 0))
        verdicts_look_again(atomic_load_explicit(&attachment_current, memory_order_acquire));
    if (depth) {
        begin_nested(section, requested, runtime->get_level());
        return;
    }
    bool learn = false;
    if (__builtin_expect(atomic_load_explicit(&section_owner, memory_order_relaxed) != &section_thread
                             || atomic_load_explicit(&section_multiple_masters, memory_order_relaxed), 0)) {
        learn = begin_shared(section, requested);
    } else {
        section->owned = true;
        section->start = 0;
        if (site->skip) {
            site->skip--;
        } else {
            section->start = clock_ticks();
            if (join_maintain_if_due(section->start))
                section->start = clock_ticks();
        }
        /* Acquire: pairs with the release in a join, which comes after the page was mapped. */
        struct attachment *attachment = atomic_load_explicit(&attachment_current, memory_order_acquire);
        struct vscaf_page *page = attachment->page;
        section->attachment = attachment;
        section->epoch = atomic_load_explicit(&attachment->epoch, memory_order_relaxed);
        if (section->counted != page)
            section_add(&page->started, 1, false);
        order_start(attachment);
        /* Acquire: all that changed before the generation is visible. */
        struct inputs inputs = {
            .generation = atomic_load_explicit(&program_generation, memory_order_acquire),
            .team_size = atomic_load_explicit(&page->team_size, memory_order_relaxed),
        };
        section->team = team_of_section(runtime, site, page, requested, site != &section->spare.site);
        section->decompose_due = section->start && decompose_is_due(section->start);
        uint32_t control = permission_control(page);
        if (__builtin_expect(control & (VSCAF_CONTROL_LEARN | VSCAF_CONTROL_CALL), 0)) {
            if (control & VSCAF_CONTROL_CALL)
                join_call(section->attachment, control >> VSCAF_CONTROL_CALL_SHIFT);
            learn = (control & VSCAF_CONTROL_LEARN) != 0;
        }
        section->fast_path = prepare_fast_path(section, &inputs, control);
        if (__builtin_expect(meter_under_way && !learn, 0))
            atomic_load_explicit(&meter_current, memory_order_relaxed)->pause();
    }
    if (!section->attachment)
        return;
    if (__builtin_expect(section->team.own_dynamic, 0))
        runtime->set_dynamic(0);
    /* Relaxed: a meter's data belongs to one thread. */
    if (__builtin_expect(learn, 0)
        && !atomic_load_explicit(&meter_current, memory_order_relaxed)->begin(section, requested))
        return;
    section_thread.width = section->team.size;
    atomic_store_explicit(&section->attachment->page->team_last, section->team.size, memory_order_relaxed);
    atomic_store_explicit(&section->attachment->page->own_last, !section->team.decided, memory_order_relaxed);
    team_starts(section->team.decided ? section->team.size : 0);
}

void section_end_full(struct section *section)
{
    section_thread.depth--;
    section_thread.width = section->width;
    struct attachment *attachment = section->attachment;
    if (!attachment)
        return;
    uint64_t now = section->start ? clock_ticks() : 0;
    if (__builtin_expect(now < section->start, 0))
        section->start = 0; /* the clock was set back, as it can be in a restored guest: not timed */
    uint64_t ticks = section->start ? now - section->start : 0;
    struct call_site *site = section->site;
    struct vscaf_page *page = attachment->page;
    uint64_t represented_instances = section->start && section->owned ? 1 + site->gap - site->skip : 1;
    if (__builtin_expect(section->meter != NULL, 0))
        section->meter->end(section, ticks, represented_instances);
    if (__builtin_expect(section->team.own_dynamic, 0))
        section->runtime->set_dynamic(1);
    if (__builtin_expect(section_outlived_page(section), 0)) {
        if (section->leased)
            masters_release(section);
        return;
    }
    bool locked = atomic_load_explicit(&section_multiple_masters, memory_order_relaxed);
    uint64_t ns = 0;
    if (section->start) {
        if (__builtin_expect(!atomic_load_explicit(&clock_scale, memory_order_relaxed), 0))
            clock_refine();
        ns = clock_ns(ticks) * represented_instances;
        section_add(&page->section_ns, ns, locked);
        if (section->owned)
            plan_gap(site, ticks);
    }
    if (__builtin_expect(atomic_load_explicit(&attachment->joined, memory_order_relaxed) && !section->disturbed, 1))
        book(section, ns, locked);
    if (section->fast_path && site->point_epoch == section->epoch && site->point_team == fast_path.team.size)
        site->fast_path = section->fast_path;
    if (__builtin_expect(section->leased != 0, 0))
        masters_release(section);
    /* Release: a reader that sees the section finished also sees the figures booked for it. */
    if (__builtin_expect(section->owned, 1))
        atomic_store_explicit(&page->finished, atomic_load_explicit(&page->finished, memory_order_relaxed) + 1,
                              memory_order_release);
    else
        atomic_fetch_add_explicit(&page->finished_others, 1, memory_order_release);
}

uint32_t section_depth(void)
{
    return section_thread.depth;
}

void section_leave(void)
{
    if (section_thread.depth)
        section_thread.depth--;
}

void section_after_fork(void)
{
    /* Relaxed: the child has one thread. */
    atomic_store_explicit(&section_owner, NULL, memory_order_relaxed);
    atomic_store_explicit(&section_multiple_masters, false, memory_order_relaxed);
}
