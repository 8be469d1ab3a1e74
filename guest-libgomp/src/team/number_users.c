#include "team/number_users.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

#include "elf/loaded.h"
#include "runtime/references.h"

#define USERS_MAX 16u

struct users {
    unsigned long long loads, unloads; /* of objects, when these were found */
    size_t count;                      /* above USERS_MAX: not all are listed */
    uintptr_t bases[USERS_MAX];
};

/* The last result that this thread has found. */
static _Thread_local struct users known __attribute__((tls_model("initial-exec")));

static bool asks_number(const struct reference *reference, void *argument)
{
    bool *asks = argument;
    *asks = reference->object->symbols[reference->symbol].st_shndx == SHN_UNDEF
            && (!strcmp(reference->name, "omp_get_thread_num") || !strcmp(reference->name, "omp_get_thread_num_"));
    return *asks;
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
    bool *building = argument; /* `known` was found to be old */
    bool counted = size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
    if (!*building) {
        if (counted && known.loads == info->dlpi_adds && known.unloads == info->dlpi_subs)
            return 1;
        *building = true;
        known = (struct users){.loads = counted ? info->dlpi_adds : 0, .unloads = counted ? info->dlpi_subs : 0};
    }
    struct link_map map = {.l_addr = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    bool asks = false;
    references_visit(&map, asks_number, &asks);
    if (asks) {
        if (known.count < USERS_MAX)
            known.bases[known.count] = info->dlpi_addr;
        known.count++;
    }
    return 0;
}

struct number_users number_users_beside(uintptr_t base)
{
    bool building = false;
    dl_iterate_phdr(visit, &building);
    struct number_users users = {.own = known.count > USERS_MAX, .others = known.count > USERS_MAX};
    for (size_t i = 0; i < known.count && i < USERS_MAX; i++) {
        users.own |= known.bases[i] == base;
        users.others |= known.bases[i] != base;
    }
    return users;
}
