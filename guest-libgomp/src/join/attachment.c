#include "join/attachment.h"

/* The largest page size of Linux on this architecture: a memfd can be mapped over each. A larger alignment than needed
 * would cost two system calls when the library is loaded. */
#ifdef __x86_64__
#define PAGE_SIZE_MAX 4096
#else
#define PAGE_SIZE_MAX 65536
#endif

static struct {
    _Alignas(PAGE_SIZE_MAX) unsigned char bytes[VSCAF_PAGE_BYTES];
} memory[ATTACHMENTS];

struct attachment attachments[ATTACHMENTS] = {
    {.page = (struct vscaf_page *)memory[0].bytes, .epoch = ATTACHMENT_FIRST_EPOCH},
    {.page = (struct vscaf_page *)memory[1].bytes},
};
_Atomic(struct attachment *) attachment_current = &attachments[0];
