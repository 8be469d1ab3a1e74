/* Loaded objects, and the runtime that the dynamic linker bound each to. */
#ifndef VSCAF_GOMP_OBJECT_H
#define VSCAF_GOMP_OBJECT_H

#include <stdatomic.h>
#include <stdint.h>

#include "runtime/runtime.h"

/* A loaded object (program or library). Constant once it can be seen, but for `generation`. */
struct object {
    _Atomic uint32_t ready;
    _Atomic uint32_t generation; /* of unloadings at which this was last found true */
    const void *map;             /* its link map: identity only */
    uintptr_t base;              /* load address: what is added to the addresses in the file */
    uint64_t build_id;           /* its first 8 bytes, big-endian as people print it; 0: the object has none */
    struct runtime runtime;
};

/* Grows when an object may have been unloaded: what was resolved before is then checked again. Hidden, so that the hot
 * path loads it without the global offset table. */
extern _Atomic uint32_t object_unloads __attribute__((visibility("hidden")));

/* The object that holds `address`, as it is at this number of unloadings. `spare` is filled and returned where the
 * table is full. Cold: takes the dynamic linker's lock. Leaves a pending dlerror(). */
struct object *object_of(const void *address, uint32_t unloads, struct object *spare);

/* The C library's dlclose, which the shim interposes. */
int object_close(void *handle);

/* To be called after something may have been unloaded. */
void object_look_for_unloads(void);

#endif
