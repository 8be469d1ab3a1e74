/* Two libraries, each with a runtime, are loaded at run time into a program that has none. Each section uses the
 * runtime of its own library, also after unloading. The arguments are the libraries and the names of their runtimes. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "../support/agent.h"
#include "../support/check.h"

struct plugin {
    void *handle;
    int (*run)(void);
    int (*max)(void);
};

static struct plugin load(const char *path)
{
    struct plugin plugin = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    CHECK(plugin.handle, "%s", dlerror());
    void *run = dlsym(plugin.handle, "plugin_run"), *max = dlsym(plugin.handle, "plugin_max");
    memcpy(&plugin.run, &run, sizeof run);
    memcpy(&plugin.max, &max, sizeof max);
    CHECK(run && max);
    return plugin;
}

int main(int argc, char **argv)
{
    struct agent agent;
    CHECK(argc == 5);
    agent_run(&agent, 3, 4);
    struct vscaf_page *page = agent.pages[0];
    struct plugin one = load(argv[1]), other = load(argv[2]);
    /* A runtime's idle threads run its code, so the runtimes must outlive the libraries. */
    CHECK(dlopen(argv[3], RTLD_NOW | RTLD_NOLOAD) && dlopen(argv[4], RTLD_NOW | RTLD_NOLOAD));
    for (uint32_t size = 1; size <= 4; size++) {
        page->team_size = size;
        CHECK(one.run() == (int)size && page->team_last == size && page->finished == 2 * size - 1);
        CHECK(other.run() == (int)size && page->team_last == size && page->finished == 2 * size);
    }
    CHECK(page->sights_used == 2 && agent_asked(page) == 2, "%u", page->sights_used);
    CHECK(one.max() == 4 && other.max() == 4);

    /* The other library takes the first one's place. The address may be the same, but the runtime differs. */
    for (int i = 0; i < 4; i++) {
        dlclose(one.handle);
        dlclose(other.handle);
        other = load(argv[2]);
        one = load(argv[1]);
        CHECK(other.run() == 4 && one.run() == 4);
        dlclose(one.handle);
        dlclose(other.handle);
        one = load(argv[1]);
        other = load(argv[2]);
        CHECK(other.run() == 4 && one.run() == 4);
    }
    CHECK(page->started == 24 && page->finished == 24 && page->team_last == 4 && !page->own_last);
    return 0;
}
