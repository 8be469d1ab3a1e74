#include "join/program.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "join/attachment.h"

_Atomic uint32_t program_bits;
_Atomic uint32_t program_limit;
_Atomic uint32_t program_generation = 1;
static _Atomic uint32_t largest;
static _Atomic uint32_t grows;
/* An enum vscaf_malleable, or OVERRIDE_NONE. */
#define OVERRIDE_NONE UINT32_MAX
static _Atomic uint32_t override = OVERRIDE_NONE;

/* Dynamic adjustment: by the user (OMP_DYNAMIC), then as the program sets it (omp_set_dynamic). */
static _Atomic bool dynamic;
static _Atomic uint32_t declared; /* by the program; enum program_declaration */

/* Values of VSCAF_MALLEABLE in the environment. */
static const char *const names[] = {
    [VSCAF_MALLEABLE_FULL] = "full",
    [VSCAF_MALLEABLE_SHRINK] = "shrink",
    [VSCAF_MALLEABLE_RIGID] = "rigid",
};

void program_start(void)
{
    const char *user_dynamic = getenv("OMP_DYNAMIC"), *word = getenv("VSCAF_MALLEABLE");
    if (user_dynamic && !strcasecmp(user_dynamic, "true"))
        atomic_store_explicit(&dynamic, true, memory_order_relaxed);
    if (!word || !word[0])
        return;
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!strcmp(word, names[i])) {
            atomic_store_explicit(&override, i, memory_order_relaxed);
            program_note(VSCAF_PROGRAM_OVERRIDE);
            return;
        }
    }
    static const char warning[] =
        "libvscaf-gomp: VSCAF_MALLEABLE is not full, shrink or rigid: ignored\n";
    ssize_t written = write(STDERR_FILENO, warning, sizeof warning - 1);
    (void)written; /* there is no other place to report it */
}

enum program_declaration program_declared(void)
{
    /* Relaxed, all: if another thread starts a section while they change, either value is right. */
    uint32_t word = atomic_load_explicit(&override, memory_order_relaxed);
    if (word == VSCAF_MALLEABLE_FULL)
        return PROGRAM_RESIZE;
    if (word == VSCAF_MALLEABLE_RIGID)
        return PROGRAM_LEAVE_ALONE;
    uint32_t by_program = atomic_load_explicit(&declared, memory_order_relaxed);
    if (by_program != PROGRAM_DECLARES_NOTHING)
        return (enum program_declaration)by_program;
    /* Threads that are bound to places stay so. */
    bool bound = atomic_load_explicit(&program_bits, memory_order_relaxed) & VSCAF_PROGRAM_BOUND;
    return !bound && atomic_load_explicit(&dynamic, memory_order_relaxed) ? PROGRAM_RESIZE : PROGRAM_DECLARES_NOTHING;
}

void program_declare(enum program_declaration declaration)
{
    atomic_store_explicit(&declared, (uint32_t)declaration, memory_order_relaxed);
    program_changed();
    program_copy(atomic_load(&attachment_current)->page);
}

enum vscaf_malleable program_malleable(void)
{
    if (atomic_load_explicit(&override, memory_order_relaxed) == VSCAF_MALLEABLE_SHRINK)
        return VSCAF_MALLEABLE_SHRINK;
    enum program_declaration declaration = program_declared();
    if (declaration != PROGRAM_DECLARES_NOTHING)
        return declaration == PROGRAM_RESIZE ? VSCAF_MALLEABLE_FULL : VSCAF_MALLEABLE_RIGID;
    return atomic_load_explicit(&program_bits, memory_order_relaxed) & (VSCAF_PROGRAM_BOUND | VSCAF_PROGRAM_SET)
               ? VSCAF_MALLEABLE_RIGID : VSCAF_MALLEABLE_FULL;
}

void program_copy(struct vscaf_page *page)
{
    /* Sequentially consistent: see program_note. */
    atomic_fetch_or(&page->program, atomic_load(&program_bits));
    atomic_store(&page->malleable, (uint32_t)program_malleable());
    atomic_store(&page->team_most, atomic_load(&largest));
    atomic_store(&page->grows, atomic_load(&grows));
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

void program_grows(void)
{
    if (atomic_load_explicit(&grows, memory_order_relaxed))
        return;
    atomic_store(&grows, 1);
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
