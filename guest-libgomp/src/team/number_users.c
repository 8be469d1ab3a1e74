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

/* The last result. The dynamic linker's lock protects it: only the visits below use it. */
static struct users known;

struct search {
    bool building; /* this search has found `known` to be old */
    struct users found;
};

static bool asks_number(const struct reference *reference, void *argument)
{
    bool *asks = argument;
    *asks = reference->object->symbols[reference->symbol].st_shndx == SHN_UNDEF
            && (!strcmp(reference->name, "omp_get_thread_num") || !strcmp(reference->name, "omp_get_thread_num_"));
    return *asks;
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    bool counted = size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs;
    if (!search->building) {
        if (counted && known.loads == info->dlpi_adds && known.unloads == info->dlpi_subs) {
            search->found = known;
            return 1;
        }
        search->building = true;
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
    search->found = known;
    return 0;
}

struct number_users number_users_beside(uintptr_t base)
{
    struct search search = {.building = false};
    dl_iterate_phdr(visit, &search);
    const struct users *found = &search.found;
    struct number_users users = {.own = found->count > USERS_MAX, .others = found->count > USERS_MAX};
    for (size_t i = 0; i < found->count && i < USERS_MAX; i++) {
        users.own |= found->bases[i] == base;
        users.others |= found->bases[i] != base;
    }
    return users;
}
