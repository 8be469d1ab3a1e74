#include "runtime/object.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/loaded.h"
#include "join/program.h"
#include "runtime/references.h"
#include "runtime/stand_ins.h"

/* Never freed, because call sites point to them. Programs that compile code while they run load hundreds. There are
 * four times as many call sites, so these mostly run out first. */
#define OBJECTS 1024u
#define OBJECTS_LISTED 1024u

static struct object objects[OBJECTS];
static _Atomic uint32_t objects_used;
static _Atomic uint64_t unloads_seen;

int object_close(void *handle)
{
    static _Atomic(void *) known;
    /* Relaxed: it points to code of libc, which never changes. */
    void *found = atomic_load_explicit(&known, memory_order_relaxed);
    if (!found) {
        found = dlsym(RTLD_NEXT, "dlclose");
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    int (*real)(void *);
    memcpy(&real, &found, sizeof real);
    return real ? real(handle) : -1;
}

/* The object that holds `address`; NULL: none. */
static const struct link_map *map_of(const void *address)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
    /* Takes no lock. So a team can work while a constructor holds the loader's lock. Does not look for a symbol, as
     * dladdr does, which takes long for a large library. */
    struct dl_find_object found;
    return _dl_find_object((void *)(uintptr_t)address, &found) == 0 ? found.dlfo_link_map : NULL;
#else
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
#endif
}

/* The symbol in this version (NULL: in the default one). NULL if it is the shim's own. */
static void *foreign_symbol_in(void *handle, const char *symbol, const char *version)
{
    static const char here;
    void *found = version ? dlvsym(handle, symbol, version) : dlsym(handle, symbol);
    return found && map_of(found) != map_of(&here) ? found : NULL;
}

static void *foreign_symbol(void *handle, const char *symbol)
{
    return foreign_symbol_in(handle, symbol, NULL);
}

/* A handle of the object that holds `address`, without loading anything; NULL if there is none. */
static void *handle_of(const void *address)
{
    const struct link_map *map = map_of(address);
    if (!map)
        return NULL;
    if (!map->l_name || !map->l_name[0])
        return dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    return dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

/* Number of objects that the program was started with. They were all loaded before their references were bound, so the
 * order of loading did not matter for these. */
static _Atomic uint32_t objects_at_start;

static int count_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info, (void)size;
    ++*(uint32_t *)argument;
    return 0;
}

/* Runs early, or at the first use if another object's constructor comes before. No object was added until then. */
__attribute__((constructor(101))) static void count_at_start(void)
{
    uint32_t count = 0;
    /* Relaxed: it is only a number, and each thread would count the same. */
    if (atomic_load_explicit(&objects_at_start, memory_order_relaxed))
        return;
    dl_iterate_phdr(count_object, &count);
    atomic_store_explicit(&objects_at_start, count, memory_order_relaxed);
}

/* What dl_iterate_phdr tells, in loading order. */
struct survey {
    uintptr_t caller;
    uintptr_t global; /* the symbol in the global scope; 0: none */
    uintptr_t caller_base;
    uint64_t build_id;
    bool caller_is_program;
    bool caller_found;
    bool caller_from_start;
    bool global_found_first; /* its object came before the caller's, or was there from the start */
    uint64_t unloads;
    uint32_t seen;
    uint32_t listed;
    uintptr_t code[OBJECTS_LISTED]; /* one address in each object */
};

static uint64_t note_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * segment)
{
    const unsigned char *note = (const unsigned char *)(info->dlpi_addr + segment->p_vaddr);
    size_t left = segment->p_memsz;
    /* Descriptors are padded to the segment's alignment: 4 for build-ids, 8 for .note.gnu.property. */
    size_t align = segment->p_align == 8 ? 8 : 4;
    while (left >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, note, sizeof head);
        size_t description = (sizeof head + head.n_namesz + align - 1) & ~(align - 1);
        size_t whole = (description + head.n_descsz + align - 1) & ~(align - 1);
        if (whole > left)
            break;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && head.n_descsz >= 8
            && !memcmp(note + sizeof head, "GNU", 4)) {
            uint64_t id = 0;
            for (size_t i = 0; i < 8; i++)
                id = id << 8 | note[description + i];
            return id;
        }
        note += whole;
        left -= whole;
    }
    return 0;
}

static int survey_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct survey *survey = argument;
    (void)size;
    survey->unloads = info->dlpi_subs;
    bool from_start = survey->seen++ < atomic_load_explicit(&objects_at_start, memory_order_relaxed);
    if (survey->global && loaded_segment_at(info, survey->global) && (from_start || !survey->caller_found))
        survey->global_found_first = true;
    if (!survey->caller_found && loaded_segment_at(info, survey->caller)) {
        survey->caller_found = true;
        survey->caller_from_start = from_start;
        survey->caller_base = info->dlpi_addr;
        survey->caller_is_program = !info->dlpi_name || !info->dlpi_name[0];
        for (size_t i = 0; i < info->dlpi_phnum && !survey->build_id; i++)
            if (info->dlpi_phdr[i].p_type == PT_NOTE)
                survey->build_id = note_build_id(info, &info->dlpi_phdr[i]);
    }
    for (size_t i = 0; i < info->dlpi_phnum && survey->listed < OBJECTS_LISTED; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            survey->code[survey->listed++] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            break;
        }
    }
    return 0;
}

static void take_survey(struct survey *survey, const void *caller, const void *global)
{
    memset(survey, 0, offsetof(struct survey, code));
    survey->caller = (uintptr_t)caller;
    survey->global = (uintptr_t)global;
    dl_iterate_phdr(survey_object, survey);
}

/* The address to which the dynamic linker bound the object's reference to `symbol`, or would have bound it without the
 * shim. The linker searches the global scope, then the object's own dependencies. A runtime that became global after
 * the object was loaded came too late to be bound. The program, and the libraries that it was started with, use the
 * global scope. */
static const void *find_symbol(const void *address, struct survey *survey, const char *symbol, const char *version)
{
    void *global = foreign_symbol_in(RTLD_NEXT, symbol, version);
    take_survey(survey, address, global);
    if (survey->caller_is_program && global)
        return global;
    void *own = NULL;
    if (survey->caller_found && !survey->caller_is_program) {
        void *handle = handle_of(address);
        if (handle) {
            own = foreign_symbol_in(handle, symbol, version);
            object_close(handle);
        }
    }
    if (own && (!global || !survey->global_found_first))
        return own;
    return global;
}

/* Any runtime, for a caller that has none in reach: its return address belongs to another object (a tail call), or its
 * code belongs to no object. */
static const void *find_any(const struct survey *survey)
{
    for (uint32_t i = 0; i < survey->listed; i++) {
        void *handle = handle_of((const void *)survey->code[i]);
        if (!handle)
            continue;
        void *found = foreign_symbol(handle, "GOMP_parallel");
        object_close(handle);
        if (found)
            return found;
    }
    return NULL;
}

/* An object's symbols come in three families, which can belong to two runtimes: code of gcc and of clang can be linked
 * into one object with both libraries. find_providers finds an address in the runtime of each family; NULL: the object
 * refers to none of the family. */
enum family { FAMILY_KMPC, FAMILY_GOMP, FAMILY_OMP, FAMILIES };

static enum family family_of(const char *symbol)
{
    if (!strncmp(symbol, "__kmpc_", 7))
        return FAMILY_KMPC;
    if (!strncmp(symbol, "GOMP_", 5))
        return FAMILY_GOMP;
    return !strncmp(symbol, "omp_get_", 8) || !strncmp(symbol, "omp_set_", 8) ? FAMILY_OMP : FAMILIES;
}

struct providers {
    const void *address;
    struct survey *survey;
    const void *of[FAMILIES];
};

static bool visit_reference(const struct reference *reference, void *argument)
{
    struct providers *providers = argument;
    enum family family = family_of(reference->name);
    if (family == FAMILIES || providers->of[family])
        return false;
    providers->of[family] =
        find_symbol(providers->address, providers->survey, reference->name, reference_version(reference));
    return providers->of[FAMILY_KMPC] && providers->of[FAMILY_GOMP] && providers->of[FAMILY_OMP];
}

static struct providers find_providers(const void *address, const struct link_map *map, struct survey *survey)
{
    struct providers providers = {.address = address, .survey = survey};
    const void *any = find_symbol(address, survey, "GOMP_parallel", NULL);
    if (map)
        references_visit(map, visit_reference, &providers);
    if (!providers.of[FAMILY_KMPC] && !providers.of[FAMILY_GOMP] && !providers.of[FAMILY_OMP])
        providers.of[FAMILY_GOMP] = any ? any : find_any(survey);
    return providers;
}

struct code_search {
    uintptr_t address, code, code_bytes;
};

static int search_code(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct code_search *search = argument;
    (void)size;
    const ElfW(Phdr) *segment = loaded_segment_at(info, search->address);
    if (!segment)
        return 0;
    search->code = info->dlpi_addr + segment->p_vaddr;
    search->code_bytes = segment->p_memsz;
    return 1;
}

static void fill_runtime(struct runtime *runtime, const struct providers *providers)
{
    void *handles[FAMILIES] = {NULL};
    const void *main_provider = NULL;
    bool single_provider = true;
    for (int i = 0; i < FAMILIES; i++) {
        if (providers->of[i]) {
            handles[i] = handle_of(providers->of[i]);
            if (!main_provider)
                main_provider = providers->of[i];
            single_provider = single_provider && map_of(providers->of[i]) == map_of(main_provider);
        }
    }
    void *main_handle = NULL;
    for (int i = 0; i < FAMILIES && !main_handle; i++)
        main_handle = handles[i];
#define X(member, symbol, type, stand_in)                                                                              \
    do {                                                                                                               \
        void *handle = handles[family_of(symbol)] ? handles[family_of(symbol)] : main_handle;                          \
        void *found = handle ? foreign_symbol(handle, symbol) : NULL;                                                  \
        if (found)                                                                                                     \
            memcpy(&runtime->member, &found, sizeof found);                                                            \
        else                                                                                                           \
            runtime->member = stand_in;                                                                                \
    } while (0);
    VSCAF_RUNTIME_FUNCTIONS(X)
#undef X
    for (int i = 0; i < FAMILIES; i++)
        if (handles[i])
            object_close(handles[i]);
    runtime->kmpc = runtime->fork_call != absent_fork;
    struct code_search search = {.address = (uintptr_t)main_provider};
    if (runtime->kmpc && main_provider)
        dl_iterate_phdr(search_code, &search);
    runtime->code = search.code;
    runtime->code_bytes = search.code_bytes;
    bool resizable = runtime->parallel != serial_parallel
                     || (runtime->push_threads != absent_push_threads
                         && runtime->thread_number != absent_thread_number);
    runtime->manageable = main_handle && single_provider && resizable && runtime->get_level != absent_level
                          && runtime->get_team_size != absent_team_size && runtime->get_max_threads != absent_threads
                          && runtime->get_thread_limit != absent_thread_limit;
    runtime->parallel_allowed = runtime->get_max_active_levels() > 0;
    /* With another team size, places would have no thread, or two threads would share one. */
    if (runtime->get_proc_bind() > 0)
        program_note(VSCAF_PROGRAM_BOUND);
}

#define X(member, symbol, type, stand_in) symbol,
static const char *const runtime_symbols[] = {VSCAF_RUNTIME_FUNCTIONS(X)};
#undef X
#define RUNTIME_SYMBOLS (sizeof runtime_symbols / sizeof runtime_symbols[0])

/* Whether an object other than one that holds a known runtime, and the shim, defines a runtime's symbol. */
struct other_runtime {
    uintptr_t known;
    bool found;
    uint32_t hashes[RUNTIME_SYMBOLS];
};

static bool defines_runtime(const struct loaded_dynamic *dynamic, const uint32_t *hashes)
{
    if (!dynamic->symbols || !dynamic->strings)
        return false;
    if (dynamic->gnu_hash) {
        for (size_t i = 0; i < RUNTIME_SYMBOLS; i++)
            if (loaded_defines(dynamic, runtime_symbols[i], hashes[i]))
                return true;
        return false;
    }
    /* The older format has the number of symbols in its second word. */
    for (uint32_t i = 0; dynamic->hash && i < dynamic->hash[1]; i++)
        if (dynamic->symbols[i].st_shndx != SHN_UNDEF
            && family_of(dynamic->strings + dynamic->symbols[i].st_name) != FAMILIES)
            return true;
    return !dynamic->hash;
}

static int find_other_runtime(struct dl_phdr_info *info, size_t size, void *argument)
{
    static const char here;
    struct other_runtime *other = argument;
    (void)size;
    if (loaded_segment_at(info, other->known) || loaded_segment_at(info, (uintptr_t)&here))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_DYNAMIC)
            continue;
        struct loaded_dynamic dynamic = loaded_dynamic_of((const ElfW(Dyn) *)(info->dlpi_addr + segment->p_vaddr),
                                                          segment->p_memsz / sizeof(ElfW(Dyn)), info->dlpi_addr);
        other->found = other->found || defines_runtime(&dynamic, other->hashes);
    }
    return other->found;
}

/* The runtime of all objects, if a known object has it and no other one is loaded; else NULL. Unlike dlsym this does
 * not take the lock that dlopen holds while a constructor runs. So the threads of a region in a constructor can look
 * up objects that are new to the shim. */
static const struct runtime *only_runtime(uint32_t unloads)
{
    uint32_t used = atomic_load_explicit(&objects_used, memory_order_acquire);
    const struct runtime *runtime = NULL;
    for (uint32_t i = 0; i < used && !runtime; i++)
        if (objects[i].runtime.manageable
            && atomic_load_explicit(&objects[i].generation, memory_order_acquire) == unloads)
            runtime = &objects[i].runtime;
    if (!runtime)
        return NULL;
    struct other_runtime other = {.found = false};
    for (size_t i = 0; i < RUNTIME_SYMBOLS; i++)
        other.hashes[i] = loaded_symbol_hash(runtime_symbols[i]);
    memcpy(&other.known, &runtime->get_level, sizeof other.known);
    dl_iterate_phdr(find_other_runtime, &other);
    return other.found ? NULL : runtime;
}

static uint64_t hashed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* Tells files apart. Another file may be loaded at the same place under the same name: a plugin was built again. */
static uint64_t file_of(const struct link_map *map)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    struct stat status;
    for (const char *name = map->l_name; name && *name; name++)
        hash = hashed(hash, (unsigned char)*name);
    if (!map->l_name || stat(map->l_name, &status) != 0)
        return hash;
    hash = hashed(hashed(hash, (uint64_t)status.st_dev), (uint64_t)status.st_ino);
    hash = hashed(hashed(hash, (uint64_t)status.st_mtim.tv_sec), (uint64_t)status.st_mtim.tv_nsec);
    return hashed(hashed(hash, (uint64_t)status.st_ctim.tv_sec), (uint64_t)status.st_ctim.tv_nsec);
}

/* Compares member by member, because copying need not copy the padding between them. */
static bool same_runtime(const struct runtime *one, const struct runtime *other)
{
#define X(member, symbol, type, stand_in) && one->member == other->member
    return one->manageable == other->manageable && one->parallel_allowed == other->parallel_allowed
           && one->kmpc == other->kmpc && one->code == other->code
           && one->code_bytes == other->code_bytes VSCAF_RUNTIME_FUNCTIONS(X);
#undef X
}

static bool same_object(const struct object *one, const struct object *other)
{
    return one->map == other->map && one->base == other->base && one->build_id == other->build_id
           && one->file == other->file && same_runtime(&one->runtime, &other->runtime);
}

/* An object that was looked up, and its place in the table. NULL: the table is full. */
struct keeping {
    const struct object *found;
    struct object *kept;
};

/* Called by dl_iterate_phdr, which holds the loader's lock. So threads that look an object up at once keep it once. */
static int keep_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct keeping *keeping = argument;
    const struct object *found = keeping->found;
    uint32_t generation = atomic_load_explicit(&found->generation, memory_order_relaxed);
    uint32_t used = atomic_load_explicit(&objects_used, memory_order_acquire);
    (void)info, (void)size;
    for (uint32_t i = 0; i < used && !keeping->kept; i++)
        if (same_object(&objects[i], found))
            keeping->kept = &objects[i];
    if (keeping->kept) {
        /* Release: a thread that sees the new generation sees an object that was compared under it. */
        atomic_store_explicit(&keeping->kept->generation, generation, memory_order_release);
    } else if (used < OBJECTS) {
        struct object *object = keeping->kept = &objects[used];
        object->map = found->map;
        object->base = found->base;
        object->build_id = found->build_id;
        object->file = found->file;
        object->runtime = found->runtime;
        atomic_store_explicit(&object->generation, generation, memory_order_relaxed);
        /* Release: the object was filled before. */
        atomic_store_explicit(&objects_used, used + 1, memory_order_release);
    }
    return 1;
}

struct object *object_of(const void *address, uint32_t unloads, struct object *spare)
{
    const struct link_map *map = map_of(address);
    /* Acquire: pairs with the release in keep_object. */
    uint32_t used = atomic_load_explicit(&objects_used, memory_order_acquire);
    for (uint32_t i = 0; map && i < used; i++)
        if (objects[i].map == map
            && atomic_load_explicit(&objects[i].generation, memory_order_acquire) == unloads)
            return &objects[i];

    struct survey survey;
    count_at_start();
    const struct runtime *only = only_runtime(unloads);
    memset(spare, 0, sizeof *spare);
    if (only) {
        take_survey(&survey, address, NULL);
        spare->runtime = *only;
    } else {
        struct providers providers = find_providers(address, map, &survey);
        fill_runtime(&spare->runtime, &providers);
    }
    spare->map = map;
    spare->base = survey.caller_found ? survey.caller_base : 0;
    spare->build_id = survey.build_id;
    if (map && !survey.build_id && !survey.caller_from_start)
        spare->file = file_of(map);
    atomic_store_explicit(&spare->generation, unloads, memory_order_relaxed);
    struct keeping keeping = {.found = spare};
    dl_iterate_phdr(keep_object, &keeping);
    return keeping.kept ? keeping.kept : spare;
}

static int count_unloads(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    *(uint64_t *)argument = info->dlpi_subs;
    return 1;
}

void object_check_unloads(void)
{
    uint64_t unloads = 0;
    dl_iterate_phdr(count_unloads, &unloads);
    if (atomic_exchange_explicit(&unloads_seen, unloads, memory_order_relaxed) != unloads)
        /* Release: a thread that sees the new number also sees the loader's present lists. */
        atomic_fetch_add_explicit(&object_unloads, 1, memory_order_release);
}
