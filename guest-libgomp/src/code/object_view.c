#include "code/object_view.h"

#include <link.h>
#include <string.h>

#include "elf/loaded.h"

static bool within(const struct code_range *ranges, size_t count, uintptr_t address, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (address >= ranges[i].start && address < ranges[i].end && bytes <= ranges[i].end - address)
            return true;
    return false;
}

size_t object_code_bytes(const struct code_view *view, uintptr_t address)
{
    for (size_t i = 0; i < view->code_count; i++)
        if (address >= view->code[i].start && address < view->code[i].end)
            return view->code[i].end - address;
    return 0;
}

bool object_read(const struct code_view *view, uintptr_t address, void *to, size_t bytes)
{
    if (!within(view->data, view->data_count, address, bytes))
        return false;
    memcpy(to, (const void *)address, bytes);
    return true;
}

#if defined(__x86_64__) && defined(__LP64__)

static struct object_reference reference_of(const struct code_view *view, const Elf64_Rela *relocation)
{
    struct object_reference found = {.type = (unsigned)ELF64_R_TYPE(relocation->r_info), .name = ""};
    size_t index = ELF64_R_SYM(relocation->r_info);
    if (!index) {
        found.defined_here = true;
        found.value = (uint64_t)relocation->r_addend;
        return found;
    }
    Elf64_Sym symbol;
    if (!view->symbols
        || !object_read(view, (uintptr_t)view->symbols + index * sizeof symbol, &symbol, sizeof symbol))
        return found;
    if (symbol.st_name < view->strings_bytes)
        found.name = view->strings + symbol.st_name;
    found.defined_here = symbol.st_shndx != SHN_UNDEF;
    found.value = symbol.st_value + (uint64_t)relocation->r_addend;
    return found;
}

struct object_reference object_reference_at(const struct code_view *view, uintptr_t slot)
{
    const Elf64_Rela *plt = view->relocations[1];
    uint64_t offset = slot - view->base;
    if (plt && view->plt_got) {
        /* The slots of the stubs mostly have the order of their relocations. The linker's own three slots come
         * first. */
        size_t guess = (slot - view->plt_got) / sizeof(uintptr_t) - 3;
        if (guess < view->relocation_counts[1] && plt[guess].r_offset == offset)
            return reference_of(view, plt + guess);
    }
    for (int table = 1; table >= 0; table--) {
        const Elf64_Rela *relocations = view->relocations[table];
        for (size_t i = table ? 0 : view->relocations_relative; relocations && i < view->relocation_counts[table]; i++)
            if (relocations[i].r_offset == offset)
                return reference_of(view, relocations + i);
    }
    return (struct object_reference){.name = ""};
}

bool object_has_relocation(const struct code_view *view, unsigned type)
{
    for (int table = 0; table < 2; table++) {
        const Elf64_Rela *relocations = view->relocations[table];
        for (size_t i = 0; relocations && i < view->relocation_counts[table]; i++)
            if (ELF64_R_TYPE(relocations[i].r_info) == type)
                return true;
    }
    return false;
}

struct search {
    uintptr_t address;
    struct code_view *view;
};

static void read_dynamic(struct code_view *view, const Elf64_Dyn *entries, size_t count)
{
    struct loaded_dynamic dynamic = loaded_dynamic_of(entries, count, view->base);
    view->relocations[0] = dynamic.data;
    view->relocation_counts[0] = dynamic.data_bytes / sizeof(Elf64_Rela);
    view->relocations_relative = dynamic.data_relative;
    view->relocations[1] = dynamic.calls;
    view->relocation_counts[1] = dynamic.calls_bytes / sizeof(Elf64_Rela);
    view->plt_got = dynamic.plt_got;
    view->symbols = dynamic.symbols;
    view->strings = dynamic.strings;
    view->strings_bytes = dynamic.strings_bytes;
    for (int table = 0; table < 2; table++)
        if (!within(view->data, view->data_count, (uintptr_t)view->relocations[table],
                    view->relocation_counts[table] * sizeof(Elf64_Rela))) {
            view->relocations[table] = NULL;
            view->relocation_counts[table] = 0;
        }
    if (!within(view->data, view->data_count, (uintptr_t)view->strings, view->strings_bytes))
        view->strings_bytes = 0;
}

void object_view(struct code_view *view, uintptr_t base, const void *headers, size_t count)
{
    const ElfW(Phdr) *segments = headers, *dynamic = NULL;
    *view = (struct code_view){.base = base};
    for (size_t i = 0; i < count; i++) {
        const ElfW(Phdr) *segment = &segments[i];
        struct code_range range = {base + segment->p_vaddr, base + segment->p_vaddr + segment->p_memsz};
        if (segment->p_type == PT_DYNAMIC)
            dynamic = segment;
        if (segment->p_type == PT_TLS)
            view->tls_bytes = segment->p_memsz;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R))
            continue;
        if (view->data_count < DATA_RANGES)
            view->data[view->data_count++] = range;
        if (segment->p_flags & PF_X && view->code_count < CODE_RANGES)
            view->code[view->code_count++] = range;
    }
    if (dynamic)
        read_dynamic(view, (const Elf64_Dyn *)(base + dynamic->p_vaddr), dynamic->p_memsz / sizeof(Elf64_Dyn));
}

static int fill_view(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    if (!loaded_segment_at(info, search->address))
        return 0;
    struct code_view *view = search->view;
    object_view(view, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    if (view->tls_bytes && size >= offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data) {
        view->tls_module = info->dlpi_tls_modid;
        /* The program's thread data is at a fixed place below the thread pointer, and the program refers to it by that
         * distance. Libraries have a relocation that says what they refer to. */
        if (info->dlpi_tls_data && (!info->dlpi_name || !info->dlpi_name[0])) {
            uintptr_t thread_pointer;
            __asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
            view->tls_offset = (intptr_t)((uintptr_t)info->dlpi_tls_data - thread_pointer);
        }
    }
    return 1;
}

bool code_view_of(const void *address, struct code_view *view)
{
    struct search search = {.address = (uintptr_t)address, .view = view};
    return dl_iterate_phdr(fill_view, &search) == 1;
}

#else

struct search {
    uintptr_t address;
    struct code_view *view;
};

static int fill_view(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;
    if (!loaded_segment_at(info, search->address))
        return 0;
    *search->view = (struct code_view){.base = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            search->view->tls_bytes = info->dlpi_phdr[i].p_memsz;
    return 1;
}

bool code_view_of(const void *address, struct code_view *view)
{
    struct search search = {.address = (uintptr_t)address, .view = view};
    return dl_iterate_phdr(fill_view, &search) == 1;
}

#endif
