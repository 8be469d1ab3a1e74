#include "contain/contained.h"

#include <stdlib.h>

struct contained *contained_find(const struct contain *contain, pid_t pid)
{
    for (uint32_t i = 0; i < contain->count; i++)
        if (contain->list[i]->pid == pid)
            return contain->list[i];
    return NULL;
}

struct contained *contained_add(struct contain *contain, pid_t pid)
{
    if (contain->count == PLACEMENT_MAX)
        return NULL;
    struct contained *contained = calloc(1, sizeof(*contained));
    if (contained == NULL)
        return NULL;
    contained->pid = pid;
    contain->list[contain->count++] = contained;
    return contained;
}

void contained_forget(struct contain *contain, struct contained *contained)
{
    for (uint32_t i = 0; i < contain->count; i++)
        if (contain->list[i] == contained) {
            contain->list[i] = contain->list[--contain->count];
            break;
        }
    thread_masks_free(&contained->masks);
    contain_group_free(&contained->group);
    free(contained);
}
