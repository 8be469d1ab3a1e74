#include "elf/loaded.h"

#include <string.h>

_Atomic uint32_t object_unloads = 1;

const ElfW(Phdr) *loaded_segment_at(const struct dl_phdr_info *info, uintptr_t address)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && address - info->dlpi_addr - segment->p_vaddr < segment->p_memsz)
            return segment;
    }
    return NULL;
}

struct loaded_dynamic loaded_dynamic_of(const ElfW(Dyn) *entries, size_t count, uintptr_t base)
{
    struct loaded_dynamic found = {0};
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uintptr_t value = entries[i].d_un.d_val;
        /* glibc adds the load address on most machines, other C libraries on none. */
        const void *pointer = (const void *)(value < base ? value + base : value);
        switch (entries[i].d_tag) {
        case DT_SYMTAB: found.symbols = pointer; break;
        case DT_STRTAB: found.strings = pointer; break;
        case DT_STRSZ: found.strings_bytes = value; break;
        case DT_VERSYM: found.versions = pointer; break;
        case DT_VERNEED: found.needed = pointer; break;
        case DT_VERNEEDNUM: found.needed_count = value; break;
        case DT_JMPREL: found.calls = pointer; break;
        case DT_PLTRELSZ: found.calls_bytes = value; break;
        case DT_PLTREL: found.calls_have_addends = value == DT_RELA; break;
        case DT_RELA: found.data = pointer; break;
        case DT_RELASZ: found.data_bytes = value; break;
        case DT_RELACOUNT: found.data_relative = value; break;
        case DT_HASH: found.hash = pointer; break;
        case DT_GNU_HASH: found.gnu_hash = pointer; break;
        case DT_PLTGOT: found.plt_got = (uintptr_t)pointer; break;
        default: break;
        }
    }
    return found;
}

uint32_t loaded_symbol_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

bool loaded_defines(const struct loaded_dynamic *dynamic, const char *name, uint32_t hash)
{
    const uint32_t *head = dynamic->gnu_hash;
    uint32_t buckets = head[0], first = head[1], words = head[2], shift = head[3];
    const ElfW(Addr) *filter = (const void *)(head + 4);
    const uint32_t *bucket = (const void *)(filter + words), *chain = bucket + buckets;
    uint32_t bits = 8 * sizeof *filter;
    if (!buckets || !words)
        return false;
    ElfW(Addr) word = filter[hash / bits % words];
    if (!(word >> hash % bits & word >> (hash >> shift) % bits & 1))
        return false;
    uint32_t index = bucket[hash % buckets];
    if (index < first)
        return false;
    for (;; index++) {
        uint32_t entry = chain[index - first]; /* a hash; its lowest bit marks the end of the chain */
        const ElfW(Sym) *symbol = &dynamic->symbols[index];
        if ((entry | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF
            && !strcmp(dynamic->strings + symbol->st_name, name))
            return true;
        if (entry & 1)
            return false;
    }
}
