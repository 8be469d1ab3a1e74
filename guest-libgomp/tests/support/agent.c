#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PATIENCE_S 60 /* the shim waits here for an agent that answers */

/* Copies, because at exit the test's own struct is gone. It is often a local of main. */
static struct agent cleaned;
static pid_t owner;

_Atomic int agent_waited_ms;
enum agent_wait (*_Atomic agent_waits)(int wait_ms);

/* The shim uses this instead of libc's. It waits long for an agent that answers, because the machine may be busy. */
int poll(struct pollfd *watched, nfds_t count, int wait_ms)
{
    CHECK(wait_ms >= 0, "the shim waits without a limit");
    agent_waited_ms += wait_ms;
    bool answers = cleaned.state && cleaned.state->answers;
    enum agent_wait (*waits)(int) = agent_waits;
    if (wait_ms && waits) {
        enum agent_wait end = waits(wait_ms);
        if (end == AGENT_WAIT_OVER)
            return 0;
        errno = EINTR;
        if (end == AGENT_WAIT_INTERRUPTED)
            return -1;
        answers = true;
    }
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000l};
    if (wait_ms && answers)
        wait = (struct timespec){.tv_sec = PATIENCE_S};
    return ppoll(watched, count, &wait, NULL);
}

static void clean(void)
{
    if (getpid() != owner)
        return;
    if (cleaned.pid)
        agent_kill(&cleaned);
    unlink(cleaned.path);
    if (rmdir(cleaned.directory) != 0)
        perror(cleaned.directory);
}

void agent_prepare(struct agent *agent, uint32_t team_size, uint32_t team_limit)
{
    memset(agent, 0, sizeof *agent);
    strcpy(agent->directory, "/tmp/vscaf-gomp-test-XXXXXX");
    CHECK(mkdtemp(agent->directory));
    snprintf(agent->path, sizeof agent->path, "%s/agent.sock", agent->directory);
    owner = getpid();
    atexit(clean);
    CHECK(setenv("VSCAF_SOCKET", agent->path, 1) == 0);
    agent->state = mmap(NULL, sizeof *agent->state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(agent->state != MAP_FAILED);
    cleaned = *agent;
    for (int i = 0; i < AGENT_PAGES; i++) {
        int memfd = memfd_create("vscaf-test-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        CHECK(memfd >= 0 && ftruncate(memfd, VSCAF_PAGE_BYTES) == 0);
        agent->memfds[i] = memfd;
        struct vscaf_page *page =
            mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
        CHECK(page != MAP_FAILED);
        page->magic = VSCAF_PAGE_MAGIC;
        page->version = VSCAF_PAGE_VERSION;
        page->bytes = VSCAF_PAGE_BYTES;
        page->team_size = team_size;
        page->team_limit = page->team_told = team_limit;
        agent->pages[i] = page;
    }
    agent_answers(agent, vscaf_verdict_word(VSCAF_VERDICT_FREE, VSCAF_REASON_NONE));
}

void agent_answers(struct agent *agent, uint32_t word)
{
    for (int i = 0; i < AGENT_PAGES; i++)
        for (uint32_t j = 0; j < VSCAF_SIGHTS; j++)
            agent->pages[i]->sights[j].answer = vscaf_answer(word);
}

uint32_t agent_asked(const struct vscaf_page *page)
{
    uint32_t different = 0;
    CHECK(page->sights_used <= VSCAF_SIGHTS);
    for (uint32_t i = 0; i < page->sights_used; i++) {
        uint32_t first = 0;
        while (page->sights[first].address != page->sights[i].address)
            first++;
        different += first == i;
    }
    return different;
}

static bool joins(enum agent_answer answer)
{
    return answer == AGENT_JOINS || answer == AGENT_LATE || answer == AGENT_HELD;
}

static void answer_to(struct agent *agent, int client, enum agent_answer answer)
{
    struct ucred peer;
    socklen_t peer_length = sizeof peer;
    getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length);
    struct vscaf_join join;
    CHECK(recv(client, &join, sizeof join, 0) == (ssize_t)sizeof join);
    CHECK(join.magic == VSCAF_PAGE_MAGIC && join.version == VSCAF_PAGE_VERSION);
    CHECK(join.name[0] && memchr(join.name, 0, sizeof join.name));
    int index = agent->state->joins;
    CHECK(index < AGENT_PAGES);
    struct vscaf_welcome welcome = {VSCAF_PAGE_MAGIC, VSCAF_PAGE_VERSION, VSCAF_JOINED, VSCAF_PAGE_BYTES};
    int memfd = agent->memfds[index];
    bool with_page = true;
    switch (answer) {
    case AGENT_OTHER_VERSION:
        welcome.version = VSCAF_PAGE_VERSION + 1;
        welcome.status = VSCAF_JOIN_VERSION;
        with_page = false;
        break;
    case AGENT_FULL:
        welcome.status = VSCAF_JOIN_FULL;
        with_page = false;
        break;
    case AGENT_GARBAGE:
        memset(&welcome, 0x5a, sizeof welcome);
        break;
    case AGENT_SHORT:
        CHECK(ftruncate(memfd, VSCAF_PAGE_BYTES / 2) == 0);
        break;
    case AGENT_WRONG_MAGIC:
        agent->pages[index]->magic = 1;
        break;
    case AGENT_OLDER_PAGE:
        agent->pages[index]->version = 1;
        break;
    case AGENT_NEWER_PAGE:
        agent->pages[index]->version = VSCAF_PAGE_VERSION + 1;
        break;
    case AGENT_NO_PAGE:
        with_page = false;
        break;
    default:
        break;
    }
    if (with_page && answer != AGENT_UNSEALED && !(fcntl(memfd, F_GET_SEALS) & F_SEAL_SEAL))
        CHECK(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = &welcome, .iov_len = sizeof welcome};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (with_page) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(part), &memfd, sizeof memfd);
    }
    memcpy(agent->state->name[index], join.name, sizeof join.name);
    agent->state->process[index] = peer.pid;
    if (joins(answer))
        agent->state->joins++;
    CHECK(sendmsg(client, &message, MSG_NOSIGNAL) == (ssize_t)sizeof welcome);
    agent->state->answered++;
}

static void serve(struct agent *agent, int listener, enum agent_answer answer)
{
    struct pollfd watched[AGENT_PAGES * 4 + 1] = {{.fd = listener, .events = POLLIN}};
    int page_of[AGENT_PAGES * 4 + 1];
    nfds_t count = 1;
    agent->state->listening = true;
    for (;;) {
        if (ppoll(watched, count, NULL, NULL) < 0)
            continue;
        if (watched[0].revents) {
            int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            CHECK(client >= 0);
            agent->state->connections++;
            struct timespec late = {.tv_nsec = 500000000};
            if (answer == AGENT_LATE || answer == AGENT_LATE_CLOSES)
                nanosleep(&late, NULL);
            if (answer == AGENT_HELD)
                WAIT_UNTIL(agent->state->released, (void)0);
            if (answer == AGENT_CLOSES || answer == AGENT_LATE_CLOSES) {
                close(client);
                continue;
            }
            CHECK(count < sizeof watched / sizeof watched[0]);
            page_of[count] = joins(answer) ? agent->state->joins : -1;
            watched[count++] = (struct pollfd){.fd = client, .events = POLLIN};
            if (answer != AGENT_SILENT)
                answer_to(agent, client, answer);
        }
        for (nfds_t i = 1; i < count; i++) {
            if (answer != AGENT_SILENT && watched[i].fd >= 0 && watched[i].revents) {
                struct vscaf_call call = {0};
                ssize_t received = recv(watched[i].fd, &call, sizeof call, MSG_TRUNC);
                if (agent->state->calls_awaited && received > 0) {
                    CHECK(received == (ssize_t)sizeof call && call.magic == VSCAF_CALL_MAGIC && page_of[i] >= 0);
                    /* In this order: a test that sees the number also sees that the call was counted. */
                    agent->state->calls[page_of[i]]++;
                    agent->state->call_number[page_of[i]] = call.number;
                    continue;
                }
                CHECK(received <= 0, "a process sent more than its join");
                close(watched[i].fd);
                watched[i].fd = -1;
                if (page_of[i] >= 0)
                    agent->state->closed[page_of[i]] = 1;
            }
        }
    }
}

void agent_start(struct agent *agent, enum agent_answer answer)
{
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(listener >= 0);
    strcpy(address.sun_path, agent->path);
    unlink(agent->path);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
    pid_t parent = getpid();
    agent->state->listening = false;
    agent->state->answers = answer != AGENT_SILENT && answer != AGENT_LATE && answer != AGENT_LATE_CLOSES
                             && answer != AGENT_HELD;
    agent->pid = fork();
    CHECK(agent->pid >= 0);
    if (agent->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        serve(agent, listener, answer);
        _exit(0);
    }
    close(listener);
    cleaned.pid = agent->pid;
    WAIT_UNTIL(agent->state->listening, (void)0);
}

void agent_kill(struct agent *agent)
{
    kill(agent->pid, SIGKILL);
    waitpid(agent->pid, NULL, 0);
    agent->pid = cleaned.pid = 0;
}

void agent_run(struct agent *agent, uint32_t team_size, uint32_t team_limit)
{
    agent_prepare(agent, team_size, team_limit);
    agent_start(agent, AGENT_JOINS);
}
