#include "team/team.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "code/code_reader.h"
#include "join/attachment.h"
#include "join/program.h"

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

static inline bool rigid(void)
{
    return program_malleable() == VSCAF_MALLEABLE_RIGID;
}

/* List of the sections that write thread-private data; it only grows. Its last entry stands for all sections for which
 * the shim has no site. */
static struct call_site anonymous_writer;
static _Atomic(struct call_site *) writers = &anonymous_writer;
_Atomic uint32_t team_max_data_threads;
_Atomic unsigned team_in_flight;
/* The smallest team that the page decided; for VSCAF_MALLEABLE=shrink. */
static _Atomic uint32_t smallest_decided = UINT32_MAX;

static struct call_site *first_writer(void)
{
    /* Acquire: pairs with the release in list_writer. */
    return atomic_load_explicit(&writers, memory_order_acquire);
}

static struct call_site *next_of(const struct call_site *writer)
{
    return atomic_load_explicit(&writer->next_writer, memory_order_relaxed);
}

static void list_writer(struct call_site *site)
{
    struct call_site *first = atomic_load_explicit(&writers, memory_order_relaxed);
    do
        atomic_store_explicit(&site->next_writer, first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&writers, &first, site, memory_order_release,
                                                  memory_order_relaxed)); /* release: readers see the site filled */
}

void team_inspect(struct call_site *site, const void *outlined, bool stays)
{
    int saved_errno = errno;
    struct code_view view;
    uint32_t rules = SITE_INSPECTED;
    if (code_view_of(outlined, &view)) {
        struct code_findings findings = code_not_read(&view);
        if (stays)
            findings = code_inspect(&view, (uintptr_t)outlined);
        if (findings.keeps_thread_data)
            rules |= SITE_READS_DATA;
        if (findings.writes_thread_data)
            rules |= SITE_WRITES_DATA;
        /* What is not known is never free: it may use any number that the program has from anywhere. */
        if (findings.takes_number_alone || findings.tells_number || findings.unsure || findings.calls_others
            || findings.thread_data_beside)
            rules |= SITE_OWN;
        if ((findings.unsure && view.tls_bytes) || findings.thread_data_beside)
            rules |= SITE_UNREAD | SITE_READS_DATA | SITE_WRITES_DATA;
    } else {
        rules |= SITE_OWN; /* in no object: a compiler made it at run time */
    }
    uint32_t before = 0;
    /* Relaxed: the list publishes the rest. If two threads inspect at once, the first result counts. */
    if (atomic_compare_exchange_strong_explicit(&site->rules, &before, rules, memory_order_relaxed,
                                                memory_order_relaxed)) {
        if (stays && (rules & SITE_WRITES_DATA))
            list_writer(site);
        /* Before the first team, so the section has the program's own number from the start. */
        if (rules & SITE_UNREAD)
            program_note(VSCAF_PROGRAM_UNREAD);
    }
    errno = saved_errno;
}

static uint32_t fewer_data_threads(uint32_t one, uint32_t other)
{
    if (!one || !other)
        return one | other;
    return smaller(one & ~SITE_DATA_OWN, other & ~SITE_DATA_OWN) | (one & other & SITE_DATA_OWN);
}

static uint32_t larger(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

typedef uint32_t choose_function(uint32_t one, uint32_t other);

static void combine(_Atomic uint32_t *cell, uint32_t value, choose_function *choose)
{
    uint32_t seen = atomic_load(cell);
    while (!atomic_compare_exchange_weak(cell, &seen, choose(seen, value)))
        ;
}

/* If one thread starts sections, stores the present value. If several do, each has threads of its own, so the worst
 * value of all is kept. Sequentially consistent, like program_note: if the second thread appears meanwhile, either it
 * finds the value here or this thread sees the bit. */
static void record_data_threads(_Atomic uint32_t *cell, uint32_t value, choose_function *choose)
{
    if (!(atomic_load(&program_bits) & VSCAF_PROGRAM_MASTERS)) {
        uint32_t before = atomic_exchange(cell, value);
        if (!(atomic_load(&program_bits) & VSCAF_PROGRAM_MASTERS))
            return;
        value = before;
    }
    combine(cell, value, choose);
}

void team_record(struct call_site *site, unsigned size, bool own)
{
    uint32_t data_threads = size ? size | (own ? SITE_DATA_OWN : 0) : 0, most = 0;
    if (atomic_load_explicit(&site->rules, memory_order_relaxed) & SITE_WRITES_DATA) {
        struct call_site *writer = next_of(site) ? site : &anonymous_writer;
        /* Several sections share anonymous_writer: keep the worst value of all. */
        if (writer == site)
            record_data_threads(&writer->data_threads, data_threads, fewer_data_threads);
        else
            combine(&writer->data_threads, data_threads, fewer_data_threads);
    }
    for (struct call_site *writer = first_writer(); writer; writer = next_of(writer)) {
        uint32_t seen = atomic_load_explicit(&writer->data_threads, memory_order_relaxed);
        /* A team of one leaves the runtime's other threads alone. */
        if (size > 1 && (seen & ~SITE_DATA_OWN) > size) {
            combine(&writer->data_threads, data_threads, fewer_data_threads);
            seen = atomic_load_explicit(&writer->data_threads, memory_order_relaxed);
        }
        most = larger(most, seen & ~SITE_DATA_OWN);
    }
    record_data_threads(&team_max_data_threads, most, larger);
}

/* How many threads have all the data that sections left in them. A section that reads this data may have no other
 * threads. Sections that have not run yet left nothing. If `own`, the team would have the program's own number; then
 * writers that had the program's own number are no bound, because the program would have had these teams without
 * vscaf. */
static unsigned threads_with_data(bool own)
{
    unsigned least = UINT_MAX;
    for (struct call_site *writer = first_writer(); writer; writer = next_of(writer)) {
        uint32_t data_threads = atomic_load_explicit(&writer->data_threads, memory_order_relaxed);
        if (data_threads && !(own && (data_threads & SITE_DATA_OWN)))
            least = smaller(least, data_threads & ~SITE_DATA_OWN);
    }
    return least;
}

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

/* The number of threads that the program counts with, because it was told it; 0: none. Without vscaf its teams would
 * have the user's number, even if it was told a larger number of processors. */
static unsigned told_number(void)
{
    uint32_t reported = atomic_load_explicit(&program_limit, memory_order_relaxed);
    return reported && ever_joined() ? smaller(reported, user_bound()) : 0;
}

/* The largest size that a team may have. */
static inline unsigned max_team_size(const struct runtime *runtime, const struct vscaf_page *page)
{
    /* Relaxed, both: any earlier value is safe too, and the number told only grows. */
    if (number_set() && !(atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_OVERRIDE))
        return at_least_one(runtime->get_max_threads());
    unsigned told = told_number();
    if (told)
        return told;
    uint32_t limit = atomic_load_explicit(&page->team_limit, memory_order_relaxed);
    if (!valid_team_size(limit))
        limit = at_least_one(runtime->get_max_threads());
    return smaller(limit, user_bound());
}

/* The number that a section's team must have, because of its code; 0: its code demands none. If the program was not
 * told a number yet, the section tells it one: the largest that its teams may have. */
static unsigned number_demanded(const struct runtime *runtime, const struct vscaf_page *page, uint32_t rules)
{
    if (!(rules & SITE_OWN))
        return 0;
    unsigned told = told_number();
    if (told)
        return told;
    if (number_set())
        return 0;
    uint32_t there = atomic_load_explicit(&page->team_told, memory_order_relaxed);
    if (!valid_team_size(there))
        there = at_least_one(runtime->get_max_threads());
    told = smaller(smaller(there, user_bound()), at_least_one(runtime->get_thread_limit()));
    program_threads_reported(told);
    return ever_joined() ? told : 0;
}

/* Tells the agent what it cannot know: CPUs above this number would be of no use to the program. */
static void report_bound(const struct runtime *runtime, bool overridden, enum vscaf_malleable malleable)
{
    unsigned most = number_set() && !overridden ? at_least_one(runtime->get_max_threads()) : user_bound();
    if (malleable == VSCAF_MALLEABLE_SHRINK)
        most = smaller(most, atomic_load_explicit(&smallest_decided, memory_order_relaxed));
    program_bounded(smaller(most, at_least_one(runtime->get_thread_limit())));
}

struct team team_of_section(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                            unsigned requested)
{
    /* Relaxed: it comes after the store of `started` in program order, which is all that page.h requires. */
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    uint32_t rules = atomic_load_explicit(&site->rules, memory_order_relaxed);
    unsigned told = told_number();
    enum vscaf_malleable malleable = program_malleable();
    bool overridden = atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_OVERRIDE;
    bool reads = (rules & SITE_READS_DATA) && !(overridden && malleable == VSCAF_MALLEABLE_FULL);
    struct team team = {.argument = requested, .size = requested};
    if (!requested && malleable != VSCAF_MALLEABLE_RIGID) {
        unsigned demanded = overridden ? 0 : number_demanded(runtime, page, rules);
        if (demanded) {
            told = demanded;
            program_note(VSCAF_PROGRAM_NUMBERED);
            team.argument = team.size = told;
        } else if (valid_team_size(size)) {
            size = smaller(size, max_team_size(runtime, page));
            if (reads) {
                if (!(rules & SITE_UNREAD))
                    program_note(VSCAF_PROGRAM_KEEPS);
                size = smaller(size, threads_with_data(false));
            }
            if (malleable == VSCAF_MALLEABLE_SHRINK) {
                uint32_t least = atomic_load_explicit(&smallest_decided, memory_order_relaxed);
                while (size < least
                       && !atomic_compare_exchange_weak_explicit(&smallest_decided, &least, size, memory_order_relaxed,
                                                                 memory_order_relaxed))
                    ;
                size = smaller(size, least);
            }
            team.argument = team.size = size;
            team.decided = true;
        } else if (told && !number_set() && told < at_least_one(runtime->get_max_threads())) {
            /* The page decides nothing. But the program was told less than the runtime would take, so that is its
             * bound. */
            team.argument = team.size = told;
        }
    } else if (!requested && told && program_unread()) {
        /* The program's own number is the one that it was told. */
        team.argument = team.size = told;
    }
    if (!requested)
        report_bound(runtime, overridden, malleable);
    if (!team.size)
        team.size = at_least_one(runtime->get_max_threads());
    /* Work that is divided by the number told comes first: there the team must have that number. */
    if (reads && !team.decided && !((rules & SITE_OWN) && told && team.size == told)) {
        unsigned most = threads_with_data(true);
        if (most < team.size) {
            team.argument = team.size = most;
            team.bounded = true;
        }
    }
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

struct team_repeated team_repeated;

struct team team_of_owner(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                          unsigned requested)
{
    struct team_repeated *last = &team_repeated;
    /* Acquire: all that changed before the generation is visible. */
    uint32_t generation = atomic_load_explicit(&program_generation, memory_order_acquire);
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&page->team_limit, memory_order_relaxed);
    uint32_t rules = atomic_load_explicit(&site->rules, memory_order_relaxed);
    if (__builtin_expect(!requested && !(rules & SITE_OWN_TEAM) && last->runtime == runtime
                             && last->size == size && last->limit == limit && last->generation == generation, 1))
        return last->team;
    struct team team = team_of_section(runtime, site, page, requested);
    /* A program may change its number of threads, or make it dynamic, by calls that the shim does not see. So an answer
     * that came from the runtime is not kept. */
    if (!requested && !(rules & SITE_OWN_TEAM) && team.decided && !team.own_dynamic) {
        last->runtime = runtime;
        last->size = size;
        last->limit = limit;
        last->generation = generation;
        last->team = team;
    }
    return team;
}

unsigned team_nested(const struct runtime *runtime, const struct call_site *site, const struct vscaf_page *page,
                     unsigned requested, int level, unsigned width, unsigned sharers)
{
    if (requested)
        return requested;
    uint32_t rules = atomic_load_explicit(&site->rules, memory_order_relaxed);
    bool overridden = atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_OVERRIDE;
    /* With a list of numbers, the program was told the runtime's own number for this level. */
    bool listed = user_bound() != UINT_MAX && atomic_load_explicit(&user_listed, memory_order_relaxed);
    if (rigid())
        return program_unread() && !listed ? told_number() : 0;
    if ((rules & SITE_OWN) && !overridden && listed)
        return 0;
    unsigned demanded = overridden ? 0 : number_demanded(runtime, page, rules);
    if (demanded)
        return demanded;
    /* Relaxed: only top-level sections are counted, and this one runs inside one of them. */
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    if (!valid_team_size(size)) {
        unsigned told = listed || number_set() ? 0 : told_number();
        return told < at_least_one(runtime->get_max_threads()) ? told : 0;
    }
    unsigned allowance = smaller(size, max_team_size(runtime, page)) / sharers;
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
    if (question == TEAM_MAX_THREADS && user_bound() != UINT_MAX
        && atomic_load_explicit(&user_listed, memory_order_relaxed) && runtime->get_level() > 0)
        return real;
    bool joined = ever_joined();
    /* Acquire: pairs with the release in a join, which comes after the page was mapped. */
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_acquire);
    uint32_t limit = atomic_load_explicit(&current->page->team_told, memory_order_relaxed);
    uint32_t alone = atomic_load_explicit(&told_alone[question], memory_order_relaxed);
    uint32_t before = alone ? alone : atomic_load_explicit(&program_limit, memory_order_relaxed);
    int reported = real;
    if (joined && !number_set() && (!rigid() || (before && program_unread()))) {
        /* The same number each time: the program may have sized an array by each answer. */
        if (before)
            limit = before;
        if (valid_team_size(limit) && limit <= user_bound() && limit <= at_least_one(runtime->get_thread_limit()))
            reported = (int)limit;
        else if (before && reported > (int)before)
            reported = (int)before;
    }
    if (reported > 0) {
        if (!joined)
            atomic_store_explicit(&told_alone[question], (uint32_t)reported, memory_order_relaxed);
        program_threads_reported((uint32_t)reported);
    }
    return reported;
}
