/* inspect_object() for tests: what a function is called says what the verdict on it is. free_..., up_to_..., own_...;
 * relies_... is free and relies on malloc. An object with a symbol malloc defines it. Other offsets that are asked for
 * call through a pointer. With HANG_... it never ends, with OPEN_... it opens a file. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "inspect.h"

enum { MALLOC = 70 };

static bool within(size_t size, uint64_t at, uint64_t length)
{
    return at <= size && length <= size - at;
}

static uint64_t offset_of(const unsigned char *bytes, const Elf64_Ehdr *header, size_t size, uint64_t address)
{
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(bytes + header->e_phoff);
    for (unsigned i = 0; within(size, header->e_phoff, header->e_phnum * sizeof(*segments)) && i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && address >= segments[i].p_vaddr &&
            address - segments[i].p_vaddr < segments[i].p_filesz)
            return address - segments[i].p_vaddr + segments[i].p_offset;
    return 0;
}

static void add(struct inspect_result *result, const char *name, uint64_t offset, uint64_t address)
{
    enum vscaf_verdict verdict = strncmp(name, "up_to_", 6) == 0 ? VSCAF_VERDICT_UP_TO
                                 : strncmp(name, "own_", 4) == 0 ? VSCAF_VERDICT_OWN
                                                                 : VSCAF_VERDICT_FREE;
    bool own = verdict == VSCAF_VERDICT_OWN;
    struct inspect_section section = {.file_offset = offset,
                                      .address = address,
                                      .name = name,
                                      .detail = own ? "sin" : "",
                                      .verdict =
                                          vscaf_verdict_word(verdict, own ? VSCAF_REASON_UNKNOWN_CALL : VSCAF_REASON_NONE)};
    if (strncmp(name, "relies_", 7) == 0)
        section.relies.words[MALLOC / 64] = UINT64_C(1) << MALLOC % 64;
    size_t at = result->count;
    while (at > 0 && result->sections[at - 1].file_offset > offset)
        at--;
    if (at > 0 && result->sections[at - 1].file_offset == offset)
        return;
    memmove(result->sections + at + 1, result->sections + at, (result->count++ - at) * sizeof(section));
    result->sections[at] = section;
}

int inspect_object(const void *object, size_t size, const uint64_t *also, size_t also_count, struct inspect_result *result)
{
    const unsigned char *bytes = object;
    const Elf64_Ehdr *header = object;
    *result = (struct inspect_result){.sections = calloc(4096, sizeof(*result->sections))};
    if (size < sizeof(*header) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return 0;
    result->readable = true;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(bytes + header->e_shoff);
    for (unsigned i = 0; within(size, header->e_shoff, header->e_shnum * sizeof(*sections)) && i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB || /* the loader's own table is another one */
            !within(size, sections[i].sh_offset, sections[i].sh_size) || sections[i].sh_link >= header->e_shnum)
            continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(bytes + sections[i].sh_offset);
        const char *names = (const char *)bytes + sections[sections[i].sh_link].sh_offset;
        for (size_t j = 0; j < sections[i].sh_size / sizeof(*symbols); j++) {
            const char *name = names + symbols[j].st_name;
            if (symbols[j].st_shndx == 0 || ELF64_ST_TYPE(symbols[j].st_info) != STT_FUNC)
                continue;
            if (strcmp(name, "malloc") == 0)
                result->defines.words[MALLOC / 64] = UINT64_C(1) << MALLOC % 64;
            if (strncmp(name, "hang_", 5) == 0)
                for (;;)
                    __asm__ volatile("" ::: "memory");
            if (strncmp(name, "open_", 5) == 0)
                open("/dev/null", O_RDONLY);
            if (strncmp(name, "socket_", 7) == 0)
                socket(AF_UNIX, SOCK_STREAM, 0);
            if (strncmp(name, "free_", 5) == 0 || strncmp(name, "up_to_", 6) == 0 || strncmp(name, "own_", 4) == 0 ||
                strncmp(name, "relies_", 7) == 0)
                add(result, name, offset_of(bytes, header, size, symbols[j].st_value), symbols[j].st_value);
        }
    }
    for (size_t i = 0; i < also_count; i++) {
        size_t before = result->count;
        add(result, "own_asked", also[i], also[i]);
        if (result->count > before)
            for (size_t j = 0; j < result->count; j++)
                if (result->sections[j].file_offset == also[i])
                    result->sections[j].verdict = vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_POINTER_CALL);
    }
    return 0;
}

void inspect_free(struct inspect_result *result)
{
    free(result->sections);
}

const char *inspect_known_name(unsigned number)
{
    return number == MALLOC ? "malloc" : NULL;
}

const char *inspect_reason_text(enum vscaf_reason reason)
{
    return reason == VSCAF_REASON_POINTER_CALL ? "calls through a pointer" : "has a reason";
}
