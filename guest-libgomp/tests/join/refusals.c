/* The socket answers anything but a join. The program soon runs as without an agent, and no descriptor stays open. */
#include <errno.h>
#include <omp.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/process.h"
#include "../support/regions.h"
#include "../support/scripted_clock.h"

#define STEP_NS UINT64_C(100000000)

static void advance(void)
{
    scripted_advance(STEP_NS);
}

static struct agent agent;

/* The agent has the connection and is silent until the time is over. */
static enum agent_wait silence(int wait_ms)
{
    WAIT_UNTIL(agent.state->connections == 1, (void)0);
    scripted_advance((uint64_t)wait_ms * 1000000);
    return AGENT_WAIT_OVER;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"joins", "version", "full",    "garbage", "unsealed",
                                        "short", "magic",   "no-page", "silent",  "closes",
                                        "late",  "late-closes", "older", "newer"};
    CHECK(argc == 2);
    agent_prepare(&agent, 5, 5);
    int answer = -1;
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (!strcmp(argv[1], names[i]))
            answer = i;
    if (answer >= 0)
        agent_start(&agent, (enum agent_answer)answer);
    else if (!strcmp(argv[1], "long-path"))
        setenv("VSCAF_SOCKET", "/a/path/that/is/longer/than/any/socket/address/can/hold/and/then/some/more/of/it/"
                               "so/that/it/never/fits/in/the/108/bytes", 1);
    else
        CHECK(!strcmp(argv[1], "nobody"));
    int open_before = descriptors();
    if (answer == AGENT_SILENT)
        agent_waits = silence;
    scripted_hook = advance; /* time passes while the shim waits */
    errno = 77;
    int threads = plain();
    CHECK(errno == 77);
    CHECK(answer == AGENT_SILENT ? agent_waited_ms == 5000 : agent_waited_ms <= 5000, "%d ms", agent_waited_ms);
    CHECK(answer >= 0 || agent_waited_ms == 0, "nobody is there to wait for");
    scripted_hook = scripted_long_sections;
    CHECK(threads != 5 && threads == omp_get_num_procs() && threads == omp_get_max_threads(), "%d", threads);
    CHECK(descriptors() == open_before + (answer == AGENT_SILENT), "%d, were %d", descriptors(), open_before);
    if (answer >= 0)
        WAIT_UNTIL(agent.state->connections == 1, (void)0); /* the shim does not wait for a silent agent to accept */
    int connections = agent.state->connections;
    for (int i = 0; i < 5; i++, advance())
        CHECK(plain() == threads);
    CHECK(agent.state->connections == connections, "at most one try a second");
    if (answer < 0)
        return 0;
    CHECK(connections == 1);
    scripted_advance(6 * STEP_NS);
    CHECK(plain() == threads);
    if (answer != AGENT_SILENT)
        WAIT_UNTIL(agent.state->connections == 2, (void)0);

    /* If a real agent starts later, the shim finds it. */
    for (int i = 0; i < AGENT_PAGES; i++)
        agent.pages[i]->magic = VSCAF_PAGE_MAGIC, agent.pages[i]->version = VSCAF_PAGE_VERSION;
    if (answer == AGENT_SHORT)
        return 0; /* its page stays short */
    agent_kill(&agent);
    agent_waits = NULL;
    agent_start(&agent, AGENT_JOINS);
    WAIT_UNTIL(agent.state->joins == 1, (scripted_advance(11 * STEP_NS), plain()));
    CHECK(plain() == omp_get_num_procs() || plain() <= 5);
    return 0;
}
