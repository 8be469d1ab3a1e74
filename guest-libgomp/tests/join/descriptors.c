/* Programs close descriptors that are not theirs, and reuse the numbers. The shim touches none of theirs, and the
 * process joins again. */
#include <fcntl.h>
#include <omp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"
#include "../support/scripted_clock.h"

#define LOOK_NS UINT64_C(1100000000) /* longer than between two looks for an agent */

int main(void)
{
    struct agent agent;
    scripted_hook = scripted_long_sections;
    agent_run(&agent, 2, 4);
    agent.pages[1]->team_size = 3;
    int low = dup(0);
    close(low);
    CHECK(plain() == 2);
    int after = dup(0);
    CHECK(after == low, "the next free number is as before");
    int ours = -1;
    struct stat status;
    for (int fd = 3; fd < 1024; fd++) {
        if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) {
            CHECK(ours < 0, "one socket is open");
            ours = fd;
        }
    }
    CHECK(ours >= 100 && (fcntl(ours, F_GETFD) & FD_CLOEXEC), "%d", ours);

    /* Closes all descriptors, as closefrom(3) would. Then the program has a socket of its own under the same number. */
    for (int fd = 3; fd < 1024; fd++)
        if (fd != 2)
            close(fd);
    int mine[2];
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, mine) == 0);
    CHECK(dup2(mine[0], ours) == ours && fstat(ours, &status) == 0);
    ino_t inode = status.st_ino;
    CHECK(plain() == 2);
    WAIT_UNTIL(agent.state->joins == 2, (scripted_advance(LOOK_NS), plain()));
    CHECK(plain() == 3);
    WAIT_UNTIL(agent.state->closed[0], (void)0); /* it may notice this after it has answered the new connection */
    CHECK(!agent.state->closed[1]);
    CHECK(fstat(ours, &status) == 0 && status.st_ino == inode, "the program's own socket is unchanged");
    return 0;
}
