/* resized FILE COMMAND...: runs the command with a page whose team size goes from 1 to 4 and starts again, four times a
 * second. Makes FILE after enough changes. At the end it writes the page's figures to stderr, as one line of JSON. The
 * exit status is the command's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/agent.h"
#include "../support/check.h"

#define CHANGES_ENOUGH 10

int main(int argc, char **argv)
{
    struct agent agent;
    CHECK(argc > 2);
    agent_run(&agent, 1, 4);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execvp(argv[2], argv + 2);
        fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    int status = 0, changes = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        struct timespec quarter = {.tv_nsec = 250000000};
        nanosleep(&quarter, NULL);
        changes++;
        if (changes == CHANGES_ENOUGH)
            CHECK(close(open(argv[1], O_CREAT | O_WRONLY, 0600)) == 0);
        for (int i = 0; i < AGENT_PAGES; i++)
            agent.pages[i]->team_size = (uint32_t)changes % 4 + 1;
    }
    /* The page with the most sections, because the command may start other programs. */
    int most = 0;
    for (int i = 1; i < AGENT_PAGES; i++)
        if (agent.pages[i]->finished > agent.pages[most]->finished)
            most = i;
    struct vscaf_page *page = agent.pages[most];
    fprintf(stderr,
            "{\"changes\": %d, \"started\": %lu, \"finished\": %lu, \"asked\": %u, \"told\": %u, \"program\": %u}\n",
            changes, (unsigned long)page->started, (unsigned long)page->finished, agent_asked(page), page->told,
            page->program);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
