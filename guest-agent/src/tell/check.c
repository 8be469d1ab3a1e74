#include "tell/check.h"

#include <stdio.h>

#include "agent/agent.h"
#include "host/wire.h"
#include "tell/check_ends.h"
#include "tell/check_lines.h"
#include "tell/check_system.h"
#include "vscaf/page.h"

int check_run(const struct options *options)
{
    char own[VSCAF_SOCKET_PATH_BYTES];
    struct check check = {.options = options,
                          .without_host = options->standalone,
                          .socket = socket_path_of_agent(options->socket, own),
                          .root = ""};
    check.own_place = check.socket == own;
    setvbuf(stdout, NULL, _IOLBF, 0);
    check_ok("versions", "%s, wire %d, page %d", AGENT_NAME, WIRE_VERSION, (int)VSCAF_PAGE_VERSION);
    check_privileges(&check);
    check_kernel(&check);
    check_cpus(&check);
    check_steal_governor(&check);
    check_cpuset(&check);
    check_udev_rules(&check);
    check_port(&check);
    check_socket(&check);
    check_shim(&check);
    if (check.missing == 0)
        printf("Everything that is needed is there.\n");
    else
        printf("%u needed thing%s missing.\n", check.missing, check.missing == 1 ? " is" : "s are");
    return check.missing == 0 ? 0 : 1;
}
