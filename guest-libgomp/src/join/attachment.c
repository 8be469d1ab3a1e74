#include "join/attachment.h"

/* Aligned to the largest page size of all Linux architectures, so that a memfd can be mapped over each. */
static _Alignas(65536) unsigned char memory[ATTACHMENTS][VSCAF_PAGE_BYTES];

struct attachment attachments[ATTACHMENTS] = {
    {.page = (struct vscaf_page *)memory[0], .epoch = ATTACHMENT_FIRST_EPOCH},
    {.page = (struct vscaf_page *)memory[1]},
};
_Atomic(struct attachment *) attachment_current = &attachments[0];
