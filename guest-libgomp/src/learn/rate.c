#include "learn/rate.h"

#include <string.h>

#include "join/program.h"
#include "learn/budget.h"
#include "learn/context.h"
#include "learn/estimate.h"
#include "learn/publish.h"
#include "measure/clock.h"
#include "measure/random.h"
#include "team/section_data.h"

#define BLOCK_ONE_NS 16e6 /* length of a block at one thread, if S = p */
#define BLOCK_MIN_NS 1e6
#define SETTLE_PART 8u    /* part of a block at its start that does not count: caches and threads settle */
#define PAUSE_MIN_NS 30e6
#define PAUSE_GOOD_NS 1000e6 /* once the standard error is small */
#define PAUSE_POOR_NS 100e6  /* while the budget is used up */
#define GOOD_RELATIVE_ERROR 0.03
#define HALVING_NS 4e9       /* after so much wall time, all earlier times count half */
#define OLD_GROUP_WEIGHT 0.6 /* of its sums, when the next comparison goes into the group */

#define FEW_INSTANCES 8u
#define TARGET_WAIT_MAX 512u /* sections */

#define SECTIONS_LEARNED 256u /* entry 0 is for all sections without a number of their own */
#define SETS 4u               /* team sizes that are remembered */
#define BLOCK_SECTIONS 64u

/* What is known at one team size. Times are in ticks. */
struct set {
    uint32_t p; /* 0: free */
    uint32_t comparisons;
    uint32_t used; /* order of last use */
    uint32_t groups;
    double wall; /* at team size p, with serial time */
    struct speedup speedup;
    double count[SECTIONS_LEARNED]; /* instances in sections[].time */
    bool comparable[SECTIONS_LEARNED]; /* a block at one thread may contain it */
    struct estimate_section sections[SECTIONS_LEARNED];
};

enum phase {
    PHASE_TRAIN,  /* learning how long each instance is expected to take */
    PHASE_BEFORE, /* measuring how fast the machine is, relative to that */
    PHASE_ONE,    /* a block of instances at one thread */
    PHASE_AFTER,  /* measuring again how fast the machine is */
};

/* Sums of one section in the present block. */
struct in_block {
    uint32_t number;
    double one, many;
};

static struct set sets[SETS];
static uint32_t set_uses;
static uint32_t next_number = 1; /* the next number for a call site */
static uint64_t random_state = 0x2545f4914f6cdd1d;

static struct {
    struct set *set; /* NULL: no learning in progress */
    enum phase phase;
    uint64_t began;        /* start of the phase */
    uint64_t train_until;
    uint64_t block_ticks;    /* least length of BEFORE */
    uint64_t counted_from;   /* the wall time of the set includes all time before this */
    bool delaying;           /* BEFORE is long enough, and the block begins some instances later */
    uint32_t instances;      /* in BEFORE */
    uint32_t left;           /* instances until the phase ends */
    uint32_t target_section; /* the section with which the block should begin; 0: any */
    double real, expected;   /* of BEFORE and AFTER */
    uint32_t block_used;
    struct in_block block[BLOCK_SECTIONS];
} learning;

_Atomic(const struct meter *) meter_current = &rate_meter;
bool meter_under_way;
bool meter_needs_only_timed = true; /* blocks have a number of instances, so they need each one */

static double scale_ns(void)
{
    return (double)atomic_load_explicit(&clock_scale, memory_order_relaxed) * 0x1p-32;
}

static void publish(struct vscaf_page *page)
{
    struct speedup speedups[SETS];
    for (uint32_t i = 0; i < SETS; i++)
        speedups[i] = sets[i].p ? sets[i].speedup : (struct speedup){0};
    publish_speedups(page, speedups, SETS, VSCAF_METRIC_RATE);
}

static void begin_phase(enum phase phase, uint64_t now)
{
    learning.phase = phase;
    learning.began = now;
    meter_needs_only_timed = phase == PHASE_TRAIN;
}

static void begin_training(uint64_t now, double pause_ns)
{
    begin_phase(PHASE_TRAIN, now);
    uint64_t length_ns = (uint64_t)pause_ns + random_below(&random_state, (uint32_t)pause_ns);
    learning.train_until = now + clock_ticks_of(length_ns);
}

static void begin_set(uint32_t p, uint64_t now)
{
    struct set *set = &sets[0];
    for (uint32_t i = 0; i < SETS; i++) {
        if (sets[i].p == p) {
            set = &sets[i];
            break;
        }
        if (sets[i].used < set->used)
            set = &sets[i];
    }
    if (set->p != p) {
        memset(set, 0, sizeof *set);
        set->p = p;
    }
    set->used = ++set_uses;
    learning.set = set;
    learning.block_ticks = clock_ticks_of(
        (uint64_t)(BLOCK_ONE_NS / p > BLOCK_MIN_NS ? BLOCK_ONE_NS / p : BLOCK_MIN_NS));
    learning.counted_from = now;
    meter_under_way = true;
    begin_training(now, PAUSE_MIN_NS);
}

static void rate_pause(void)
{
    learning.set = NULL;
    meter_under_way = false;
    meter_needs_only_timed = true;
    context_restart();
}

double rate_ratio(const struct section *section)
{
    uint32_t number = section->site->number;
    if (section->team.size < 2 || number == 0)
        return section->team.size == 1 ? 1.0 : 0.0;
    for (uint32_t i = 0; i < SETS; i++) {
        if (sets[i].p != section->team.size || !sets[i].speedup.p)
            continue;
        double one = 0.0, many = 0.0;
        for (uint32_t g = 0; g < ESTIMATE_GROUPS; g++) {
            one += sets[i].sections[number].one[g];
            many += sets[i].sections[number].many[g];
        }
        return many > 0.0 ? one / many : 0.0;
    }
    return 0.0;
}

static void rate_after_fork(void)
{
    rate_pause();
    memset(sets, 0, sizeof sets);
    budget_after_fork();
}

/* The expected ticks of the instance at the set's team size; 0: not known. */
static double expected_ticks(const struct set *set, const struct section *section)
{
    uint64_t ticks = context_expected(section->context, set->p);
    if (ticks)
        return (double)ticks;
    uint32_t number = section->site->number;
    return set->count[number] > 0.0 ? set->sections[number].time / set->count[number] : 0.0;
}

static void next_phase(struct vscaf_page *page, uint64_t now);

static void observe_begin(struct section *section, unsigned requested)
{
    struct call_site *site = section->site;
    uint32_t p = section->team.size;
    /* Else the program made it serial, or the program must not be learned. */
    bool learned = requested != 1 && program_malleable() == VSCAF_MALLEABLE_FULL;
    bool compared = learned && !requested && section->team.decided;
    if (compared && p < 2) {
        if (meter_under_way)
            rate_pause();
        return;
    }
    if (__builtin_expect(meter_under_way && section->start && section->start < learning.began, 0))
        rate_pause(); /* the clock was set back since the phase began */
    uint64_t context = context_step(site);
    if (!learned)
        return;
    if (__builtin_expect(!learning.set || (compared && learning.set->p != p), 0)) {
        if (!compared || !section->start || !atomic_load_explicit(&clock_scale, memory_order_relaxed))
            return; /* wait for one that is timed */
        begin_set(p, section->start);
    }
    /* Only for sites that are kept: any other site would get a new number at each instance. */
    if (__builtin_expect(!site->number, 0) && next_number < SECTIONS_LEARNED && site != &section->spare.site)
        site->number = next_number++;
    section->context = context;
    section->meter = &rate_meter;
    learning.set->comparable[site->number] = compared;
    if (learning.phase == PHASE_BEFORE && learning.delaying && learning.target_section
        && learning.target_section == site->number && section->start)
        next_phase(section->attachment->page, section->start);
    if (compared && learning.phase == PHASE_ONE)
        section->team.argument = section->team.size = 1;
}

static bool rate_begin(struct section *section, unsigned requested)
{
    observe_begin(section, requested);
    return true;
}

static void halve_sums(struct set *set)
{
    set->wall *= 0.5;
    for (uint32_t i = 0; i < SECTIONS_LEARNED; i++) {
        set->sections[i].time *= 0.5;
        set->count[i] *= 0.5;
    }
}

/* Adds the time since the last call, which was at the set's team size. */
static void add_wall_time(struct set *set, uint64_t now)
{
    set->wall += (double)(now - learning.counted_from);
    learning.counted_from = now;
    if (set->wall * scale_ns() > HALVING_NS)
        halve_sums(set);
}

/* Computes the speedup from all comparisons. It becomes unknown again if the program has gone on to sections that were
 * never compared. */
static void update_speedup(struct set *set, struct vscaf_page *page)
{
    double in_sections = 0.0;
    for (uint32_t i = 0; i < next_number; i++)
        in_sections += set->sections[i].time;
    double serial = set->wall > in_sections ? set->wall - in_sections : 0.0;
    bool known = set->speedup.p != 0;
    if (!estimate_speedup(set->sections, next_number, serial, set->p, set->groups, set->comparisons, &set->speedup))
        set->speedup.p = 0;
    if (known || set->speedup.p)
        publish(page);
}

static void add_to_block(uint32_t number, double one, double many)
{
    uint32_t i = 0;
    while (i < learning.block_used && learning.block[i].number != number)
        i++;
    if (i == BLOCK_SECTIONS)
        return;
    if (i == learning.block_used)
        learning.block[learning.block_used++] = (struct in_block){.number = number};
    learning.block[i].one += one;
    learning.block[i].many += many;
}

/* Adds a complete comparison to its group. */
static void add_comparison(struct set *set, struct vscaf_page *page)
{
    if (learning.block_used == 0 || !(learning.expected > 0.0))
        return;
    double speed = learning.real / learning.expected;
    uint32_t group = set->comparisons % ESTIMATE_GROUPS;
    for (uint32_t i = 0; i < SECTIONS_LEARNED && i < next_number; i++) {
        set->sections[i].one[group] *= OLD_GROUP_WEIGHT;
        set->sections[i].many[group] *= OLD_GROUP_WEIGHT;
    }
    for (uint32_t i = 0; i < learning.block_used; i++) {
        const struct in_block *entry = &learning.block[i];
        set->sections[entry->number].one[group] += entry->one;
        set->sections[entry->number].many[group] += entry->many * speed;
    }
    set->groups |= UINT32_C(1) << group;
    set->comparisons++;
    update_speedup(set, page);
}

static bool good_enough(const struct set *set)
{
    return set->speedup.p && set->speedup.standard_error < GOOD_RELATIVE_ERROR * set->speedup.speedup;
}

/* If a block has only a few instances, chance would rarely choose the rare ones among long sections. So this chooses
 * the section that has the most time per comparison so far. 0: any. */
static uint32_t choose_target_section(const struct set *set)
{
    uint32_t target_section = 0;
    double most = 0.0;
    if (learning.instances > FEW_INSTANCES)
        return 0;
    for (uint32_t i = 1; i < next_number; i++) {
        if (!set->comparable[i])
            continue;
        unsigned groups_with_data = 0;
        for (uint32_t g = 0; g < ESTIMATE_GROUPS; g++)
            groups_with_data += set->sections[i].many[g] > 0.0;
        double score = set->sections[i].time / (1.0 + groups_with_data);
        if (score > most) {
            most = score;
            target_section = i;
        }
    }
    return target_section;
}

static __attribute__((noinline)) void next_phase(struct vscaf_page *page, uint64_t now)
{
    struct set *set = learning.set;
    switch (learning.phase) {
    case PHASE_TRAIN:
        add_wall_time(set, now);
        learning.real = learning.expected = 0.0;
        learning.instances = learning.block_used = 0;
        learning.delaying = false;
        learning.target_section = 0;
        begin_phase(PHASE_BEFORE, now);
        return;
    case PHASE_BEFORE:
        /* BEFORE is long enough. If the block began at once, it would always begin with the same sections, those that
         * follow a section that ended the time. So it begins after a random number of instances. */
        if (!learning.delaying) {
            learning.target_section = choose_target_section(set);
            double block = (double)(now - learning.began);
            uint32_t target = learning.target_section;
            if (target && set->count[target] > 0.0 && set->sections[target].time / set->count[target] > block)
                block = set->sections[target].time / set->count[target];
            double block_cost_ns = block * scale_ns() * set->p * (set->p - 1);
            if (!budget_allows(page, block_cost_ns)) {
                add_wall_time(set, now);
                update_speedup(set, page);
                begin_training(now, PAUSE_POOR_NS);
                return;
            }
            learning.delaying = true;
            learning.left =
                learning.target_section ? TARGET_WAIT_MAX : 1 + random_below(&random_state, learning.instances + 1);
            return;
        }
        add_wall_time(set, now);
        learning.left = learning.instances;
        begin_phase(PHASE_ONE, now);
        return;
    case PHASE_ONE:
        learning.counted_from = now;
        learning.left = learning.instances;
        begin_phase(PHASE_AFTER, now);
        return;
    case PHASE_AFTER:
        add_wall_time(set, now);
        add_comparison(set, page);
        begin_training(now, good_enough(set) ? PAUSE_GOOD_NS : PAUSE_MIN_NS);
        return;
    }
}

static void rate_end(struct section *section, uint64_t ticks, uint64_t represented_instances)
{
    struct set *set = learning.set;
    if (!set || attachment_epoch_is_over(section->attachment, section->epoch))
        return;
    uint64_t now = section->start + ticks;
    uint32_t number = section->site->number;
    bool one = section->team.size == 1;
    double expected = 0.0;
    if (ticks) {
        expected = expected_ticks(set, section);
        if (!one && learning.phase != PHASE_ONE) {
            set->sections[number].time += (double)ticks * (double)represented_instances;
            set->count[number] += (double)represented_instances;
        }
    }
    bool settled = ticks && section->start - learning.began >= learning.block_ticks / SETTLE_PART;
    switch (learning.phase) {
    case PHASE_TRAIN:
        if (ticks && !one) {
            context_learn(section->context, set->p, ticks);
            if (now >= learning.train_until)
                next_phase(section->attachment->page, now);
        }
        return;
    case PHASE_BEFORE:
        if (ticks && expected > 0.0) {
            /* Older instances tell little about how fast the machine is now. */
            double weight = learning.target_section && learning.delaying ? 0.5 : 1.0;
            learning.real = weight * learning.real + (double)ticks;
            learning.expected = weight * learning.expected + expected;
        }
        if (!learning.delaying) {
            learning.instances++;
            if (ticks && now - learning.began >= learning.block_ticks)
                next_phase(section->attachment->page, now);
        } else if (learning.left > 1) {
            learning.left--;
        } else if (ticks) {
            next_phase(section->attachment->page, now);
        }
        return;
    case PHASE_ONE:
        if (ticks) {
            budget_spend(section->attachment->page,
                         (double)ticks * (double)represented_instances * scale_ns() * (set->p - 1));
            if (one && expected > 0.0 && (settled || learning.instances < SETTLE_PART))
                add_to_block(number, (double)ticks, expected);
        }
        break;
    case PHASE_AFTER:
        if (ticks && expected > 0.0 && !one && (settled || learning.instances < SETTLE_PART)) {
            learning.real += (double)ticks;
            learning.expected += expected;
        }
        break;
    }
    if (learning.left > 1)
        learning.left--;
    else if (ticks)
        next_phase(section->attachment->page, now);
}

const struct meter rate_meter = {
    .begin = rate_begin,
    .end = rate_end,
    .pause = rate_pause,
    .after_fork = rate_after_fork,
};
