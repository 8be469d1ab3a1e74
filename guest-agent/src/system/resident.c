#include "system/resident.h"

#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Read-only segments have the contents of their file, so nothing is lost. (Relocated code would be lost, but on x86-64
 * and aarch64 the linker makes none.) */
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
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* if it is refused, nothing changes */
    }
    return 0;
}

void resident_trim(void)
{
    dl_iterate_phdr(trim_object, NULL);
}
