/* Holds joins of many processes, and answers each line on its standard input with the number of sections that all of
 * them have finished so far:
 *
 *     bench-agent-crowd SOCKET PROCESSES idle|published|paced|sections
 *
 * idle: they joined and sleep. published: the same, having told all that a shim can tell. sections: they start one
 * section of some 20 us after the other, and publish new estimates all the time. paced: so do they, but sleep 10 ms after
 * each. Its first line says "joined". */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "joining.h"

#define SECTION_TURNS 10000u        /* some 20 us */
#define PUBLISH_NS UINT64_C(10000000) /* of its own time: the shim does so several times a second */

/* What the children show of themselves. */
struct progress {
    _Atomic uint64_t sections;
    _Atomic bool joined;
};

static void start_sections(struct vscaf_page *page, struct progress *progress, uint32_t number, useconds_t pause_us)
{
    uint64_t publish_ns = 0;
    atomic_store_explicit(&page->told, VSCAF_MAX_TEAM, memory_order_relaxed);
    for (uint32_t count = number;; count++) {
        joining_section(page, SECTION_TURNS);
        uint64_t now_ns = joining_now_ns();
        if (now_ns >= publish_ns) {
            publish_ns = now_ns + PUBLISH_NS;
            joining_publish(page, count);
        }
        atomic_fetch_add_explicit(&progress->sections, 1, memory_order_relaxed);
        if (pause_us > 0)
            usleep(pause_us);
    }
}

static _Noreturn void run_process(const char *socket, const char *what, struct progress *progress, uint32_t number)
{
    struct joined joined = joining_join(socket);
    if (joined.page == NULL)
        joining_fail("cannot join");
    atomic_store(&progress->joined, true);
    if (strcmp(what, "sections") == 0 || strcmp(what, "paced") == 0)
        start_sections(joined.page, progress, number, what[0] == 'p' ? 10000 : 0);
    if (strcmp(what, "published") == 0)
        joining_publish(joined.page, number);
    for (;;)
        pause();
}

int main(int argc, char *argv[])
{
    if (argc != 4 || atoi(argv[2]) < 1) {
        fputs("Usage: bench-agent-crowd SOCKET PROCESSES idle|published|paced|sections\n", stderr);
        return 2;
    }
    uint32_t count = (uint32_t)atoi(argv[2]);
    struct progress *progress =
        mmap(NULL, count * sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        joining_fail("no memory");
    signal(SIGCHLD, SIG_IGN);
    for (uint32_t i = 0; i < count; i++) {
        pid_t child = joining_fork();
        if (child < 0)
            joining_fail("cannot fork");
        if (child == 0)
            run_process(argv[1], argv[3], &progress[i], i);
        while (!atomic_load(&progress[i].joined)) /* in turn: an agent takes few unknown connections at once */
            if (usleep(200) == 0 && kill(child, 0) != 0)
                return 1; /* it has said why */
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("joined");
    char line[64];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += atomic_load_explicit(&progress[i].sections, memory_order_relaxed);
        printf("%" PRIu64 "\n", sum);
    }
    return 0;
}
