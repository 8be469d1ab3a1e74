#include "elf_file.h"

#include <stdlib.h>
#include <string.h>

static bool inside(size_t size, uint64_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

const unsigned char *elf_at(const struct elf_file *file, uint64_t address, size_t count)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz
            && count <= segment->p_filesz - (address - segment->p_vaddr))
            return file->bytes + segment->p_offset + (address - segment->p_vaddr);
    }
    return NULL;
}

static const Elf64_Phdr *segment_of(const struct elf_file *file, uint64_t address)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_memsz)
            return segment;
    }
    return NULL;
}

size_t elf_code_bytes(const struct elf_file *file, uint64_t address)
{
    const Elf64_Phdr *segment = segment_of(file, address);
    if (segment == NULL || !(segment->p_flags & PF_X) || (segment->p_flags & PF_W)
        || address - segment->p_vaddr >= segment->p_filesz)
        return 0;
    return segment->p_filesz - (address - segment->p_vaddr);
}

bool elf_is_mapped(const struct elf_file *file, uint64_t address)
{
    return segment_of(file, address) != NULL;
}

bool elf_is_constant(const struct elf_file *file, uint64_t address, size_t count)
{
    const Elf64_Phdr *segment = segment_of(file, address);
    return segment != NULL && elf_at(file, address, count) != NULL && !(segment->p_flags & PF_W)
           && elf_reference_at(file, address).type == 0;
}

uint64_t elf_offset_of(const struct elf_file *file, uint64_t address)
{
    const unsigned char *place = elf_at(file, address, 1);
    return place != NULL ? (uint64_t)(place - file->bytes) : UINT64_MAX;
}

uint64_t elf_address_of(const struct elf_file *file, uint64_t offset)
{
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && offset >= segment->p_offset
            && offset - segment->p_offset < segment->p_filesz)
            return segment->p_vaddr + (offset - segment->p_offset);
    }
    return UINT64_MAX;
}

static const char *name_at(const char *names, size_t bytes, size_t offset)
{
    return names != NULL && offset < bytes && memchr(names + offset, 0, bytes - offset) != NULL ? names + offset : "";
}

struct elf_symbol elf_symbol(const struct elf_file *file, bool dynamic, size_t number)
{
    const unsigned char *table = dynamic ? file->dynamic_symbols : (const unsigned char *)file->symbols;
    if (number >= (dynamic ? file->dynamic_symbol_count : file->symbol_count))
        return (struct elf_symbol){.name = ""};
    Elf64_Sym symbol;
    memcpy(&symbol, table + number * sizeof symbol, sizeof symbol);
    return (struct elf_symbol){
        .name = dynamic ? name_at(file->dynamic_names, file->dynamic_names_bytes, symbol.st_name)
                        : name_at(file->names, file->names_bytes, symbol.st_name),
        .value = symbol.st_value,
        .size = symbol.st_size,
        .type = ELF64_ST_TYPE(symbol.st_info),
        .binding = ELF64_ST_BIND(symbol.st_info),
        .section = symbol.st_shndx,
    };
}

bool elf_data_object(const struct elf_file *file, uint64_t address, uint64_t *start)
{
    for (size_t i = 0; i < file->symbol_count; i++) {
        struct elf_symbol symbol = elf_symbol(file, false, i);
        if (symbol.type == STT_OBJECT && symbol.section != SHN_UNDEF && address >= symbol.value
            && address - symbol.value < symbol.size) {
            *start = symbol.value;
            return true;
        }
    }
    return false;
}

bool elf_tls_object(const struct elf_file *file, uint64_t offset, uint64_t *start, uint64_t *end)
{
    for (size_t i = 0; i < file->symbol_count; i++) {
        struct elf_symbol symbol = elf_symbol(file, false, i);
        if (symbol.type == STT_TLS && symbol.section != SHN_UNDEF && offset >= symbol.value
            && offset - symbol.value < symbol.size && symbol.size <= file->tls_bytes) {
            *start = symbol.value;
            *end = symbol.value + symbol.size;
            return true;
        }
    }
    return false;
}

static int by_address(const void *one, const void *other)
{
    uint64_t left = ((const struct elf_relocation *)one)->address, right = ((const struct elf_relocation *)other)->address;
    return left < right ? -1 : left > right;
}

static int add_relocations(struct elf_file *file, uint64_t address, uint64_t bytes)
{
    size_t count = bytes / sizeof(Elf64_Rela);
    const unsigned char *from = count > 0 ? elf_at(file, address, count * sizeof(Elf64_Rela)) : NULL;
    if (from == NULL)
        return 0;
    struct elf_relocation *all =
        realloc(file->relocations, (file->relocation_count + count) * sizeof *file->relocations);
    if (all == NULL)
        return -1;
    file->relocations = all;
    for (size_t i = 0; i < count; i++) {
        Elf64_Rela entry;
        memcpy(&entry, from + i * sizeof entry, sizeof entry);
        all[file->relocation_count++] = (struct elf_relocation){.address = entry.r_offset,
                                                                .addend = (uint64_t)entry.r_addend,
                                                                .type = (uint32_t)ELF64_R_TYPE(entry.r_info),
                                                                .symbol = (uint32_t)ELF64_R_SYM(entry.r_info)};
    }
    return 0;
}

/* Whether only the dynamic linker writes the word. */
static bool stays(const struct elf_file *file, const struct elf_relocation *relocation)
{
    switch (relocation->type) {
    case R_X86_64_GLOB_DAT: case R_X86_64_JUMP_SLOT: case R_X86_64_DTPMOD64: case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64: case R_X86_64_TLSDESC:
        return true; /* of tables that linkers make */
    case R_X86_64_RELATIVE: case R_X86_64_64: case R_X86_64_IRELATIVE: {
        const Elf64_Phdr *segment = segment_of(file, relocation->address);
        uint64_t end = file->relro_end & ~UINT64_C(4095); /* whole pages are protected */
        bool protected = relocation->address >= file->relro_start && relocation->address < end && end - relocation->address >= 8;
        return segment != NULL && (!(segment->p_flags & PF_W) || protected);
    }
    default: return false; /* what is copied there is data */
    }
}

struct elf_reference elf_reference_at(const struct elf_file *file, uint64_t address)
{
    size_t low = 0, high = file->relocation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (file->relocations[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == file->relocation_count || file->relocations[low].address != address)
        return (struct elf_reference){.name = ""};
    const struct elf_relocation *relocation = &file->relocations[low];
    struct elf_reference reference = {
        .type = relocation->type, .name = "", .value = relocation->addend, .stays = stays(file, relocation)};
    if (relocation->symbol == 0) {
        /* Of IRELATIVE the value is that of a function that chooses another one. */
        reference.defined_here = relocation->type != R_X86_64_IRELATIVE;
    } else {
        struct elf_symbol symbol = elf_symbol(file, true, relocation->symbol);
        reference.name = symbol.name;
        reference.defined_here = symbol.section != SHN_UNDEF && symbol.type != STT_GNU_IFUNC;
        reference.function = symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
        reference.value += symbol.value;
    }
    return reference;
}

/* The number of dynamic symbols stands only in the hash tables. */
static size_t dynamic_symbol_count(const struct elf_file *file, uint64_t hash, uint64_t gnu_hash, uint64_t symbols,
                                   uint64_t strings)
{
    const unsigned char *words = hash ? elf_at(file, hash, 8) : NULL;
    uint32_t word;
    if (words != NULL) {
        memcpy(&word, words + 4, sizeof word);
        return word;
    }
    (void)gnu_hash;
    /* The linkers put the names behind the symbols. */
    return strings > symbols ? (size_t)((strings - symbols) / sizeof(Elf64_Sym)) : 0;
}

static int read_dynamic(struct elf_file *file, const Elf64_Phdr *dynamic)
{
    uint64_t rela = 0, rela_bytes = 0, plt = 0, plt_bytes = 0, symbols = 0, strings = 0, strings_bytes = 0, hash = 0,
             gnu_hash = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
        const unsigned char *from = elf_at(file, dynamic->p_vaddr + at, sizeof(Elf64_Dyn));
        Elf64_Dyn entry;
        if (from == NULL)
            break;
        memcpy(&entry, from, sizeof entry);
        switch (entry.d_tag) {
        case DT_NULL: at = dynamic->p_filesz; break;
        case DT_RELA: rela = entry.d_un.d_ptr; break;
        case DT_RELASZ: rela_bytes = entry.d_un.d_val; break;
        case DT_JMPREL: plt = entry.d_un.d_ptr; break;
        case DT_PLTRELSZ: plt_bytes = entry.d_un.d_val; break;
        case DT_SYMTAB: symbols = entry.d_un.d_ptr; break;
        case DT_STRTAB: strings = entry.d_un.d_ptr; break;
        case DT_STRSZ: strings_bytes = entry.d_un.d_val; break;
        case DT_HASH: hash = entry.d_un.d_ptr; break;
        case DT_GNU_HASH: gnu_hash = entry.d_un.d_ptr; break;
        default: break;
        }
    }
    size_t count = dynamic_symbol_count(file, hash, gnu_hash, symbols, strings);
    if (count < file->size / sizeof(Elf64_Sym)
        && (file->dynamic_symbols = elf_at(file, symbols, count * sizeof(Elf64_Sym))) != NULL)
        file->dynamic_symbol_count = count;
    if ((file->dynamic_names = (const char *)elf_at(file, strings, strings_bytes)) != NULL)
        file->dynamic_names_bytes = strings_bytes;
    if (rela_bytes > file->size || plt_bytes > file->size)
        return 0;
    if (add_relocations(file, rela, rela_bytes) < 0 || add_relocations(file, plt, plt_bytes) < 0)
        return -1;
    if (file->relocation_count > 0)
        qsort(file->relocations, file->relocation_count, sizeof *file->relocations, by_address);
    return 0;
}

static void read_sections(struct elf_file *file, const Elf64_Ehdr *header)
{
    if (header->e_shentsize != sizeof(Elf64_Shdr)
        || !inside(file->size, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr)))
        return;
    for (size_t i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section, strings;
        memcpy(&section, file->bytes + header->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_SYMTAB || section.sh_link >= header->e_shnum
            || !inside(file->size, section.sh_offset, section.sh_size))
            continue;
        memcpy(&strings, file->bytes + header->e_shoff + section.sh_link * sizeof strings, sizeof strings);
        if (!inside(file->size, strings.sh_offset, strings.sh_size))
            continue;
        file->symbols = (const Elf64_Sym *)(const void *)(file->bytes + section.sh_offset);
        file->symbol_count = section.sh_size / sizeof(Elf64_Sym);
        file->names = (const char *)file->bytes + strings.sh_offset;
        file->names_bytes = strings.sh_size;
        return;
    }
}

int elf_open(struct elf_file *file, const void *bytes, size_t size)
{
    Elf64_Ehdr header;
    const Elf64_Phdr *dynamic = NULL;
    *file = (struct elf_file){.bytes = bytes, .size = size};
    if (size < sizeof header)
        return 1;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64
        || header.e_ident[EI_DATA] != ELFDATA2LSB || (header.e_type != ET_EXEC && header.e_type != ET_DYN)
        || (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)
        || header.e_phentsize != sizeof(Elf64_Phdr)
        || !inside(size, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr)))
        return 1;
    file->machine = header.e_machine;
    file->fixed = header.e_type == ET_EXEC;
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, file->bytes + header.e_phoff + i * sizeof segment, sizeof segment);
        bool load = segment.p_type == PT_LOAD;
        if (segment.p_type == PT_TLS) {
            file->has_tls = segment.p_memsz > 0;
            file->tls_bytes = segment.p_memsz;
            file->tls_align = segment.p_align;
        }
        if (segment.p_type == PT_GNU_RELRO) {
            file->relro_start = segment.p_vaddr;
            file->relro_end = segment.p_vaddr + segment.p_memsz;
        }
        if (!load && segment.p_type != PT_DYNAMIC)
            continue;
        if (file->segment_count == ELF_SEGMENTS_MAX || !inside(size, segment.p_offset, segment.p_filesz)
            || segment.p_filesz > segment.p_memsz || segment.p_vaddr + segment.p_memsz < segment.p_vaddr)
            return 1;
        file->segments[file->segment_count++] = segment;
    }
    for (size_t i = 0; i < file->segment_count; i++)
        if (file->segments[i].p_type == PT_DYNAMIC)
            dynamic = &file->segments[i];
    if (dynamic != NULL && read_dynamic(file, dynamic) < 0) {
        elf_close(file);
        return -1;
    }
    read_sections(file, &header);
    return 0;
}

void elf_close(struct elf_file *file)
{
    free(file->relocations);
    file->relocations = NULL;
    file->relocation_count = 0;
}
