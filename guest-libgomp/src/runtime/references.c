#include "runtime/references.h"

#include <elf.h>
#include <stdint.h>

#include "elf/loaded.h"

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF ELF64_R_SYM
#else
#define SYMBOL_OF ELF32_R_SYM
#endif

const char *reference_version(const struct reference *reference)
{
    const struct loaded_dynamic *dynamic = reference->object;
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

static bool visit_table(const struct loaded_dynamic *dynamic, const char *table, size_t bytes, size_t entry_bytes,
                        reference_visitor *visit, void *argument)
{
    for (size_t at = 0; table && at + entry_bytes <= bytes; at += entry_bytes) {
        /* r_info is at the same place with and without an addend. */
        size_t symbol = SYMBOL_OF(((const ElfW(Rel) *)(const void *)(table + at))->r_info);
        struct reference reference = {dynamic->strings + dynamic->symbols[symbol].st_name, dynamic, symbol};
        if (symbol && visit(&reference, argument))
            return true;
    }
    return false;
}

void references_visit(const struct link_map *map, reference_visitor *visit, void *argument)
{
    struct loaded_dynamic dynamic = loaded_dynamic_of(map->l_ld, map->l_ld ? SIZE_MAX : 0, map->l_addr);
    if (!dynamic.symbols || !dynamic.strings)
        return;
    size_t relative = dynamic.data_relative * sizeof(ElfW(Rela)); /* these come first and name no symbol */
    if (!dynamic.data || relative > dynamic.data_bytes)
        relative = 0;
    if (!visit_table(&dynamic, dynamic.calls, dynamic.calls_bytes,
                     dynamic.calls_have_addends ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel)), visit, argument))
        visit_table(&dynamic, dynamic.data + relative, dynamic.data_bytes - relative, sizeof(ElfW(Rela)), visit,
                    argument);
}
