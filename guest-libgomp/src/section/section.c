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
#include "section/pace.h"
#include "team/masters.h"
#include "team/verdicts.h"

/* A section whose mean is below these limits (some us) is timed by random samples; above, each instance is timed. A
 * tick is 0.2 to 1 ns. So two readings of the clock cost less than 1% of any section that they time, or are rare. */
#define TINY_TICKS 2048u
#define SMALL_TICKS 8192u
#define TINY_GAP_MASK 127u
#define SMALL_GAP_MASK 7u

_Thread_local struct section_thread section_thread;
_Atomic(struct section_thread *) section_owner;
_Atomic bool section_multiple_masters;
struct fast_path fast_path = {.number = 1};

static uint64_t random_state = 88172645463325252u;

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
static __attribute__((noinline)) bool begin_shared(struct section *section, unsigned requested,
                                                   const struct vscaf_page *counted)
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
    else if (counted != page)
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

/* Whether the team is the one of the fast path: the section only is on the full one because it is timed. */
static inline bool fast_path_holds(const struct section *section, const struct inputs *inputs, unsigned requested)
{
    /* Relaxed: as on the fast path. */
    return !requested && section->site->fast_path == fast_path.number && inputs->generation == fast_path.generation
           && inputs->team_size == fast_path.team_size && section->epoch == fast_path.epoch
           && atomic_load_explicit(&section->attachment->page->control, memory_order_relaxed) == fast_path.control;
}

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

void section_begin(struct section *section, outlined_function *fn, void *data, unsigned requested,
                   const struct vscaf_page *counted)
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
    section->team = (struct team){.argument = requested};
    section->owned = false;
    section->decompose_due = false;
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
        learn = begin_shared(section, requested, counted);
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
        if (counted != page)
            section_add(&page->started, 1, false);
        order_start(attachment);
        /* Acquire: all that changed before the generation is visible. */
        struct inputs inputs = {
            .generation = atomic_load_explicit(&program_generation, memory_order_acquire),
            .team_size = atomic_load_explicit(&page->team_size, memory_order_relaxed),
        };
        section->decompose_due = section->start && decompose_is_due(section->start);
        uint32_t control = permission_control(page);
        if (fast_path_holds(section, &inputs, requested)) {
            section->team = fast_path.team;
            section->fast_path = fast_path.number;
        } else {
            section->team = team_of_section(runtime, site, page, requested, site != &section->spare.site);
            section->fast_path = prepare_fast_path(section, &inputs, control);
        }
        if (__builtin_expect(control & (VSCAF_CONTROL_LEARN | VSCAF_CONTROL_CALL), 0)) {
            if (control & VSCAF_CONTROL_CALL)
                join_call(section->attachment, control >> VSCAF_CONTROL_CALL_SHIFT);
            learn = (control & VSCAF_CONTROL_LEARN) != 0;
        }
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

void section_end(struct section *section)
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
    if (__builtin_expect(attachment_epoch_is_over(attachment, section->epoch), 0)) {
        if (section->leased)
            masters_release(section);
        return;
    }
    if (section->start) {
        if (__builtin_expect(!atomic_load_explicit(&clock_scale, memory_order_relaxed), 0))
            clock_refine();
        uint64_t ns = clock_ns(ticks) * represented_instances;
        section_add(&page->section_ns, ns, atomic_load_explicit(&section_multiple_masters, memory_order_relaxed));
        if (section->owned) {
            /* A meter compares with single instances at one thread, which do not tell how the program runs there. */
            if (section->team.decided && (section->meter == NULL || section->team.size > 1))
                pace_add(page, site, section->team.size, ns, represented_instances);
            plan_gap(site, ticks);
        }
    }
    if (section->fast_path)
        site->fast_path = section->fast_path;
    if (__builtin_expect(section->leased != 0, 0))
        masters_release(section);
    /* Release: a reader that sees the section finished also sees its time. */
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
