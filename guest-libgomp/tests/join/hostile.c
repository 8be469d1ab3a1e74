/* A page with any content at any time never makes a team larger than the number told if the section may not have such a
 * team, and never crashes the program. */
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

static struct agent agent;
static _Atomic int over;

static void *scribble(void *unused)
{
    static const uint32_t values[] = {0, 1, 2, 3, 5, 4096, 4097, 4000000000u, UINT32_MAX, 1u << 31};
    struct vscaf_page *page = agent.pages[0];
    unsigned state = 1;
    (void)unused;
    while (!over) {
        state = state * 1664525u + 1013904223u;
        page->team_size = values[(state >> 16) % 10];
        page->team_limit = values[(state >> 20) % 10];
        page->sights_used = page->known_used = state;
        page->team_told = values[(state >> 18) % 10];
        page->sights[state % VSCAF_SIGHTS].answer = state % 2 ? vscaf_answer(state) : state;
        page->sights[state % VSCAF_SIGHTS].address = state;
        page->told = state % 2 ? 0 : UINT32_MAX;
        page->magic = page->version = page->bytes = state;
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    agent_prepare(&agent, 4000000000u, 0);
    agent_answers(&agent, vscaf_verdict_word(VSCAF_VERDICT_UP_TO, VSCAF_REASON_NONE));
    agent_start(&agent, AGENT_JOINS);
    struct vscaf_page *page = agent.pages[0];
    int real = plain();
    page->team_limit = 4000000000u; /* the program was not told any number yet */
    CHECK(plain() == real, "such a limit is ignored");
    page->team_limit = 0;
    CHECK(real <= 4096 && real == omp_get_num_procs(), "such a size is ignored: %d", real);
    page->team_limit = 4000000000u;
    page->team_size = 3;
    CHECK(omp_get_max_threads() == real && plain() <= real, "the first number told holds for good");
    page->team_size = 4000000000u;
    CHECK(plain() <= real);
    page->team_size = 4096;
    CHECK(plain() == real);
    CHECK(pthread_create(&thread, NULL, scribble, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        int threads = plain();
        CHECK(threads >= 1 && threads <= real, "%d", threads);
    }
    over = 1;
    pthread_join(thread, NULL);
    return 0;
}
