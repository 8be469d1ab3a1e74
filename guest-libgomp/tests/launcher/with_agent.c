/* with_agent [--unasked] COMMAND [ARGUMENT...]: runs the command while a socket as the agent's is there; VSCAF_SOCKET
 * names it. Each connection is closed at once, so no program waits for an answer. With --unasked, a connection makes
 * the exit status 99. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"

int main(int argc, char **argv)
{
    char directory[] = "/tmp/vscaf-run-agent-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int unasked = argc > 1 && !strcmp(argv[1], "--unasked");
    argv += 1 + unasked;
    CHECK(argv[0] && mkdtemp(directory));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", directory);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
    setenv("VSCAF_SOCKET", address.sun_path, 1);
    pid_t parent = getpid();
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int connection; getppid() == parent && (connection = accept(listener, NULL, NULL)) >= 0;) {
            close(connection);
            if (unasked)
                _exit(1);
        }
        _exit(0);
    }
    close(listener); /* only the server has it, so its end refuses connections */
    pid_t command = fork();
    if (command == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    int status = 0, served = 0;
    CHECK(server > 0 && command > 0 && waitpid(command, &status, 0) == command);
    kill(server, SIGKILL);
    CHECK(waitpid(server, &served, 0) == server);
    unlink(address.sun_path);
    rmdir(directory);
    if (WIFEXITED(served))
        return 99;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
