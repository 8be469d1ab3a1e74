#include "launcher/obstacle.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

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

static bool is_sanitizer_library(const char *name)
{
    return !strncmp(name, "libasan", 7) || !strncmp(name, "libclang_rt.asan", 16);
}

static bool is_dynamic_linker(const char *name)
{
    return !strncmp(name, "ld-linux", 8);
}

/* True if the file names such a library: one that it needs (DT_NEEDED), or itself (DT_SONAME). */
static bool names_library(const struct file *file, int64_t tag, bool (*is_wanted)(const char *name))
{
    unsigned count;
    const Elf64_Shdr *all = section_headers(file, &count);
    for (unsigned i = 0; i < count; i++) {
        if (all[i].sh_type != SHT_DYNAMIC || all[i].sh_link >= count)
            continue;
        const Elf64_Dyn *entries = bytes_at(file, all[i].sh_offset, all[i].sh_size);
        for (uint64_t j = 0; entries && j < all[i].sh_size / sizeof *entries && entries[j].d_tag != DT_NULL; j++)
            if (entries[j].d_tag == tag && is_wanted(string_at(file, &all[all[i].sh_link], entries[j].d_un.d_val)))
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

/* True if the program's dynamic linker is that of glibc, which the shim needs. If its name is not known, it is not. */
static bool has_own_linker(const struct file *file, const Elf64_Phdr *segment)
{
    static const char *const known[] = {"ld-linux", "ld64.so", "ld.so"};
    if (segment->p_offset > file->length || segment->p_filesz > file->length - segment->p_offset)
        return false;
    const char *path = (const char *)file->bytes + segment->p_offset;
    if (!memchr(path, '\0', segment->p_filesz))
        return false;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strncmp(name, known[i], strlen(known[i])))
            return true;
    return false;
}

/* Reasons that the preload would break the program, or be refused with a message. */
static const char *breaks(const struct file *file, const Elf64_Ehdr *head, const Elf64_Phdr *linker)
{
#ifdef OWN_MACHINE
    if (head->e_machine != OWN_MACHINE)
        return "is for another kind of processor";
#endif
    (void)head;
    if (linker && !has_own_linker(file, linker))
        return "is not for glibc (musl?), which the shim needs";
    return names_library(file, DT_NEEDED, is_sanitizer_library)
               ? "uses AddressSanitizer, which accepts no library before its own"
               : NULL;
}

/* Reasons that the preload would be of no use. */
static const char *does_not_reach(const struct file *file, bool dynamic)
{
    if (!dynamic) /* a dynamic linker that starts a program has no linker itself, and obeys LD_PRELOAD */
        return names_library(file, DT_SONAME, is_dynamic_linker) ? NULL : "is statically linked";
    return !names_library(file, DT_NEEDED, is_runtime_library) && contains_runtime(file)
               ? "has its OpenMP runtime linked into it"
               : NULL;
}

static const char *look_at_program(const struct file *file, bool is_interpreter)
{
    const Elf64_Ehdr *head = bytes_at(file, 0, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (head->e_ident[EI_CLASS] != ELFCLASS64)
        return "is a 32-bit program";
    if (head->e_phentsize != sizeof(Elf64_Phdr))
        return NULL;
    const Elf64_Phdr *segments = bytes_at(file, head->e_phoff, (uint64_t)head->e_phnum * sizeof *segments);
    if (!segments)
        return NULL;
    const Elf64_Phdr *linker = NULL;
    for (unsigned i = 0; i < head->e_phnum && !linker; i++)
        linker = segments[i].p_type == PT_INTERP ? &segments[i] : NULL;
    const char *why = breaks(file, head, linker);
    return why || is_interpreter ? why : does_not_reach(file, linker);
}

/* Copies the path of a script's interpreter. False: the file is no script. */
static bool read_interpreter(const struct file *file, char path[PATH_MAX])
{
    static const char blanks[] = " \t";
    char line[PATH_MAX] = "";
    if (file->length < 2 || memcmp(file->bytes, "#!", 2) != 0)
        return false;
    uint64_t length = file->length - 2 < sizeof line - 1 ? file->length - 2 : sizeof line - 1;
    memcpy(line, file->bytes + 2, length);
    line[strcspn(line, "\n")] = '\0';
    const char *begin = line + strspn(line, blanks);
    size_t size = strcspn(begin, blanks);
    memcpy(path, begin, size);
    path[size] = '\0';
    return size > 0;
}

/* The program of a script's first line gets the environment too; it may be a script again, as deep as Linux allows. */
#define INTERPRETERS_MAX 5

static const char *look_at_file(const char *path, unsigned depth)
{
    struct stat status;
    char interpreter[PATH_MAX];
    /* Not possible for a program that only may be executed. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    const char *why = NULL;
    bool is_script = false;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            struct file file = {bytes, (uint64_t)status.st_size};
            is_script = read_interpreter(&file, interpreter);
            why = is_script ? NULL : look_at_program(&file, depth > 0);
            munmap(bytes, (size_t)status.st_size);
        }
    }
    close(fd);
    return is_script && depth < INTERPRETERS_MAX ? look_at_file(interpreter, depth + 1) : why;
}

/* True if the environment already preloads a library that must stay the first. */
static bool sanitizer_is_preloaded(void)
{
    const char *list = getenv("LD_PRELOAD");
    return list && (strstr(list, "libasan") || strstr(list, "libclang_rt.asan"));
}

const char *preload_obstacle(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)))
        return "is set-user-ID or set-group-ID";
    if (getxattr(path, "security.capability", NULL, 0) > 0)
        return "has capabilities of its own";
    if (sanitizer_is_preloaded())
        return "gets AddressSanitizer by LD_PRELOAD, which accepts no library before its own";
    return look_at_file(path, 0);
}
