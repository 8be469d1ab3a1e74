#include "runtime/references.h"

#include <elf.h>
#include <stdint.h>

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF ELF64_R_SYM
#else
#define SYMBOL_OF ELF32_R_SYM
#endif

/* The parts of an object's dynamic section that say what it refers to. */
struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions; /* of each symbol; NULL: it has none */
    const char *needed;          /* the versions it needs */
    size_t needed_count;
    const char *calls, *data; /* relocations */
    size_t calls_bytes, data_bytes;
    bool calls_are_rela;
};

static const void *pointer(const struct link_map *map, ElfW(Addr) value)
{
    /* glibc has added the load address on most machines, other C libraries on none. */
    return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static struct dynamic read_dynamic(const struct link_map *map)
{
    struct dynamic found = {0};
    size_t relative = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB: found.symbols = pointer(map, entry->d_un.d_ptr); break;
        case DT_STRTAB: found.strings = pointer(map, entry->d_un.d_ptr); break;
        case DT_VERSYM: found.versions = pointer(map, entry->d_un.d_ptr); break;
        case DT_VERNEED: found.needed = pointer(map, entry->d_un.d_ptr); break;
        case DT_VERNEEDNUM: found.needed_count = entry->d_un.d_val; break;
        case DT_JMPREL: found.calls = pointer(map, entry->d_un.d_ptr); break;
        case DT_PLTRELSZ: found.calls_bytes = entry->d_un.d_val; break;
        case DT_PLTREL: found.calls_are_rela = entry->d_un.d_val == DT_RELA; break;
        case DT_RELA: found.data = pointer(map, entry->d_un.d_ptr); break;
        case DT_RELASZ: found.data_bytes = entry->d_un.d_val; break;
        case DT_RELACOUNT: relative = entry->d_un.d_val * sizeof(ElfW(Rela)); break;
        default: break;
        }
    }
    if (found.data && relative <= found.data_bytes) {
        found.data += relative; /* these come first and name no symbol */
        found.data_bytes -= relative;
    }
    return found;
}

const char *reference_version(const struct reference *reference)
{
    const struct dynamic *dynamic = reference->object;
    if (!dynamic->versions || !dynamic->needed || dynamic->symbols[reference->symbol].st_shndx != SHN_UNDEF)
        return NULL;
    unsigned index = dynamic->versions[reference->symbol] & 0x7fffu;
    const char *at = dynamic->needed;
    for (size_t i = 0; i < dynamic->needed_count; i++) {
        const ElfW(Verneed) *library = (const void *)at;
        const char *part = at + library->vn_aux;
        for (unsigned j = 0; j < library->vn_cnt; j++) {
            const ElfW(Vernaux) *version = (const void *)part;
            if (version->vna_other == index)
                return dynamic->strings + version->vna_name;
            part += version->vna_next;
        }
        at += library->vn_next;
    }
    return NULL;
}

static bool visit_table(const struct dynamic *dynamic, const char *table, size_t bytes, size_t entry_bytes,
                        reference_visitor *visit, void *argument)
{
    for (size_t at = 0; table && at + entry_bytes <= bytes; at += entry_bytes) {
        /* r_info lies at the same place with and without an addend. */
        size_t symbol = SYMBOL_OF(((const ElfW(Rel) *)(const void *)(table + at))->r_info);
        struct reference reference = {dynamic->strings + dynamic->symbols[symbol].st_name, dynamic, symbol};
        if (symbol && visit(&reference, argument))
            return true;
    }
    return false;
}

void references_visit(const struct link_map *map, reference_visitor *visit, void *argument)
{
    struct dynamic dynamic = read_dynamic(map);
    if (!dynamic.symbols || !dynamic.strings)
        return;
    if (!visit_table(&dynamic, dynamic.calls, dynamic.calls_bytes,
                     dynamic.calls_are_rela ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel)), visit, argument))
        visit_table(&dynamic, dynamic.data, dynamic.data_bytes, sizeof(ElfW(Rela)), visit, argument);
}
