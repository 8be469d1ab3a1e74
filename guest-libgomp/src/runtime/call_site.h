/* Finds the OpenMP runtime of a caller. An address of code leads to its call site, the site to its object, and the
 * object to the runtime that the dynamic linker bound it to. */
#ifndef VSCAF_GOMP_CALL_SITE_H
#define VSCAF_GOMP_CALL_SITE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/object.h"

#define CALL_SITE_BITS 13u
#define CALL_SITES (1u << CALL_SITE_BITS)

/* An outlined function, or a call of omp_*. */
struct call_site {
    _Atomic(struct object *) object;
    _Atomic uint32_t generation;
    uint64_t offset;        /* from the object's load address */
    _Atomic uint32_t verdict;  /* vscaf_verdict_word; VSCAF_VERDICT_NONE: not known yet (team/verdicts.c) */
    _Atomic uint8_t keeps;     /* whether it counts as one that may have left data in its threads; team/verdicts.c */
    _Atomic uint32_t sight;    /* its place on the page where the verdict is awaited, plus 1; 0: the page has none left */
    _Atomic uint64_t question; /* for which join and after how many unloadings that is so */

    /* Only the thread that owns the hot path (section.c) uses the members from here on. */
    uint32_t gap;           /* so many instances after the last timed one are not timed */
    uint32_t skip;          /* so many of these are still to come */
    uint32_t fast_path;     /* the number of the fast path that it may take (section/fast_path.h); 0: none */
    uint32_t mean_ticks;    /* moving average, rounded down; 0: no instance was timed */
    uint16_t pace;          /* its last entry in the page's paces (section/pace.c) */
    uint16_t pace_refused;  /* the team size for which there was no free entry; 0: none */
    uint32_t number;         /* in the order of first learning, from 1; 0: none yet (rate.c) */
    uint32_t reuse_distance; /* sections that ran since it ran before; 0: it runs for the first time (context.c) */
    uint32_t last_step;      /* its last place in the program's sequence of sections (context.c) */
};

/* Space for a site and an object, on the caller's stack. The look-up uses it when its tables are full. */
struct call_site_spare {
    struct call_site site;
    struct object object;
};

struct call_site_bucket {
    _Atomic uintptr_t key;
    _Atomic(struct call_site *) site;
};

/* Hidden, like object_unloads. */
extern struct call_site_bucket call_site_buckets[CALL_SITES] __attribute__((visibility("hidden")));

/* Compilers align functions to 16 bytes. Functions that are near each other have buckets near each other, so that few
 * pages of the table are touched. */
static inline uint32_t call_site_bucket_of(uintptr_t key)
{
    return (uint32_t)(key >> 4 ^ key >> (4u + CALL_SITE_BITS)) & (CALL_SITES - 1);
}

/* The shim's sites by their numbers from 0 on; NULL: there are not so many. One that was just added may be empty. */
struct call_site *call_site_numbered(uint32_t number);

/* The site, if it is quickly found; else NULL. */
static inline struct call_site *call_site_known(uintptr_t key)
{
    struct call_site_bucket *bucket = &call_site_buckets[call_site_bucket_of(key)];
    /* Memory orders: see call_site_search. */
    if (atomic_load_explicit(&bucket->key, memory_order_relaxed) != key)
        return NULL;
    struct call_site *site = atomic_load_explicit(&bucket->site, memory_order_acquire);
    return site
                   && atomic_load_explicit(&site->generation, memory_order_relaxed)
                          == atomic_load_explicit(&object_unloads, memory_order_relaxed)
               ? site
               : NULL;
}

/* The site of the code at `address`. Never fails. Makes system calls and takes locks only at the first call for an
 * address, and at the first one after a dlclose that unloaded something. */
static inline struct call_site *call_site_of(const void *address, struct call_site_spare *spare);

/* The same, for an address that is not quickly found. */
struct call_site *call_site_search(const void *address, struct call_site_spare *spare);

static inline struct call_site *call_site_of(const void *address, struct call_site_spare *spare)
{
    struct call_site *site = call_site_known((uintptr_t)address);
    return __builtin_expect(site != NULL, 1) ? site : call_site_search(address, spare);
}

static inline const struct runtime *call_site_runtime(struct call_site *site)
{
    /* Acquire: pairs with the release that published the object. */
    return &atomic_load_explicit(&site->object, memory_order_acquire)->runtime;
}

#endif
