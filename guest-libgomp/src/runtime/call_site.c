#include "runtime/call_site.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define PROBES_MAX 64u
#define CALL_SITE_POOL (CALL_SITES / 2u)

struct call_site_bucket call_site_buckets[CALL_SITES];
static struct call_site call_site_pool[CALL_SITE_POOL];
static _Atomic uint32_t call_site_pool_used;

/* The bucket's site, or a new one that is put there. NULL: the pool is empty. */
static struct call_site *site_in(struct call_site_bucket *bucket, const void *address, struct object *object,
                                 uint32_t generation)
{
    struct call_site *site = atomic_load_explicit(&bucket->site, memory_order_acquire), *added = NULL;
    do {
        /* If it has the present generation, another thread has just resolved it. Sections may be under way on it. */
        if (site
            && (atomic_load_explicit(&site->object, memory_order_relaxed) == object
                || atomic_load_explicit(&site->generation, memory_order_acquire) == generation)) {
            atomic_store_explicit(&site->generation, generation, memory_order_release);
            return site;
        }
        if (!added) {
            uint32_t index = atomic_load_explicit(&call_site_pool_used, memory_order_relaxed);
            if (index < CALL_SITE_POOL)
                index = atomic_fetch_add_explicit(&call_site_pool_used, 1, memory_order_relaxed);
            if (index >= CALL_SITE_POOL)
                return NULL;
            added = &call_site_pool[index];
            added->offset = (uintptr_t)address - object->base;
            atomic_store_explicit(&added->object, object, memory_order_relaxed);
            atomic_store_explicit(&added->generation, generation, memory_order_relaxed);
        }
        /* Release: a thread that reads the pointer sees a filled site. A site that is not in the bucket is never
         * returned: the next instance would have another one. */
    } while (!atomic_compare_exchange_strong_explicit(&bucket->site, &site, added, memory_order_acq_rel,
                                                      memory_order_acquire));
    return added;
}

struct call_site *call_site_numbered(uint32_t number)
{
    uint32_t used = atomic_load_explicit(&call_site_pool_used, memory_order_relaxed);
    return number < used && number < CALL_SITE_POOL ? &call_site_pool[number] : NULL;
}

static struct call_site *resolve(const void *address, struct call_site_bucket *bucket,
                                                       struct call_site_spare *spare)
{
    int saved_errno = errno;
    /* Acquire: pairs with the release in dlclose. The look-up then sees the state after that unloading. */
    uint32_t generation = atomic_load_explicit(&object_unloads, memory_order_acquire);
    struct object *object = object_of(address, generation, &spare->object);
    struct call_site *resolved = NULL;
    if (bucket && object != &spare->object)
        resolved = site_in(bucket, address, object, generation);
    if (!resolved) {
        resolved = &spare->site;
        memset(resolved, 0, sizeof *resolved);
        resolved->offset = (uintptr_t)address - object->base;
        atomic_store_explicit(&resolved->object, object, memory_order_relaxed);
    }
    dlerror(); /* the program must not see this failed look-up */
    errno = saved_errno;
    return resolved;
}

struct call_site *call_site_search(const void *address, struct call_site_spare *spare)
{
    uintptr_t key = (uintptr_t)address;
    uint32_t index = call_site_bucket_of(key);
    for (uint32_t probe = 0; probe < PROBES_MAX; probe++, index = (index + 1) & (CALL_SITES - 1)) {
        struct call_site_bucket *bucket = &call_site_buckets[index];
        /* Relaxed: once set, a key never changes. All the rest is reached through the pointer next to it. */
        uintptr_t found = atomic_load_explicit(&bucket->key, memory_order_relaxed);
        if (!found
            && atomic_compare_exchange_strong_explicit(&bucket->key, &found, key, memory_order_relaxed,
                                                       memory_order_relaxed))
            found = key;
        if (found != key)
            continue;
        /* Acquire: pairs with the release in resolve. */
        struct call_site *site = atomic_load_explicit(&bucket->site, memory_order_acquire);
        /* Relaxed: dlclose has returned before code of another object can call from the same address. */
        if (__builtin_expect(
                site
                    && atomic_load_explicit(&site->generation, memory_order_relaxed)
                           == atomic_load_explicit(&object_unloads, memory_order_relaxed),
                1))
            return site;
        return resolve(address, bucket, spare);
    }
    return resolve(address, NULL, spare);
}
