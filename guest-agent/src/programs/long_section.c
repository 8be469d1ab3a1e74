#include "programs/long_section.h"

#include <math.h>
#include <stdlib.h>

bool long_section_count(struct client *client, uint64_t now_ns)
{
    struct in_flight_counts before = client->seen;
    client->seen = in_flight_count(client->page);
    bool changed = before.started != client->seen.started || before.finished != client->seen.finished;
    if (changed || !client->seen.in_flight)
        client->section_since_ns = now_ns;
    client->long_section = now_ns - client->section_since_ns >= LONG_SECTION_NS;
    if (!client->long_section) {
        free(client->threads);
        client->threads = NULL;
    }
    return changed;
}

static void read_threads(struct client *client, const char *proc, uint64_t now_ns, uint32_t *work)
{
    if (client->threads == NULL) {
        client->threads = calloc(1, sizeof(*client->threads));
        client->runnable_threads = 0;
    }
    if (client->threads != NULL)
        threads_read(client->threads, proc, client->pid, now_ns, work);
    if (client->threads != NULL && client->threads->answers > 0)
        client->runnable_threads = client->threads->runnable;
    /* If the threads are not known (yet): the CPU time of the process, less a quarter of a CPU, which is noise. */
    else
        client->runnable_threads = (uint32_t)fmin(ceil(fmax(client->load_cpus - 0.25, 0.0)), (double)VSCAF_MAX_TEAM);
    if (client->runnable_threads == 0)
        client->runnable_threads = 1;
}

void long_section_period(struct clients *clients, const char *proc, uint32_t *turn, uint64_t now_ns)
{
    uint32_t work = THREADS_WORK_MAX, end = clients->end;
    if (end == 0)
        return;
    uint32_t first = *turn % end;
    *turn = first;
    for (uint32_t i = 0; i < end; i++) {
        uint32_t at = (first + i) % end;
        struct client *client = &clients->slots[at];
        if (client->page == NULL || !client->long_section || !client->running)
            continue;
        bool affordable = work > 0;
        read_threads(client, proc, now_ns, &work);
        if (affordable && work == 0)
            *turn = at + 1; /* the next ones come first in the next period */
    }
}
