/* A loaded object's bytes and names, for reading its code. */
#ifndef VSCAF_GOMP_OBJECT_VIEW_H
#define VSCAF_GOMP_OBJECT_VIEW_H

#include "code/code_reader.h"

/* Fills `view` from an object's program headers (ElfW(Phdr)), as far as they go: of thread data the size alone. */
void object_view(struct code_view *view, uintptr_t base, const void *headers, size_t count);

/* How many bytes of code can be read from `address` on. */
size_t object_code_left(const struct code_view *view, uintptr_t address);

/* Copies `bytes` from the object. False: not all of them lie in it. */
bool object_read(const struct code_view *view, uintptr_t address, void *to, size_t bytes);

/* What a slot of the global offset table refers to. */
struct object_reference {
    unsigned type;     /* of the relocation; 0: there is none */
    const char *name;  /* of the symbol, "" where it has none */
    bool here;         /* the symbol, if any, is defined in this object */
    uint64_t value;    /* symbol's value plus addend, where `here`: not yet moved by the load address */
};

struct object_reference object_reference_at(const struct code_view *view, uintptr_t slot);

/* Whether the object has any relocation of that type. */
bool object_has_relocation(const struct code_view *view, unsigned type);

#endif
