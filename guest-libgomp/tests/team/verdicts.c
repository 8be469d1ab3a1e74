/* How the shim finds the verdict of a section.
 *
 *     verdicts known      it came with the page
 *     verdicts later      the answer comes while the section runs again and again
 *     verdicts unloaded   an object was unloaded: nothing that was found before counts for what is asked from then on
 *     verdicts rejoined   a new agent is asked again, and a verdict that was found stays
 *     verdicts full       the queue is full
 *     verdicts garbage    words that are no verdict
 *     verdicts child      a child made by fork asks for itself
 */
#include <dlfcn.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"

#define TEAM 2
#define OWN 4

extern void GOMP_parallel(void (*fn)(void *), void *data, unsigned num_threads, unsigned flags);

static struct agent agent;

static void body(void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_RELAXED);
}

static void other_body(void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_RELEASE);
}

static uint64_t address_of(void (*fn)(void *))
{
    return (uint64_t)(uintptr_t)fn;
}

static int team(void (*fn)(void *))
{
    int threads = 0;
    GOMP_parallel(fn, &threads, 0, 0);
    return threads;
}

static void know(struct vscaf_page *page, uint64_t address, uint32_t word)
{
    uint64_t addresses[] = {1, 2, address, UINT64_MAX - 1, UINT64_MAX};
    for (int i = 0; i < 5; i++)
        page->known[i] = (struct vscaf_known_section){.address = addresses[i],
                                                      .answer = vscaf_answer(i == 2 ? word : VSCAF_VERDICT_OWN)};
    page->known_used = 5;
}

static void unload(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    CHECK(handle && dlclose(handle) == 0);
}

static void known(struct vscaf_page *page)
{
    know(page, address_of(body), VSCAF_VERDICT_FREE);
    CHECK(team(body) == TEAM && page->sights_used == 0);
    CHECK(team(other_body) == OWN && page->sights_used == 1);
    CHECK(page->sights[0].address == address_of(other_body));
}

static void later(struct vscaf_page *page)
{
    for (int i = 0; i < 50; i++)
        CHECK(team(body) == OWN && team(other_body) == OWN && page->own_last == 1);
    CHECK(page->sights_used == 2 && page->sights[0].address == address_of(body), "%u", page->sights_used);
    page->sights[1].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    CHECK(team(other_body) == OWN && page->own_last == 1, "the first section may have left data in its threads");
    page->team_size = 1;
    CHECK(team(other_body) == 1 && page->own_last == 0, "one thread leaves the others alone");
    page->team_size = TEAM;
    CHECK(team(body) == OWN && page->own_last == 1);
    page->sights[0].answer = vscaf_answer(vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_WAITS));
    for (int i = 0; i < 50; i++)
        CHECK(team(other_body) == TEAM && team(body) == OWN);
    CHECK(page->sights_used == 2);
}

static void unloaded(struct vscaf_page *page, const char *path)
{
    know(page, address_of(other_body), VSCAF_VERDICT_FREE);
    CHECK(team(body) == OWN && page->sights_used == 1);
    unload(path);
    page->sights[0].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    CHECK(team(body) == OWN && page->sights_used == 2, "it is asked again: %u", page->sights_used);
    CHECK(page->sights[1].address == address_of(body));
    CHECK(team(other_body) == OWN && page->sights_used == 3, "what came with the page holds no more");
    page->sights[1].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    page->sights[2].answer = vscaf_answer(vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_WAITS));
    CHECK(team(other_body) == OWN && team(body) == TEAM);
    unload(path);
    CHECK(team(body) == TEAM, "the same object");
}

static void rejoined(struct vscaf_page *page)
{
    CHECK(team(body) == OWN && team(other_body) == OWN && page->sights_used == 2);
    page->sights[0].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    CHECK(team(body) == OWN, "the other section may have left data in its threads");
    agent_kill(&agent);
    agent_start(&agent, AGENT_JOINS);
    page = agent.pages[1];
    WAIT_UNTIL(page->started > 0, team(other_body));
    team(other_body);
    CHECK(page->sights_used == 1 && page->sights[0].address == address_of(other_body));
    CHECK(page->sights_used == 1 && team(other_body) == OWN);
    agent.pages[0]->sights[1].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    CHECK(team(other_body) == OWN, "of the old page");
    page->sights[0].answer = vscaf_answer(VSCAF_VERDICT_FREE);
    CHECK(team(other_body) == TEAM && team(body) == TEAM);
}

static void full(struct vscaf_page *page, const char *path)
{
    CHECK(team(other_body) == OWN);
    /* Each unloading makes the section ask again. */
    for (uint32_t i = 1; i <= VSCAF_SIGHTS + 5; i++) {
        unload(path);
        CHECK(team(other_body) == OWN);
        CHECK(page->sights_used == (i + 1 < VSCAF_SIGHTS ? i + 1 : VSCAF_SIGHTS), "%u", page->sights_used);
    }
    agent_answers(&agent, VSCAF_VERDICT_FREE);
    CHECK(team(other_body) == OWN && team(body) == OWN && page->sights_used == VSCAF_SIGHTS);
}

static void garbage(struct vscaf_page *page)
{
    know(page, address_of(body), 77);
    page->known_used = UINT32_MAX;
    CHECK(team(body) == OWN && team(other_body) == OWN);
    page->sights_used = UINT32_MAX;
    for (uint32_t i = 0; i < VSCAF_SIGHTS; i++)
        page->sights[i].answer = i % 2 ? UINT64_MAX : VSCAF_VERDICT_FREE;
    CHECK(team(body) == OWN && team(other_body) == OWN);
}

/* With teams of one thread: libgomp's other threads do not exist in the child. */
static void child(struct vscaf_page *page)
{
    CHECK(team(body) == 1 && page->own_last == 1 && page->sights_used == 1);
    int status;
    pid_t process = fork_bound();
    if (process == 0) {
        WAIT_UNTIL(agent.pages[1]->sights_used == 1, team(body));
        CHECK(agent.pages[1]->own_last == 1);
        agent.pages[1]->sights[0].answer = vscaf_answer(VSCAF_VERDICT_FREE);
        _exit(team(body) == 1 && agent.pages[1]->own_last == 0 ? 0 : 1);
    }
    CHECK(process > 0 && waitpid(process, &status, 0) == process && status == 0, "status %d", status);
    CHECK(team(body) == 1 && page->own_last == 1 && page->sights_used == 1);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    agent_prepare(&agent, TEAM, OWN);
    agent_answers(&agent, 0);
    agent_start(&agent, AGENT_JOINS);
    struct vscaf_page *page = agent.pages[0];
    if (!strcmp(argv[1], "known"))
        known(page);
    else if (!strcmp(argv[1], "later"))
        later(page);
    else if (!strcmp(argv[1], "unloaded"))
        unloaded(page, argv[2]);
    else if (!strcmp(argv[1], "rejoined"))
        rejoined(page);
    else if (!strcmp(argv[1], "full"))
        full(page, argv[2]);
    else if (!strcmp(argv[1], "garbage"))
        garbage(page);
    else if (!strcmp(argv[1], "child"))
        child(page);
    else
        CHECK(false, "%s", argv[1]);
    return 0;
}
