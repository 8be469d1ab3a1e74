/* Which symbols the dynamic linker binds for an object, by name and version. They tell the object's runtime if one
 * scope has several: gcc's code wants omp_get_max_threads of version OMP_1.0, clang's wants its version VERSION. */
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

/* NULL: the reference has no version. Valid only during the visit. */
const char *reference_version(const struct reference *reference);

/* Returns true when it has seen enough. */
typedef bool reference_visitor(const struct reference *reference, void *argument);

/* Visits the symbols of the object's relocations, those of calls first. A symbol may come twice. */
void references_visit(const struct link_map *map, reference_visitor *visit, void *argument);

#endif
