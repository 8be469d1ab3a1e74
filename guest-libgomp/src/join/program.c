#include "join/program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "join/attachment.h"

_Atomic uint32_t program_bits;
_Atomic uint32_t program_limit;
_Atomic uint32_t program_generation = 1;
static _Atomic uint32_t largest;
/* An enum vscaf_malleable, or OVERRIDE_NONE. */
#define OVERRIDE_NONE UINT32_MAX
static _Atomic uint32_t override = OVERRIDE_NONE;
static bool user_overrides; /* constant after the start */
static _Atomic uint32_t declared;

/* The program turned dynamic adjustment on (omp_set_dynamic). A number that it set is then an upper bound. */
static _Atomic bool dynamic;

/* Values of VSCAF_MALLEABLE in the environment. */
static const char *const names[] = {
    [VSCAF_MALLEABLE_FULL] = "full",
    [VSCAF_MALLEABLE_SHRINK] = "shrink",
    [VSCAF_MALLEABLE_RIGID] = "rigid",
};

void program_start(void)
{
    const char *word = getenv("VSCAF_MALLEABLE");
    if (!word || !word[0])
        return;
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(word, names[i])) {
            atomic_store_explicit(&override, i, memory_order_relaxed);
            user_overrides = true;
            program_note(VSCAF_PROGRAM_OVERRIDE);
            return;
        }
    }
    static const char warning[] =
        "libvscaf-gomp: VSCAF_MALLEABLE is not full, shrink or rigid: ignored\n";
    ssize_t written = write(STDERR_FILENO, warning, sizeof warning - 1);
    (void)written; /* there is no other place to report it */
}

void program_declare(enum program_declaration declaration)
{
    atomic_store_explicit(&declared, declaration, memory_order_relaxed);
    if (user_overrides)
        return;
    uint32_t malleable = declaration == PROGRAM_DECLARED_RESIZE        ? VSCAF_MALLEABLE_FULL
                         : declaration == PROGRAM_DECLARED_LEAVE_ALONE ? VSCAF_MALLEABLE_RIGID
                                                                       : OVERRIDE_NONE;
    /* Relaxed: the generation below makes threads that start a section look again. */
    atomic_store_explicit(&override, malleable, memory_order_relaxed);
    if (malleable == OVERRIDE_NONE)
        atomic_fetch_and(&program_bits, ~VSCAF_PROGRAM_OVERRIDE);
    else
        atomic_fetch_or(&program_bits, VSCAF_PROGRAM_OVERRIDE);
    program_changed();
    program_copy(atomic_load(&attachment_current)->page);
}

enum program_declaration program_declared(void)
{
    return (enum program_declaration)atomic_load_explicit(&declared, memory_order_relaxed);
}

enum vscaf_malleable program_malleable(void)
{
    /* Relaxed, both: if another thread starts a section while they change, either value is right. */
    uint32_t word = atomic_load_explicit(&override, memory_order_relaxed);
    if (word != OVERRIDE_NONE)
        return (enum vscaf_malleable)word;
    uint32_t bits = atomic_load_explicit(&program_bits, memory_order_relaxed);
    if ((bits & (VSCAF_PROGRAM_BOUND | VSCAF_PROGRAM_UNREAD))
        || ((bits & VSCAF_PROGRAM_SET) && !atomic_load_explicit(&dynamic, memory_order_relaxed)))
        return VSCAF_MALLEABLE_RIGID;
    return VSCAF_MALLEABLE_FULL;
}

bool program_unread(void)
{
    uint32_t bits = atomic_load_explicit(&program_bits, memory_order_relaxed);
    return (bits & VSCAF_PROGRAM_UNREAD)
           && !(bits & (VSCAF_PROGRAM_BOUND | VSCAF_PROGRAM_SET | VSCAF_PROGRAM_OVERRIDE));
}

/* The published value covers the whole program, so it includes the bounds of single sections. */
static enum vscaf_malleable published(void)
{
    enum vscaf_malleable malleable = program_malleable();
    uint32_t bits = atomic_load_explicit(&program_bits, memory_order_relaxed);
    if (malleable != VSCAF_MALLEABLE_FULL || (bits & VSCAF_PROGRAM_OVERRIDE))
        return malleable;
    if (bits & VSCAF_PROGRAM_NUMBERED)
        return VSCAF_MALLEABLE_RIGID;
    return bits & VSCAF_PROGRAM_KEEPS ? VSCAF_MALLEABLE_SHRINK : VSCAF_MALLEABLE_FULL;
}

void program_copy(struct vscaf_page *page)
{
    /* Sequentially consistent: see program_note. */
    atomic_fetch_or(&page->program, atomic_load(&program_bits));
    atomic_store(&page->malleable, (uint32_t)published());
    atomic_store(&page->team_most, atomic_load(&largest));
    uint32_t limit = atomic_load(&program_limit);
    uint32_t seen = atomic_load(&page->told);
    while (seen < limit && !atomic_compare_exchange_weak(&page->told, &seen, limit))
        ;
}

void program_changed(void)
{
    /* Release: a thread that sees the new generation sees the change. */
    atomic_fetch_add_explicit(&program_generation, 1, memory_order_release);
}

void program_set_dynamic(bool value)
{
    atomic_store_explicit(&dynamic, value, memory_order_relaxed);
    program_changed();
    program_copy(atomic_load(&attachment_current)->page);
}

/* Changes the library's own copy first, then the current page. A join publishes its page first and copies then. Both
 * are sequentially consistent, so the new page gets the bits whichever comes first. */
void program_note(uint32_t bits)
{
    if ((atomic_load_explicit(&program_bits, memory_order_relaxed) & bits) == bits)
        return;
    atomic_fetch_or(&program_bits, bits);
    program_changed();
    program_copy(atomic_load(&attachment_current)->page);
}

void program_forget(uint32_t bits)
{
    /* Relaxed: the child has one thread. */
    atomic_fetch_and_explicit(&program_bits, ~bits, memory_order_relaxed);
    program_changed();
}

void program_bounded(uint32_t most)
{
    if (most > VSCAF_MAX_TEAM)
        most = 0;
    if (atomic_load_explicit(&largest, memory_order_relaxed) == most)
        return;
    atomic_store(&largest, most);
    program_copy(atomic_load(&attachment_current)->page);
}

void program_threads_reported(uint32_t threads)
{
    uint32_t seen = atomic_load_explicit(&program_limit, memory_order_relaxed);
    while (seen < threads && !atomic_compare_exchange_weak(&program_limit, &seen, threads))
        ;
    if (seen < threads || !(atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_ASKED)) {
        atomic_fetch_or(&program_bits, VSCAF_PROGRAM_ASKED);
        program_changed();
        program_copy(atomic_load(&attachment_current)->page);
    }
}
