/* Loaded objects, and the runtime to which the dynamic linker bound each. */
#ifndef VSCAF_GOMP_OBJECT_H
#define VSCAF_GOMP_OBJECT_H

#include <stdatomic.h>
#include <stdint.h>

#include "elf/loaded.h"
#include "runtime/runtime.h"

/* A loaded object (the program or a library). Constant once it is visible, except `generation`. */
struct object {
    _Atomic uint32_t generation; /* value of object_unloads when this was last found true */
    const void *map;             /* its link map; only compared */
    uintptr_t base;              /* load address: added to the addresses in the file */
    uint64_t build_id;           /* its first 8 bytes, big-endian as tools print it; 0: the object has none */
    uint64_t file;               /* of an object without a build-id that may be unloaded; only compared */
    struct runtime runtime;
};

/* The object that holds `address`, at this number of unloadings. If the table is full, fills and returns `spare`. Cold:
 * it takes the dynamic linker's lock. Leaves a pending dlerror(). */
struct object *object_of(const void *address, uint32_t unloads, struct object *spare);

/* The C library's dlclose, which the shim interposes. */
int object_close(void *handle);

/* Call it after something may have been unloaded. */
void object_check_unloads(void);

#endif
