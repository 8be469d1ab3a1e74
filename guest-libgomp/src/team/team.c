#include "team/team.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "join/attachment.h"
#include "join/program.h"
#include "team/threads.h"
#include "team/verdicts.h"

/* The user's OMP_NUM_THREADS. UINT_MAX: not set. 0: not read yet. It is read at the first use and not at the start,
 * because a program may set it and then load a runtime. */
static _Atomic unsigned user_threads;
/* It is a list, which gives the sections inside others their own numbers. Read user_bound() first. */
static _Atomic bool user_listed;

static __attribute__((noinline)) unsigned read_user_threads(void)
{
    int saved_errno = errno;
    const char *text = getenv("OMP_NUM_THREADS");
    if (!text)
        text = getenv("OMP_NUM_THREADS_ALL");
    unsigned threads = UINT_MAX;
    if (text) {
        char *end;
        long value = strtol(text, &end, 10);
        while (isspace((unsigned char)*end))
            end++;
        /* A list gives a number for each level. The runtime ignores anything else with a warning. */
        if (end != text && value > 0 && value < INT_MAX && (*end == '\0' || *end == ',')) {
            threads = (unsigned)value;
            atomic_store_explicit(&user_listed, *end == ',', memory_order_relaxed);
        }
    }
    /* Release: who sees the number also sees whether it is a list. */
    atomic_store_explicit(&user_threads, threads, memory_order_release);
    errno = saved_errno;
    return threads;
}

static inline unsigned user_bound(void)
{
    /* A second reading gives the same value. Acquire: for user_listed. */
    unsigned threads = atomic_load_explicit(&user_threads, memory_order_acquire);
    return threads ? threads : read_user_threads();
}

static inline unsigned smaller(unsigned one, unsigned other)
{
    return one < other ? one : other;
}

static inline bool valid_team_size(uint32_t threads)
{
    return threads >= 1 && threads <= VSCAF_MAX_TEAM;
}

static inline unsigned at_least_one(int threads)
{
    return threads > 0 ? (unsigned)threads : 1;
}

static inline bool number_set(void)
{
    /* Relaxed: if another thread starts a section while the number is being set, either order is right. */
    return atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_SET;
}

_Atomic unsigned team_in_flight;
_Atomic uint32_t team_own_number;
/* The smallest team that the page decided; for VSCAF_MALLEABLE=shrink. */
static _Atomic uint32_t smallest_decided = UINT32_MAX;
/* The largest team that was not made larger by the page, or of which it was tried whether its threads can be made. */
static _Atomic uint32_t largest_tried;

/* True once the program has had a page. Before, it runs as without vscaf, whatever it was told. */
static bool ever_joined(void)
{
    static _Atomic bool joined;
    if (atomic_load_explicit(&joined, memory_order_relaxed))
        return true;
    if (!attachment_joined())
        return false;
    atomic_store_explicit(&joined, true, memory_order_relaxed);
    return true;
}

static bool user_listed_numbers(void)
{
    return user_bound() != UINT_MAX && atomic_load_explicit(&user_listed, memory_order_relaxed);
}

/* Without a page the runtime decides, and that number then is the program's own. */
static unsigned own_number(const struct runtime *runtime, const struct vscaf_page *page)
{
    uint32_t number = atomic_load_explicit(&team_own_number, memory_order_relaxed);
    if (number)
        return number;
    /* The user's number counts as it stands, on fewer CPUs too: so it does without vscaf. */
    uint32_t there = user_bound();
    if (there == UINT_MAX)
        there = atomic_load_explicit(&page->team_told, memory_order_relaxed);
    if (!ever_joined() || !valid_team_size(there))
        there = at_least_one(runtime->get_max_threads());
    unsigned own = smaller(there, at_least_one(runtime->get_thread_limit()));
    /* Whoever is first fixes it for all threads. */
    return atomic_compare_exchange_strong_explicit(&team_own_number, &number, own, memory_order_relaxed,
                                                   memory_order_relaxed) ? own : number;
}

/* A section ran with the program's own number, and it may have left data in its threads, or that is not known yet.
 * Sections for which the shim keeps no site stay in the count for ever. */
static void note_kept_data(struct call_site *site, bool stays)
{
    if (verdict_is_harmless(site) || atomic_load_explicit(&site->keeps, memory_order_relaxed))
        return;
    verdict_counts_as_keeping(site, stays);
}

/* Tells the agent what it cannot know: CPUs above this number would be of no use to the program. */
static void report_bound(const struct runtime *runtime, bool overridden, enum vscaf_malleable malleable)
{
    unsigned most = number_set() && !overridden ? at_least_one(runtime->get_max_threads()) : user_bound();
    if (malleable == VSCAF_MALLEABLE_SHRINK)
        most = smaller(most, atomic_load_explicit(&smallest_decided, memory_order_relaxed));
    program_bounded(smaller(most, at_least_one(runtime->get_thread_limit())));
}

/* What the choice of a team's size depends on. */
struct choice {
    const struct runtime *runtime;
    const struct vscaf_page *page;
    unsigned requested;
    uint32_t size; /* the page's; 0: it decides nothing */
    uint32_t bits; /* VSCAF_PROGRAM_ */
    enum program_declaration declared;
    enum vscaf_malleable malleable;
    enum vscaf_verdict verdict;
};

static bool has_clause(const struct choice *choice)
{
    return choice->requested != 0;
}

static bool is_set(const struct choice *choice)
{
    return (choice->bits & VSCAF_PROGRAM_SET) && choice->declared != PROGRAM_RESIZE;
}

static bool is_bound(const struct choice *choice)
{
    return (choice->bits & VSCAF_PROGRAM_BOUND) && choice->declared != PROGRAM_RESIZE;
}

static bool has_no_page(const struct choice *choice)
{
    (void)choice;
    return !ever_joined();
}

static bool is_left_alone(const struct choice *choice)
{
    return choice->declared == PROGRAM_LEAVE_ALONE;
}

static bool is_undecided(const struct choice *choice)
{
    return choice->size == 0;
}

static bool is_declared(const struct choice *choice)
{
    return choice->declared == PROGRAM_RESIZE;
}

/* The runtime ends the threads that a smaller team does not have, and their data goes with them. A team of one thread
 * leaves the others alone. */
static bool would_end_threads(const struct choice *choice)
{
    return (choice->verdict == VSCAF_VERDICT_FREE || choice->verdict == VSCAF_VERDICT_UP_TO) && choice->size > 1
           && atomic_load_explicit(&verdict_keeping, memory_order_relaxed)
           && choice->size < own_number(choice->runtime, choice->page);
}

static bool is_free(const struct choice *choice)
{
    return choice->verdict == VSCAF_VERDICT_FREE;
}

static bool is_up_to(const struct choice *choice)
{
    return choice->verdict == VSCAF_VERDICT_UP_TO;
}

static bool always(const struct choice *choice)
{
    (void)choice;
    return true;
}

static unsigned size_of_clause(const struct choice *choice)
{
    return choice->requested;
}

static unsigned size_of_runtime(const struct choice *choice)
{
    (void)choice;
    return 0;
}

static unsigned size_alone(const struct choice *choice)
{
    own_number(choice->runtime, choice->page); /* fixes it */
    return 0;
}

static unsigned size_own(const struct choice *choice)
{
    return own_number(choice->runtime, choice->page);
}

static unsigned size_free(const struct choice *choice)
{
    return smaller(choice->size, user_bound());
}

static unsigned size_up_to(const struct choice *choice)
{
    return smaller(choice->size, own_number(choice->runtime, choice->page));
}

static unsigned size_declared(const struct choice *choice)
{
    /* Whoever declares it may mean: up to the number that the program has. */
    unsigned bound = user_bound();
    uint32_t told = atomic_load_explicit(&team_own_number, memory_order_relaxed);
    if (choice->bits & VSCAF_PROGRAM_SET)
        bound = at_least_one(choice->runtime->get_max_threads());
    else if (told)
        bound = smaller(bound, told);
    return smaller(choice->size, bound);
}

/* The rules for a top-level team. The first one that applies decides. Numbers as in docs/team-size.md. */
static const struct rule {
    bool (*applies)(const struct choice *choice);
    unsigned (*size)(const struct choice *choice); /* 0: the runtime's own */
    bool decided;                                  /* by the page */
} rules[] = {
    {has_clause, size_of_clause, false},  /* 1 */
    {is_set, size_of_runtime, false},     /* 2 */
    {is_bound, size_of_runtime, false},   /* 3 */
    {has_no_page, size_alone, false},     /* 4 */
    {is_left_alone, size_own, false},     /* 5 */
    {is_undecided, size_own, false},      /* 6 */
    {is_declared, size_declared, true},   /* 7 */
    {would_end_threads, size_own, false}, /* 8 */
    {is_free, size_free, true},           /* 9 */
    {is_up_to, size_up_to, true},         /* 10 */
    {always, size_own, false},            /* 11 */
};

static struct choice choice_of(const struct runtime *runtime, const struct call_site *site,
                               const struct vscaf_page *page, unsigned requested)
{
    /* Relaxed: it comes after the store of `started` in program order, which is all that page.h requires. */
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    return (struct choice){
        .runtime = runtime,
        .page = page,
        .requested = requested,
        .size = valid_team_size(size) ? size : 0,
        .bits = atomic_load_explicit(&program_bits, memory_order_relaxed),
        .declared = program_declared(),
        .malleable = program_malleable(),
        .verdict = verdict_of(site),
    };
}

static const struct rule *rule_for(const struct choice *choice)
{
    const struct rule *rule = rules;
    while (!rule->applies(choice))
        rule++;
    return rule;
}

/* VSCAF_MALLEABLE=shrink: never larger than any team that the page decided before. */
static unsigned never_grown(unsigned size)
{
    uint32_t least = atomic_load_explicit(&smallest_decided, memory_order_relaxed);
    while (size < least
           && !atomic_compare_exchange_weak_explicit(&smallest_decided, &least, size, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
    return smaller(size, least);
}

/* Before a team grows beyond any earlier one and beyond the program's own number: can its threads be made? */
static unsigned within_limits(const struct runtime *runtime, unsigned size)
{
    size = smaller(size, at_least_one(runtime->get_thread_limit()));
    uint32_t tried = atomic_load_explicit(&largest_tried, memory_order_relaxed);
    if (__builtin_expect(size <= tried, 1))
        return size;
    unsigned own = at_least_one(runtime->get_max_threads());
    tried = tried > own ? tried : own;
    if (size > tried && threads_can_be_made(size - 1))
        tried = size;
    /* If they could not, the size is tried again when the page asks for it: the limit may be raised. */
    atomic_store_explicit(&largest_tried, tried, memory_order_relaxed);
    return smaller(size, tried);
}

struct team team_of_section(const struct runtime *runtime, struct call_site *site, const struct vscaf_page *page,
                            unsigned requested, bool stays)
{
    struct choice choice = choice_of(runtime, site, page, requested);
    const struct rule *rule = rule_for(&choice);
    struct team team = {.decided = rule->decided};
    team.argument = team.size = rule->size(&choice);
    if (team.decided) {
        if (choice.malleable == VSCAF_MALLEABLE_SHRINK)
            team.argument = team.size = never_grown(team.size);
        if (rule->size == size_free)
            program_grows();
        team.argument = team.size = within_limits(runtime, team.size);
    } else {
        note_kept_data(site, stays);
        if (attachment_joined())
            program_note(VSCAF_PROGRAM_OWN);
    }
    if (!requested)
        report_bound(runtime, choice.declared == PROGRAM_RESIZE, choice.malleable);
    if (!team.size)
        team.size = at_least_one(runtime->get_max_threads());
    if (team.size > 1 && runtime->get_dynamic()) {
        if (team.decided)
            team.own_dynamic = true;
        else
            team.size = 0; /* the runtime looks at the load and does not tell its choice */
    }
    team.size = smaller(team.size, at_least_one(runtime->get_thread_limit()));
    if (!runtime->parallel_allowed)
        team.size = 1;
    return team;
}

unsigned team_nested(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                     unsigned requested, int level, unsigned width, unsigned sharers)
{
    struct choice choice = choice_of(runtime, site, page, requested);
    const struct rule *rule = rule_for(&choice);
    if (!rule->decided)
        /* With a list, the runtime has an own number for this level. */
        return rule->size == size_own && user_listed_numbers() ? 0 : rule->size(&choice);
    unsigned allowance = rule->size(&choice) / sharers;
    unsigned enclosing = 1;
    for (int i = 1; i <= level && enclosing < allowance; i++)
        enclosing *= at_least_one(runtime->get_team_size(i));
    /* A section of another runtime is not a level of this one. */
    if (enclosing < width)
        enclosing = width;
    unsigned share = enclosing < allowance ? allowance / enclosing : 1;
    if (user_bound() != UINT_MAX)
        share = smaller(share, at_least_one(runtime->get_max_threads())); /* OMP_NUM_THREADS may be a list */
    return share;
}

int team_reported_threads(const struct runtime *runtime, enum team_question question, int real)
{
    /* What the program was told before it had a page: the runtime's own answers, which may differ. */
    static _Atomic uint32_t told_alone[TEAM_QUESTIONS];
    /* The runtime has a number of its own for each level of a list. It is no bound for top-level teams. */
    if (question == TEAM_MAX_THREADS && user_listed_numbers() && runtime->get_level() > 0)
        return real;
    /* Acquire: pairs with the release in a join, which comes after the page was mapped. */
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_acquire);
    struct choice choice = {.bits = atomic_load_explicit(&program_bits, memory_order_relaxed),
                            .declared = program_declared()};
    uint32_t alone = atomic_load_explicit(&told_alone[question], memory_order_relaxed);
    bool set = choice.bits & VSCAF_PROGRAM_SET; /* then the runtime knows its number */
    int reported = real;
    if (!ever_joined()) {
        if (real > 0)
            atomic_store_explicit(&told_alone[question], (uint32_t)real, memory_order_relaxed);
        if (question == TEAM_MAX_THREADS && !set)
            own_number(runtime, current->page);
    } else if (alone && !set) {
        reported = (int)alone; /* the same each time: the program may have sized an array by each answer */
    } else if (!set && !is_bound(&choice)) {
        unsigned own = own_number(runtime, current->page);
        /* The number of processors is not bounded by the user's number of threads. */
        if (question == TEAM_MAX_THREADS || user_bound() == UINT_MAX || reported < (int)own)
            reported = (int)own;
    }
    if (reported > 0)
        program_threads_reported((uint32_t)reported);
    return reported;
}
