#include "system/resident.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Segments that nobody can write hold what their file holds: nothing is lost. (Code that the loader had to relocate
 * would be; on x86-64 and aarch64 the linker makes none.) */
static int trim_object(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0)
            continue;
        uintptr_t begin = (uintptr_t)(object->dlpi_addr + segment->p_vaddr) & ~(page - 1);
        uintptr_t end = ((uintptr_t)(object->dlpi_addr + segment->p_vaddr) + segment->p_memsz + page - 1) & ~(page - 1);
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* where it is refused, all stays as it was */
    }
    return 0;
}

void resident_trim(void)
{
    dl_iterate_phdr(trim_object, NULL);
}
