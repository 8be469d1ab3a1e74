/* The agent's surroundings:
 *
 *     bench-agent-machine host SOCKET      the host's end of the port: takes reports and reads them away
 *     bench-agent-machine soak             takes all CPU time that nobody else wants
 *
 * Each answers every line on its standard input with one line: host with the number of reports and the bytes of the
 * last one; soak with the CPU time in ns that it has had and the rounds of work that it has done. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "joining.h"

#define SOAKERS_MAX 256
#define ROUND_TURNS 10000u

static int run_host(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        joining_fail(path);
    }
    strcpy(address.sun_path, path);
    unlink(path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1) != 0)
        joining_fail(path);
    puts("listening");
    struct pollfd first[2] = {{.fd = listener, .events = POLLIN}, {.fd = STDIN_FILENO}};
    if (poll(first, 2, -1) < 0 || first[0].revents == 0)
        return 0; /* the other end hung up before an agent came */
    int agent = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    static const char hello[] = "{\"v\":1,\"type\":\"hello\",\"daemon\":\"bench\",\"capabilities\":[\"quiet\",\"sparse\"]}\n";
    if (agent < 0 || send(agent, hello, sizeof(hello) - 1, MSG_NOSIGNAL) < 0)
        joining_fail(path);
    uint64_t lines = 0, bytes = 0, last = 0;
    for (;;) {
        struct pollfd polls[2] = {{.fd = agent, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
        static char data[65536];
        if (poll(polls, 2, -1) < 0)
            continue;
        if (polls[0].revents != 0) {
            ssize_t got = recv(agent, data, sizeof(data), 0);
            if (got <= 0)
                return 0;
            for (const char *at = data, *end; at < data + got; at = end + 1) {
                end = memchr(at, '\n', (size_t)(data + got - at));
                if (end == NULL) {
                    bytes += (uint64_t)(data + got - at);
                    break;
                }
                last = bytes + (uint64_t)(end - at) + 1;
                bytes = 0;
                lines++;
            }
        }
        if (polls[1].revents != 0) {
            if (read(STDIN_FILENO, data, sizeof(data)) <= 0)
                return 0;
            printf("%" PRIu64 " %" PRIu64 "\n", lines, last);
        }
    }
}

static _Atomic uint64_t rounds[SOAKERS_MAX];

static void *soak(void *argument)
{
    size_t number = (size_t)(uintptr_t)argument;
    const struct sched_param lowest = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &lowest) != 0) /* 0: this thread alone */
        joining_fail("SCHED_IDLE");
    for (;;) {
        for (volatile uint32_t turn = 0; turn < ROUND_TURNS; turn++)
            ;
        atomic_store_explicit(&rounds[number], rounds[number] + 1, memory_order_relaxed);
    }
    return NULL;
}

/* One thread on each CPU, of the class that runs only when nothing else wants to; this one answers. */
static int run_soakers(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        joining_fail("affinity");
    clockid_t clocks[SOAKERS_MAX];
    size_t count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < SOAKERS_MAX; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setaffinity_np(&attributes, sizeof(one), &one);
        pthread_t thread;
        errno = pthread_create(&thread, &attributes, soak, (void *)(uintptr_t)count);
        if (errno != 0)
            joining_fail("cannot start a thread");
        pthread_attr_destroy(&attributes);
        pthread_getcpuclockid(thread, &clocks[count++]);
    }
    puts("soaking");
    char line[16];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        uint64_t ns = 0, done = 0;
        for (size_t i = 0; i < count; i++) {
            struct timespec time;
            if (clock_gettime(clocks[i], &time) == 0)
                ns += (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
            done += atomic_load_explicit(&rounds[i], memory_order_relaxed);
        }
        printf("%" PRIu64 " %" PRIu64 "\n", ns, done);
    }
    return 0;
}

int main(int argc, char *argv[])
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "host") == 0)
        return run_host(argv[2]);
    if (argc == 2 && strcmp(argv[1], "soak") == 0)
        return run_soakers();
    fputs("Usage: bench-agent-machine host SOCKET | soak\n", stderr);
    return 2;
}
