/* Runs a program under the shim as a scripted agent, which changes the program's team every few sections:
 *
 *   generated-driver OPTION... -- PROGRAM ARGUMENT...
 *
 *   --shim PATH       the shim; it goes into LD_PRELOAD
 *   --report PATH     a JSON file: what was seen
 *   --told N          the number of threads that the program is told
 *   --limit N         the largest team that may ever come
 *   --seed N          of the sizes, and of when they change
 *   --every N         a size holds for 1 to N sections
 *   --known           verdicts are on the page when the program joins; otherwise it must ask
 *   --learn           learning is on
 *   --all-free        every section counts as FREE, also for a shim that reads code itself. This makes programs wrong
 *   --hang SECONDS    then the program is killed
 *
 *   generated-driver --inspect OBJECT...    prints the verdicts on their sections
 *
 * Exits as the program does: its status, 128 + signal, or 124 if it was killed because it hangs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vscaf/page.h>
#include <vscaf/verdict.h>

#include "objects.h"

#define CHECK(condition) ((condition) ? (void)0 : fail(#condition))
#define PERIOD_NS 50000 /* between two looks at the page */
#define STATUS_HUNG 124
#define STATUS_DRIVER 125 /* the driver itself cannot go on */

static void fail(const char *what)
{
    fprintf(stderr, "generated-driver: %s: %s\n", what, strerror(errno));
    exit(STATUS_DRIVER);
}

static const char *shim, *report;
static uint32_t told = 1, limit = 1, every = 4;
static uint64_t seed = 1;
static double hang_s = 60;
static bool known, learn;

static uint64_t random_below(uint64_t bound)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % bound;
}

/* The process that joined. Only one does: generated programs do not start others. */
static struct vscaf_page *page;
static pid_t process;
static uint32_t answered;
static uint64_t next_change, changes, samples, samples_resized, sections_seen;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One thread alone and the program's own number are more interesting than the others. */
static uint32_t random_size(void)
{
    uint64_t kind = random_below(10);
    if (kind < 3)
        return 1;
    if (kind < 5)
        return told;
    return 1 + (uint32_t)random_below(limit);
}

static void answer_sights(void)
{
    uint32_t used = atomic_load_explicit(&page->sights_used, memory_order_acquire);
    if (used > VSCAF_SIGHTS)
        used = VSCAF_SIGHTS;
    while (answered < used) {
        if (random_below(4) == 0) /* some answers come late */
            return;
        struct vscaf_sight *sight = &page->sights[answered];
        uint32_t verdict = objects_verdict(process, sight->address);
        atomic_store_explicit(&sight->answer, vscaf_answer(verdict), memory_order_release);
        answered++;
    }
}

static void change_team(void)
{
    uint64_t started = page->started + page->started_others;
    if (started != sections_seen) {
        sections_seen = started;
        uint32_t last = page->team_last;
        samples++;
        samples_resized += last != 0 && last != told;
    }
    if (started < next_change)
        return;
    uint32_t size = random_size();
    changes += size != page->team_size;
    page->team_size = size;
    if (learn)
        page->control = random_below(2) ? VSCAF_CONTROL_LEARN : 0;
    next_change = started + 1 + random_below(every);
}

static void answer_join(int client)
{
    struct vscaf_join join;
    ssize_t got = recv(client, &join, sizeof join, 0);
    if (got != (ssize_t)sizeof join || page)
        return;
    struct ucred peer;
    socklen_t length = sizeof peer;
    CHECK(getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0);
    process = peer.pid;
    int memfd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memfd >= 0 && ftruncate(memfd, VSCAF_PAGE_BYTES) == 0);
    CHECK(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    CHECK(page != MAP_FAILED);
    page->magic = VSCAF_PAGE_MAGIC;
    page->version = VSCAF_PAGE_VERSION;
    page->bytes = VSCAF_PAGE_BYTES;
    page->team_told = told;
    page->team_limit = limit;
    page->team_size = random_size();
    page->learn_budget_ppm = learn ? 100000 : 0;
    if (known)
        objects_fill_known(process, page);
    struct vscaf_welcome welcome = {VSCAF_PAGE_MAGIC, VSCAF_PAGE_VERSION, VSCAF_JOINED, VSCAF_PAGE_BYTES};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {.iov_base = &welcome, .iov_len = sizeof welcome};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &memfd, sizeof memfd);
    /* A process that has ended meanwhile is no error. */
    if (sendmsg(client, &message, MSG_NOSIGNAL) != (ssize_t)sizeof welcome)
        perror("generated-driver: sendmsg");
    close(memfd);
}

static void parse(int count, char **words, char ***program)
{
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        if (strcmp(word, "--") == 0 && i + 1 < count) {
            *program = words + i + 1;
            return;
        }
        if (strcmp(word, "--known") == 0) {
            known = true;
        } else if (strcmp(word, "--learn") == 0) {
            learn = true;
        } else if (strcmp(word, "--all-free") == 0) {
            objects_all_free = true;
        } else if (i + 1 < count) {
            const char *value = words[++i];
            if (strcmp(word, "--shim") == 0)
                shim = value;
            else if (strcmp(word, "--report") == 0)
                report = value;
            else if (strcmp(word, "--told") == 0)
                told = (uint32_t)strtoul(value, NULL, 10);
            else if (strcmp(word, "--limit") == 0)
                limit = (uint32_t)strtoul(value, NULL, 10);
            else if (strcmp(word, "--seed") == 0)
                seed = strtoull(value, NULL, 10) * 0x9e3779b97f4a7c15u | 1u;
            else if (strcmp(word, "--every") == 0)
                every = (uint32_t)strtoul(value, NULL, 10);
            else if (strcmp(word, "--hang") == 0)
                hang_s = strtod(value, NULL);
            else
                fail(word);
        }
    }
    fail("usage: generated-driver OPTION... -- PROGRAM ARGUMENT...");
}

static pid_t start(char **program, const char *socket_path)
{
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(STATUS_DRIVER);
    CHECK(setenv("VSCAF_SOCKET", socket_path, 1) == 0 && (!shim || setenv("LD_PRELOAD", shim, 1) == 0));
    /* The user declares that the program may be resized: what a shim has as rules of its own does not hold then. */
    if (objects_all_free)
        CHECK(setenv("VSCAF_MALLEABLE", "full", 1) == 0);
    execv(program[0], program);
    fail(program[0]);
    return 0;
}

static void write_report(int status, bool hung)
{
    FILE *out = report ? fopen(report, "we") : stderr;
    CHECK(out);
    fprintf(out,
            "{\"status\": %d, \"hung\": %s, \"joined\": %s, \"started\": %" PRIu64 ", \"changes\": %" PRIu64
            ", \"samples\": %" PRIu64 ", \"samples_resized\": %" PRIu64 ", \"asked\": %u, \"sections\": ",
            status, hung ? "true" : "false", page ? "true" : "false", page ? page->started + page->started_others : 0,
            changes, samples, samples_resized, page ? page->sights_used : 0);
    objects_print(out);
    fputs("}\n", out);
    CHECK(!report || fclose(out) == 0);
}

int main(int count, char **words)
{
    char **program = NULL;
    if (count > 2 && strcmp(words[1], "--inspect") == 0) {
        for (int i = 2; i < count; i++)
            CHECK(objects_inspect(words[i]));
        objects_print(stdout);
        return 0;
    }
    parse(count, words, &program);
    prctl(PR_SET_TIMERSLACK, 1ul);
    char directory[] = "/tmp/vscaf-generated-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(mkdtemp(directory));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", directory);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 8) == 0);
    /* Before it starts: a program that joins waits for its first page for 5 s only, and to read ft.S alone takes 3 s. */
    char *path = known ? realpath(program[0], NULL) : NULL;
    if (path)
        objects_inspect(path);
    free(path);
    pid_t child = start(program, address.sun_path);
    struct pollfd watched = {.fd = listener, .events = POLLIN};
    double deadline = now_s() + hang_s;
    int status = 0;
    bool hung = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        struct timespec period = {.tv_nsec = PERIOD_NS};
        if (ppoll(&watched, 1, &period, NULL) > 0) {
            int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            /* It stays open until the end: a closed one would say that the agent is gone. */
            if (client >= 0)
                answer_join(client);
        }
        if (page) {
            answer_sights();
            change_team();
        }
        if (!hung && now_s() > deadline) {
            hung = true;
            kill(child, SIGKILL);
        }
    }
    unlink(address.sun_path);
    rmdir(directory);
    int code = hung ? STATUS_HUNG : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    write_report(code, hung);
    return code;
}
