#include "launcher/static_check.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file in memory. Nothing in it is trusted: each access checks place and length. */
struct file {
    const unsigned char *bytes;
    uint64_t length;
};

static const void *bytes_at(const struct file *file, uint64_t offset, uint64_t length)
{
    return offset <= file->length && length <= file->length - offset && offset % 8 == 0 ? file->bytes + offset : NULL;
}

/* A string of the table; "" if it is not inside the table. */
static const char *string_at(const struct file *file, const Elf64_Shdr *table, uint64_t at)
{
    if (table->sh_offset > file->length || table->sh_size > file->length - table->sh_offset || at >= table->sh_size)
        return "";
    const char *string = (const char *)file->bytes + table->sh_offset + at;
    return memchr(string, '\0', table->sh_size - at) ? string : "";
}

static const Elf64_Shdr *section_headers(const struct file *file, unsigned *count)
{
    const Elf64_Ehdr *head = bytes_at(file, 0, sizeof *head);
    const Elf64_Shdr *found = NULL;
    if (head && head->e_shentsize == sizeof *found)
        found = bytes_at(file, head->e_shoff, (uint64_t)head->e_shnum * sizeof *found);
    *count = found ? head->e_shnum : 0;
    return found;
}

static bool is_runtime_library(const char *name)
{
    return !strncmp(name, "libgomp", 7) || !strncmp(name, "libomp", 6) || !strncmp(name, "libiomp", 7);
}

/* True if the program is linked to a runtime's library. */
static bool needs_runtime(const struct file *file)
{
    unsigned count;
    const Elf64_Shdr *all = section_headers(file, &count);
    for (unsigned i = 0; i < count; i++) {
        if (all[i].sh_type != SHT_DYNAMIC || all[i].sh_link >= count)
            continue;
        const Elf64_Dyn *entries = bytes_at(file, all[i].sh_offset, all[i].sh_size);
        for (uint64_t j = 0; entries && j < all[i].sh_size / sizeof *entries && entries[j].d_tag != DT_NULL; j++)
            if (entries[j].d_tag == DT_NEEDED
                && is_runtime_library(string_at(file, &all[all[i].sh_link], entries[j].d_un.d_val)))
                return true;
    }
    return false;
}

/* True if the program contains a runtime's code, and symbols for it. */
static bool contains_runtime(const struct file *file)
{
    unsigned count;
    const Elf64_Shdr *all = section_headers(file, &count);
    for (unsigned i = 0; i < count; i++) {
        if ((all[i].sh_type != SHT_SYMTAB && all[i].sh_type != SHT_DYNSYM) || all[i].sh_link >= count)
            continue;
        const Elf64_Sym *symbols = bytes_at(file, all[i].sh_offset, all[i].sh_size);
        for (uint64_t j = 0; symbols && j < all[i].sh_size / sizeof *symbols; j++) {
            if (symbols[j].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbols[j].st_info) != STT_FUNC)
                continue;
            const char *name = string_at(file, &all[all[i].sh_link], symbols[j].st_name);
            if (!strcmp(name, "GOMP_parallel") || !strcmp(name, "__kmpc_fork_call"))
                return true;
        }
    }
    return false;
}

static const char *find_obstacle(const struct file *file)
{
    const Elf64_Ehdr *head = bytes_at(file, 0, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64
        || head->e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    const Elf64_Phdr *segments = bytes_at(file, head->e_phoff, (uint64_t)head->e_phnum * sizeof *segments);
    bool dynamic = false;
    for (unsigned i = 0; segments && i < head->e_phnum; i++)
        dynamic = dynamic || segments[i].p_type == PT_INTERP;
    if (!segments)
        return NULL;
    if (!dynamic)
        return "is statically linked";
    return !needs_runtime(file) && contains_runtime(file) ? "has its OpenMP runtime linked into it" : NULL;
}

const char *preload_obstacle(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const char *why = NULL;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) {
        close(fd);
        return NULL;
    }
    if (status.st_mode & (S_ISUID | S_ISGID)) {
        why = "is set-user-ID or set-group-ID";
    } else {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            struct file file = {bytes, (uint64_t)status.st_size};
            why = find_obstacle(&file);
            munmap(bytes, (size_t)status.st_size);
        }
    }
    close(fd);
    return why;
}
