#include "team.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* The user's OMP_NUM_THREADS, UINT_MAX: not set. 0: not read yet (at the first use, not at the start: a program may set
 * it and load a runtime then). */
static _Atomic unsigned user_threads;

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
        /* A list gives the number for each level; anything else the runtime ignores with a warning. */
        if (end != text && value > 0 && value < INT_MAX && (*end == '\0' || *end == ','))
            threads = (unsigned)value;
    }
    atomic_store_explicit(&user_threads, threads, memory_order_relaxed);
    errno = saved_errno;
    return threads;
}

static inline unsigned user_bound(void)
{
    /* Relaxed: whoever reads it twice reads the same. */
    unsigned threads = atomic_load_explicit(&user_threads, memory_order_relaxed);
    return threads ? threads : read_user_threads();
}

static inline unsigned smaller(unsigned one, unsigned other)
{
    return one < other ? one : other;
}

static inline bool believed(uint32_t threads)
{
    return threads >= 1 && threads <= VSCAF_MAX_TEAM;
}

static inline unsigned positive(int threads)
{
    return threads > 0 ? (unsigned)threads : 1;
}

_Atomic bool program_dynamic;

static inline bool number_set(void)
{
    /* Relaxed: a section that another thread starts while the number is being set may be on either side of it. */
    return atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_SET;
}

static inline bool rigid(void)
{
    /* Relaxed: as above. */
    return number_set() && !atomic_load_explicit(&program_dynamic, memory_order_relaxed);
}

/* The most that a team may have. */
static inline unsigned ceiling(const struct runtime *runtime, const struct vscaf_page *page)
{
    /* Relaxed, both: any value that was ever right is safe, and a told number only grows. */
    if (number_set())
        return positive(runtime->get_max_threads());
    uint32_t told = atomic_load_explicit(&program_limit, memory_order_relaxed);
    if (told)
        return smaller(told, user_bound());
    uint32_t limit = atomic_load_explicit(&page->team_limit, memory_order_relaxed);
    if (!believed(limit))
        limit = positive(runtime->get_max_threads());
    return smaller(limit, user_bound());
}

struct team team_of_section(const struct runtime *runtime, const struct vscaf_page *page, unsigned asked)
{
    /* Sequentially consistent, so that it comes after the raise of `started` also where the processor would load early
     * (a relaxed load may pass a read-modify-write on ARM); on x86 it is the same instruction. */
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_seq_cst);
    struct team team = {.argument = asked, .ran = asked};
    bool decided = false;
    if (!asked && !rigid()) {
        if (believed(size)) {
            team.argument = team.ran = smaller(size, ceiling(runtime, page));
            decided = true;
        } else {
            /* Nobody decides; but a program that was told less than the runtime would take holds us to it. */
            uint32_t told = atomic_load_explicit(&program_limit, memory_order_relaxed);
            if (told && !number_set() && told < positive(runtime->get_max_threads()))
                team.argument = team.ran = told;
        }
    }
    if (!team.ran)
        team.ran = positive(runtime->get_max_threads());
    if (team.ran > 1 && runtime->get_dynamic()) {
        if (decided)
            team.own_dynamic = true;
        else
            team.ran = 0; /* the runtime looks at the load, and does not say */
    }
    team.ran = smaller(team.ran, positive(runtime->get_thread_limit()));
    if (!runtime->parallel_ever)
        team.ran = 1;
    return team;
}

unsigned team_nested(const struct runtime *runtime, const struct vscaf_page *page, unsigned asked, int level)
{
    if (asked || rigid())
        return asked;
    /* Relaxed: sections that are counted are top-level ones; this one runs inside such a count. */
    uint32_t size = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    if (!believed(size))
        return 0;
    unsigned allowance = smaller(size, ceiling(runtime, page));
    unsigned enclosing = 1;
    for (int i = 1; i <= level && enclosing < allowance; i++)
        enclosing *= positive(runtime->get_team_size(i));
    unsigned share = enclosing < allowance ? allowance / enclosing : 1;
    if (user_bound() != UINT_MAX)
        share = smaller(share, positive(runtime->get_max_threads())); /* OMP_NUM_THREADS may be a list */
    return share;
}

int team_tell(const struct runtime *runtime, int real)
{
    const struct attachment *current = atomic_load_explicit(&join_current, memory_order_acquire);
    uint32_t limit = atomic_load_explicit(&current->page->team_limit, memory_order_relaxed);
    int told = real;
    if (!number_set() && believed(limit) && limit <= user_bound() && limit <= positive(runtime->get_thread_limit()))
        told = (int)limit;
    if (told > 0)
        program_told((uint32_t)told);
    return told;
}
