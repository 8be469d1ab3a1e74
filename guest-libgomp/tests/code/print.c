/* gomp-inspect-print [--none|--some] FILE [SYMBOL...]: prints the findings for the sections of a program or library. It
 * does not run them. Without symbols: for all outlined functions in its symbol table. --none: fails if a section keeps
 * thread data, uses its number alone or tells a number. --some: fails if none does. */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/code_reader.h"
#include "code/object_view.h"

static const unsigned char *file;
static size_t file_bytes;

static void fail(const char *name, const char *why)
{
    fprintf(stderr, "%s: %s\n", name, why);
    exit(2);
}

static void read_file(const char *name)
{
    struct stat status;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) || status.st_size < (off_t)sizeof(Elf64_Ehdr))
        fail(name, "cannot be read");
    file_bytes = (size_t)status.st_size;
    file = mmap(NULL, file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED || memcmp(file, ELFMAG, SELFMAG) || file[EI_CLASS] != ELFCLASS64)
        fail(name, "is no ELF object of 64 bits");
}

/* Maps the file as in memory, but without relocation. */
static struct code_view map_object(const char *name, const Elf64_Ehdr *header)
{
    const Elf64_Phdr *segments = (const void *)(file + header->e_phoff);
    uint64_t end = 0, align = 1;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr + segments[i].p_memsz > end)
            end = segments[i].p_vaddr + segments[i].p_memsz;
    /* Non-PIE programs start at an address well above 0. The pages below are never touched. */
    unsigned char *memory = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail(name, "does not fit in memory");
    struct code_view view;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset + segments[i].p_filesz <= file_bytes)
            memcpy(memory + segments[i].p_vaddr, file + segments[i].p_offset, segments[i].p_filesz);
        if (segments[i].p_type == PT_TLS && segments[i].p_align)
            align = segments[i].p_align;
    }
    /* A non-PIE program's dynamic section has addresses below the mapping. They are moved as in other objects. */
    object_view(&view, (uintptr_t)memory, segments, header->e_phnum);
    view.tls_module = 1;
    view.tls_offset = -(intptr_t)((view.tls_bytes + align - 1) & ~(align - 1));
    return view;
}

int main(int argc, char **argv)
{
    const char *want = NULL;
    int arg = 1, bad = 0, shown = 0;
    if (argc > arg && !strncmp(argv[arg], "--", 2))
        want = argv[arg++];
    if (argc <= arg)
        fail(argv[0], "[--none|--some] FILE [SYMBOL...]");
    const char *name = argv[arg++];
    read_file(name);
    const Elf64_Ehdr *header = (const void *)file;
    struct code_view view = map_object(name, header);
    const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const void *)(file + sections[s].sh_offset);
        const char *strings = (const char *)file + sections[sections[s].sh_link].sh_offset;
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
            const char *symbol = strings + symbols[i].st_name;
            bool chosen = argc == arg && (strstr(symbol, "._omp_fn.") || strstr(symbol, ".omp_outlined"));
            for (int a = arg; a < argc; a++)
                chosen |= !strcmp(symbol, argv[a]);
            if (!chosen || ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC || !symbols[i].st_value)
                continue;
            struct code_findings found = code_inspect(&view, view.base + symbols[i].st_value);
            printf("%-40s %-5s %-6s %-7s %-6s %-5s %-6s %5u instructions", symbol,
                   found.keeps_thread_data ? "keeps" : "-", found.writes_thread_data ? "writes" : "-",
                   found.touches_thread_data ? "touches" : "-",
                   found.takes_number_alone ? "number" : "-", found.tells_number ? "tells" : "-",
                   found.unsure ? "unsure" : "-", found.instructions);
            if (found.keeps_at)
                printf(", at %#lx", (unsigned long)(found.keeps_at - view.base));
            putchar('\n');
            shown++;
            bad += found.keeps_thread_data || found.takes_number_alone || found.tells_number
                   || found.thread_data_beside;
        }
    }
    if (!shown)
        fail(name, "no such function in its symbol table");
    return want && (!strcmp(want, "--none") ? bad > 0 : bad == 0);
}
