/* An ELF file in memory: its segments, symbols and relocations. Every number of the file is checked before it is used. */
#ifndef VSCAF_INSPECT_ELF_FILE_H
#define VSCAF_INSPECT_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_SEGMENTS_MAX 16u

/* What the dynamic linker puts at an address. */
struct elf_reference {
    unsigned type;     /* type of the relocation; 0: there is none */
    const char *name;  /* of the symbol; "" if there is none */
    bool defined_here; /* the symbol is defined in this file, and `value` is its address (or offset of thread data) */
    bool stays;        /* it is a word that the program cannot change after the start */
    bool function;     /* the symbol is a function, and another object may have one of that name */
    uint64_t value;    /* the symbol's value plus the addend */
};

struct elf_file {
    const unsigned char *bytes;
    size_t size;
    unsigned machine; /* EM_X86_64 or EM_AARCH64 */
    bool fixed;       /* it is always loaded at its own addresses */
    Elf64_Phdr segments[ELF_SEGMENTS_MAX];
    size_t segment_count;
    uint64_t relro_start, relro_end; /* read-only after the start */
    bool has_tls;
    uint64_t tls_bytes; /* size of the thread data in memory */
    uint64_t tls_align;
    const Elf64_Sym *symbols; /* the largest symbol table that there is; may be unaligned: use elf_symbol */
    size_t symbol_count;
    const char *names;
    size_t names_bytes;
    const unsigned char *dynamic_symbols;
    size_t dynamic_symbol_count;
    const char *dynamic_names;
    size_t dynamic_names_bytes;
    struct elf_relocation *relocations; /* sorted by address */
    size_t relocation_count;
};

struct elf_relocation {
    uint64_t address;
    uint64_t addend;
    uint32_t type;
    uint32_t symbol;
};

/* Returns 0, 1 if the bytes are not an ELF file for a known machine, or -1 without memory. elf_close frees. */
int elf_open(struct elf_file *file, const void *bytes, size_t size);
void elf_close(struct elf_file *file);

/* `count` bytes at an address of the file's own, or NULL: they are not all in the file. */
const unsigned char *elf_at(const struct elf_file *file, uint64_t address, size_t count);
/* How many bytes of code follow from the address on; 0: it is no code. */
size_t elf_code_bytes(const struct elf_file *file, uint64_t address);
bool elf_is_mapped(const struct elf_file *file, uint64_t address);
/* True if nothing changes the bytes after the start. */
bool elf_is_constant(const struct elf_file *file, uint64_t address, size_t count);
/* UINT64_MAX: it is not in the file. */
uint64_t elf_offset_of(const struct elf_file *file, uint64_t address);
uint64_t elf_address_of(const struct elf_file *file, uint64_t offset);

struct elf_reference elf_reference_at(const struct elf_file *file, uint64_t address);

/* The symbol of a table by its number; `name` is "" if it is not in the file. */
struct elf_symbol {
    const char *name;
    uint64_t value, size;
    unsigned type, section, binding;
};
struct elf_symbol elf_symbol(const struct elf_file *file, bool dynamic, size_t number);

/* The data that holds an address, by the symbol table. False: it is not known. */
bool elf_data_object(const struct elf_file *file, uint64_t address, uint64_t *start);
/* The thread data that holds an offset, by the symbol table. False: it is not known. */
bool elf_tls_object(const struct elf_file *file, uint64_t offset, uint64_t *start, uint64_t *end);

#endif
