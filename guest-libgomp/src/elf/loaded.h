/* Reads the headers of a loaded object. */
#ifndef VSCAF_GOMP_LOADED_H
#define VSCAF_GOMP_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Grows when an object may have been unloaded. Anything resolved before is then checked again. Hidden, so that the hot
 * path loads it without the global offset table. */
extern _Atomic uint32_t object_unloads __attribute__((visibility("hidden")));

/* The segment that contains `address`; NULL: none of the object's segments does. */
const ElfW(Phdr) *loaded_segment_at(const struct dl_phdr_info *info, uintptr_t address);

/* The parts of a dynamic section that tell what the object defines and refers to. NULL and 0: the object has no such
 * part. */
struct loaded_dynamic {
    const ElfW(Sym) *symbols;
    const char *strings;
    size_t strings_bytes;
    const ElfW(Half) *versions; /* of each symbol */
    const char *needed;         /* the versions that it needs */
    size_t needed_count;
    const char *calls, *data;   /* relocations; those of data have addends */
    size_t calls_bytes, data_bytes;
    size_t data_relative;       /* index of the first data relocation that names no symbol */
    bool calls_have_addends;
    uintptr_t plt_got;
    const uint32_t *hash, *gnu_hash; /* tables of the symbols that it defines */
};

/* Reads at most `count` entries. `base`: the load address. */
struct loaded_dynamic loaded_dynamic_of(const ElfW(Dyn) *entries, size_t count, uintptr_t base);

/* The hash of a symbol in tables of the GNU format. */
uint32_t loaded_symbol_hash(const char *name);

/* Whether the object defines the symbol. `dynamic` must have a table of the GNU format. */
bool loaded_defines(const struct loaded_dynamic *dynamic, const char *name, uint32_t hash);

#endif
