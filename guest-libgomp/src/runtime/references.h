/* Which symbols an object has the dynamic linker bind, by name and version: what tells its runtime where several lie
 * in one scope (gcc's code wants omp_get_max_threads of version OMP_1.0, clang's wants its version VERSION). */
#ifndef VSCAF_GOMP_REFERENCES_H
#define VSCAF_GOMP_REFERENCES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

struct loaded_dynamic;

struct reference {
    const char *name;
    const struct loaded_dynamic *object;
    size_t symbol;
};

/* NULL: a reference without a version. Only during the visit. */
const char *reference_version(const struct reference *reference);

/* True: enough was seen. */
typedef bool reference_visitor(const struct reference *reference, void *argument);

/* Visits the symbols of the object's relocations, calls first; a symbol may come twice. */
void references_visit(const struct link_map *map, reference_visitor *visit, void *argument);

#endif
