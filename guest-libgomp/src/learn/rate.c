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
#define BLOCK_LEAST_NS 1e6
#define SETTLE_PART 8u    /* part of a block at its start that does not count: caches and threads settle */
#define PAUSE_LEAST_NS 30e6
#define PAUSE_GOOD_NS 1000e6 /* once the standard error is small */
#define PAUSE_POOR_NS 100e6  /* while the budget is used up */
#define GOOD_RELATIVE_ERROR 0.03
#define AGE_NS 4e9        /* after so much wall time, all earlier times count half */
#define OLD_GROUP_KEEPS 0.6 /* of its sums, when the next comparison goes into the group */

#define FEW_INSTANCES 8u
#define AIM_WAITS_MOST 512u  /* sections */
#define WRITER_REUSE_MOST 64u /* sections */

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
static uint32_t numbers = 1; /* the next number for a call site */
static uint64_t random_state = 0x2545f4914f6cdd1d;

static struct {
    struct set *set; /* NULL: no learning in progress */
    enum phase phase;
    uint64_t began;        /* start of the phase */
    uint64_t train_until;
    uint64_t block_ticks;  /* least length of BEFORE */
    uint64_t counted_from; /* the wall time of the set includes all time before this */
    bool delaying;         /* BEFORE is long enough, and the block begins some instances later */
    uint32_t instances;    /* in BEFORE */
    uint32_t left;         /* instances until the phase ends */
    uint32_t aim;          /* the section with which the block should begin; 0: any */
    double real, expected; /* of BEFORE and AFTER */
    uint32_t block_used;
    struct in_block block[BLOCK_SECTIONS];
} now_learning;

_Atomic(const struct meter *) meter_current = &rate_meter;
bool meter_under_way;

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
    now_learning.phase = phase;
    now_learning.began = now;
}

static void begin_training(uint64_t now, double pause_ns)
{
    begin_phase(PHASE_TRAIN, now);
    uint64_t length_ns = (uint64_t)pause_ns + random_below(&random_state, (uint32_t)pause_ns);
    now_learning.train_until = now + clock_ticks_of(length_ns);
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
    now_learning.set = set;
    now_learning.block_ticks = clock_ticks_of(
        (uint64_t)(BLOCK_ONE_NS / p > BLOCK_LEAST_NS ? BLOCK_ONE_NS / p : BLOCK_LEAST_NS));
    now_learning.counted_from = now;
    meter_under_way = true;
    begin_training(now, PAUSE_LEAST_NS);
}

static void rate_pause(void)
{
    now_learning.set = NULL;
    meter_under_way = false;
    context_restart();
}

double rate_ratio(const struct section *section)
{
    uint32_t number = section->site->number;
    if (section->team.ran < 2 || number == 0)
        return section->team.ran == 1 ? 1.0 : 0.0;
    for (uint32_t i = 0; i < SETS; i++) {
        if (sets[i].p != section->team.ran || !sets[i].speedup.p)
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

/* True if a block at one thread may contain the section. If its threads keep data for later sections, they keep it at
 * that size, so the readers also have one thread until it runs again. Therefore it must run again soon. */
static bool comparable(const struct section *section, unsigned asked)
{
    const struct call_site *site = section->site;
    uint32_t rules = atomic_load_explicit(&site->rules, memory_order_relaxed);
    if (asked || !section->team.decided || (rules & (SITE_READS_DATA | SITE_NUMBERED)))
        return false;
    return !(rules & SITE_WRITES_DATA)
           || !(atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_KEEPS)
           || (site->reuse_distance != 0 && site->reuse_distance <= WRITER_REUSE_MOST);
}

static void next_phase(struct vscaf_page *page, uint64_t now);

static void see_begin(struct section *section, unsigned asked)
{
    struct call_site *site = section->site;
    uint64_t context = context_step(site);
    uint32_t p = section->team.ran;
    if (asked == 1 || program_malleable() != VSCAF_MALLEABLE_FULL)
        return; /* the program made it serial, or the program must not be learned */
    bool compared = comparable(section, asked);
    if (compared && p < 2) {
        if (meter_under_way)
            rate_pause();
        return;
    }
    if (__builtin_expect(!now_learning.set || (compared && now_learning.set->p != p), 0)) {
        if (!compared || !section->start || !atomic_load_explicit(&clock_scale, memory_order_relaxed))
            return; /* wait for one that is timed */
        begin_set(p, section->start);
    }
    /* Only for sites that are kept: any other site would get a new number at each instance. */
    if (__builtin_expect(!site->number, 0) && numbers < SECTIONS_LEARNED && site != &section->spare.site)
        site->number = numbers++;
    section->context = context;
    section->meter = &rate_meter;
    now_learning.set->comparable[site->number] = compared;
    if (now_learning.phase == PHASE_BEFORE && now_learning.delaying && now_learning.aim
        && now_learning.aim == site->number && section->start)
        next_phase(section->attachment->page, section->start);
    if (compared && now_learning.phase == PHASE_ONE)
        section->team.argument = section->team.ran = 1;
}

static bool rate_begin(struct section *section, unsigned asked)
{
    see_begin(section, asked);
    return true;
}

static void age(struct set *set)
{
    set->wall *= 0.5;
    for (uint32_t i = 0; i < SECTIONS_LEARNED; i++) {
        set->sections[i].time *= 0.5;
        set->count[i] *= 0.5;
    }
}

/* Adds the time since the last call, which was at the set's team size. */
static void count_wall(struct set *set, uint64_t now)
{
    set->wall += (double)(now - now_learning.counted_from);
    now_learning.counted_from = now;
    if (set->wall * scale_ns() > AGE_NS)
        age(set);
}

/* Computes the speedup from all comparisons. It becomes unknown again if the program has gone on to sections that were
 * never compared. */
static void reckon(struct set *set, struct vscaf_page *page)
{
    double in_sections = 0.0;
    for (uint32_t i = 0; i < numbers; i++)
        in_sections += set->sections[i].time;
    double serial = set->wall > in_sections ? set->wall - in_sections : 0.0;
    bool known = set->speedup.p != 0;
    if (!estimate_speedup(set->sections, numbers, serial, set->p, set->groups, set->comparisons, &set->speedup))
        set->speedup.p = 0;
    if (known || set->speedup.p)
        publish(page);
}

static void note_block(uint32_t number, double one, double many)
{
    uint32_t i = 0;
    while (i < now_learning.block_used && now_learning.block[i].number != number)
        i++;
    if (i == BLOCK_SECTIONS)
        return;
    if (i == now_learning.block_used)
        now_learning.block[now_learning.block_used++] = (struct in_block){.number = number};
    now_learning.block[i].one += one;
    now_learning.block[i].many += many;
}

/* Adds a complete comparison to its group. */
static void conclude(struct set *set, struct vscaf_page *page)
{
    if (now_learning.block_used == 0 || !(now_learning.expected > 0.0))
        return;
    double speed = now_learning.real / now_learning.expected;
    uint32_t group = set->comparisons % ESTIMATE_GROUPS;
    for (uint32_t i = 0; i < SECTIONS_LEARNED && i < numbers; i++) {
        set->sections[i].one[group] *= OLD_GROUP_KEEPS;
        set->sections[i].many[group] *= OLD_GROUP_KEEPS;
    }
    for (uint32_t i = 0; i < now_learning.block_used; i++) {
        const struct in_block *entry = &now_learning.block[i];
        set->sections[entry->number].one[group] += entry->one;
        set->sections[entry->number].many[group] += entry->many * speed;
    }
    set->groups |= UINT32_C(1) << group;
    set->comparisons++;
    reckon(set, page);
}

static bool good_enough(const struct set *set)
{
    return set->speedup.p && set->speedup.standard_error < GOOD_RELATIVE_ERROR * set->speedup.speedup;
}

/* If a block has only a few instances, chance would rarely choose the rare ones among long sections. So this chooses
 * the section that has the most time per comparison so far. 0: any. */
static uint32_t choose_aim(const struct set *set)
{
    uint32_t aim = 0;
    double most = 0.0;
    if (now_learning.instances > FEW_INSTANCES)
        return 0;
    for (uint32_t i = 1; i < numbers; i++) {
        if (!set->comparable[i])
            continue;
        unsigned had = 0;
        for (uint32_t g = 0; g < ESTIMATE_GROUPS; g++)
            had += set->sections[i].many[g] > 0.0;
        double need = set->sections[i].time / (1.0 + had);
        if (need > most) {
            most = need;
            aim = i;
        }
    }
    return aim;
}

static __attribute__((noinline)) void next_phase(struct vscaf_page *page, uint64_t now)
{
    struct set *set = now_learning.set;
    switch (now_learning.phase) {
    case PHASE_TRAIN:
        count_wall(set, now);
        now_learning.real = now_learning.expected = 0.0;
        now_learning.instances = now_learning.block_used = 0;
        now_learning.delaying = false;
        now_learning.aim = 0;
        begin_phase(PHASE_BEFORE, now);
        return;
    case PHASE_BEFORE:
        /* BEFORE is long enough. If the block began at once, it would always begin with the same sections, those that
         * follow a section that ended the time. So it begins after a random number of instances. */
        if (!now_learning.delaying) {
            now_learning.aim = choose_aim(set);
            double block = (double)(now - now_learning.began);
            uint32_t aim = now_learning.aim;
            if (aim && set->count[aim] > 0.0 && set->sections[aim].time / set->count[aim] > block)
                block = set->sections[aim].time / set->count[aim];
            double block_cost_ns = block * scale_ns() * set->p * (set->p - 1);
            if (!budget_allows(page, block_cost_ns)) {
                count_wall(set, now);
                reckon(set, page);
                begin_training(now, PAUSE_POOR_NS);
                return;
            }
            now_learning.delaying = true;
            now_learning.left =
                now_learning.aim ? AIM_WAITS_MOST : 1 + random_below(&random_state, now_learning.instances + 1);
            return;
        }
        count_wall(set, now);
        now_learning.left = now_learning.instances;
        begin_phase(PHASE_ONE, now);
        return;
    case PHASE_ONE:
        now_learning.counted_from = now;
        now_learning.left = now_learning.instances;
        begin_phase(PHASE_AFTER, now);
        return;
    case PHASE_AFTER:
        count_wall(set, now);
        conclude(set, page);
        begin_training(now, good_enough(set) ? PAUSE_GOOD_NS : PAUSE_LEAST_NS);
        return;
    }
}

static void rate_end(struct section *section, uint64_t ticks, uint64_t stands_for)
{
    struct set *set = now_learning.set;
    if (!set || section_outlived_page(section))
        return;
    uint64_t now = section->start + ticks;
    uint32_t number = section->site->number;
    bool one = section->team.ran == 1;
    double expected = 0.0;
    if (ticks) {
        expected = expected_ticks(set, section);
        if (!one && now_learning.phase != PHASE_ONE) {
            set->sections[number].time += (double)ticks * (double)stands_for;
            set->count[number] += (double)stands_for;
        }
    }
    bool settled = ticks && section->start - now_learning.began >= now_learning.block_ticks / SETTLE_PART;
    switch (now_learning.phase) {
    case PHASE_TRAIN:
        if (ticks && !one) {
            context_learn(section->context, set->p, ticks);
            if (now >= now_learning.train_until)
                next_phase(section->attachment->page, now);
        }
        return;
    case PHASE_BEFORE:
        if (ticks && expected > 0.0) {
            /* Older instances tell little about how fast the machine is now. */
            double kept = now_learning.aim && now_learning.delaying ? 0.5 : 1.0;
            now_learning.real = kept * now_learning.real + (double)ticks;
            now_learning.expected = kept * now_learning.expected + expected;
        }
        if (!now_learning.delaying) {
            now_learning.instances++;
            if (ticks && now - now_learning.began >= now_learning.block_ticks)
                next_phase(section->attachment->page, now);
        } else if (now_learning.left > 1) {
            now_learning.left--;
        } else if (ticks) {
            next_phase(section->attachment->page, now);
        }
        return;
    case PHASE_ONE:
        if (ticks) {
            budget_spend(section->attachment->page,
                         (double)ticks * (double)stands_for * scale_ns() * (set->p - 1));
            if (one && expected > 0.0 && (settled || now_learning.instances < SETTLE_PART))
                note_block(number, (double)ticks, expected);
        }
        break;
    case PHASE_AFTER:
        if (ticks && expected > 0.0 && !one && (settled || now_learning.instances < SETTLE_PART)) {
            now_learning.real += (double)ticks;
            now_learning.expected += expected;
        }
        break;
    }
    if (now_learning.left > 1)
        now_learning.left--;
    else if (ticks)
        next_phase(section->attachment->page, now);
}

const struct meter rate_meter = {
    .begin = rate_begin,
    .end = rate_end,
    .pause = rate_pause,
    .after_fork = rate_after_fork,
};
