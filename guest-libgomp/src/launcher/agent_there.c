#include "launcher/agent_there.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <vscaf/page.h>
#include <vscaf/socket_path.h>

/* The agent's sockets take connections of packets. A connection of another type is refused by the kernel: with
 * EPROTOTYPE if a process has the socket open and this user may write to it, else with another error (ECONNREFUSED for
 * the file of an agent that has ended). So the agent does not notice the question, and has no work with it. */
static bool is_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool open = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 && errno == EPROTOTYPE;
    close(fd);
    return open;
}

bool agent_is_there(void)
{
    char own[VSCAF_SOCKET_PATH_BYTES];
    struct stat status;
    const char *named = secure_getenv("VSCAF_SOCKET");
    if (named && named[0])
        return is_open(named);
    if (is_open(VSCAF_SOCKET_DEFAULT))
        return true;
    /* Anyone may have put a socket there. */
    return vscaf_socket_path_of_user(own) && stat(own, &status) == 0
           && (status.st_uid == 0 || status.st_uid == geteuid()) && is_open(own);
}
