#include "contain/contained.h"

#include <stdlib.h>

struct contained *contain_find(const struct contain *contain, pid_t pid)
{
    for (uint32_t i = 0; i < contain->count; i++)
        if (contain->list[i]->pid == pid)
            return contain->list[i];
    return NULL;
}

struct contained *contain_add(struct contain *contain, pid_t pid)
{
    struct contained *contained = contain->count < PLACEMENT_MAX ? calloc(1, sizeof(*contained)) : NULL;
    if (contained == NULL)
        return NULL;
    contained->pid = pid;
    contain->list[contain->count++] = contained;
    return contained;
}

void contain_forget(struct contain *contain, struct contained *contained)
{
    for (uint32_t i = 0; i < contain->count; i++)
        if (contain->list[i] == contained) {
            contain->list[i] = contain->list[--contain->count];
            break;
        }
    free(contained);
}
