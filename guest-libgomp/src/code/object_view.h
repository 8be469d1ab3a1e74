/* A loaded object's bytes and names. */
#ifndef VSCAF_GOMP_OBJECT_VIEW_H
#define VSCAF_GOMP_OBJECT_VIEW_H

#include "code/code_reader.h"

/* Fills `view` from an object's program headers (ElfW(Phdr)). They tell only the size of its thread data. */
void object_view(struct code_view *view, uintptr_t base, const void *headers, size_t count);

/* How many bytes of code can be read from `address` on. */
size_t object_code_bytes(const struct code_view *view, uintptr_t address);

/* Copies `bytes` from the object. False: some of them are outside it. */
bool object_read(const struct code_view *view, uintptr_t address, void *to, size_t bytes);

/* What a slot of the global offset table refers to. */
struct object_reference {
    unsigned type;     /* type of the relocation; 0: there is none */
    const char *name;  /* name of the symbol, "" if it has none */
    bool defined_here; /* the symbol, if any, is defined in this object */
    uint64_t value;    /* if `defined_here`: the symbol's value plus the addend, without the load address */
};

struct object_reference object_reference_at(const struct code_view *view, uintptr_t slot);

/* True if the object has a relocation of that type. */
bool object_has_relocation(const struct code_view *view, unsigned type);

#endif
