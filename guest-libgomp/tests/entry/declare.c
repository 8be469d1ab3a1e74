/* declare [listed | alone]: what a program declares by vscaf.h. listed: a file of the administrator has declared it.
 * alone: without the shim the functions do nothing. */
#include <omp.h>
#include <string.h>

#include "../../include/vscaf.h"
#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const char *word = getenv("VSCAF_MALLEABLE");
    int user_decides = word && !strcmp(word, "rigid");
    struct agent agent;
    agent_run(&agent, 2, 6);
    omp_set_num_threads(4);
    if (!strcmp(mode, "alone")) {
        vscaf_resize();
        CHECK(plain() == 4 && vscaf_size() == 0);
        vscaf_leave_alone();
        return plain() != 4;
    }
    CHECK(plain() == (strcmp(mode, "listed") ? 4 : 2), "before the program declares anything");
    CHECK(vscaf_size() == 2);
    agent.pages[0]->team_size = 3;
    CHECK(vscaf_size() == 3);
    vscaf_resize();
    CHECK(plain() == (user_decides ? 4 : 3), "declared");
    CHECK(agent.pages[0]->malleable == (user_decides ? VSCAF_MALLEABLE_RIGID : VSCAF_MALLEABLE_FULL));
    agent.pages[0]->team_size = 1;
    vscaf_leave_alone();
    CHECK(plain() == 4, "its own number again");
    CHECK(agent.pages[0]->malleable == VSCAF_MALLEABLE_RIGID);
    vscaf_resize();
    CHECK(plain() == (user_decides ? 4 : 1), "the last declaration counts");
    return 0;
}
