/* Libraries whose calls the shim does not see, because they were loaded with RTLD_DEEPBIND or by dlmopen. They run as
 * without the shim, next to a library that it does see. */
#include <dlfcn.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"

static int (*runner(void *handle))(void)
{
    CHECK(handle, "%s", dlerror());
    void *found = dlsym(handle, "plugin_run");
    int (*run)(void);
    CHECK(found);
    memcpy(&run, &found, sizeof run);
    return run;
}

int main(int argc, char **argv)
{
    struct agent agent;
    CHECK(argc == 3);
    CHECK(setenv("OMP_NUM_THREADS", "5", 1) == 0);
    agent_run(&agent, 3, 8);
    struct vscaf_page *page = agent.pages[0];
    int (*deep)(void) = runner(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
    CHECK(deep() == 5, "%d", deep());
    int (*apart)(void) = runner(dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL));
    CHECK(apart() == 5, "%d", apart());
    CHECK(page->started == 0 && agent.state->joins == 0);
    int (*seen)(void) = runner(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL));
    CHECK(seen() == 3, "%d", seen());
    page->team_size = 2;
    CHECK(deep() == 5 && apart() == 5 && seen() == 2);
    CHECK(page->started == 2 && page->finished == 2);
    return 0;
}
