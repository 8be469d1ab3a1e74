/* Runs one command under the shim, with a scripted agent, and tells what the shim published:
 *
 *     bench-run [--team N] [--limit N] [--learn] [--resize HZ,FROM,TO] [--leaks] [--looks N] [--sections N]
 *               [--estimate-after SECONDS] COMMAND...
 *
 * On its standard error, at the end, one line of JSON: wall and CPU time, how long the page had each team size, how
 * often it got one and how many of these changes the command's sections followed, what the page said after so many
 * seconds and at the end; with --leaks, by how much the command's threads, descriptors and memory (KiB) grew while it
 * ran, looked at ten times a second, but only when --sections more of them have ended since the last look. After --looks
 * of these the command is sent SIGTERM. The exit status is the command's.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/support/agent.h"
#include "../tests/support/check.h"
#include "leaks.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What a page says now, as JSON. `team_sizes`: those that were seen, one bit each. */
static void describe(char *text, size_t size, const struct vscaf_page *page, uint32_t team_sizes)
{
    size_t used = 0;
#define SAY(...) used += (size_t)snprintf(text + used, used < size ? size - used : 0, __VA_ARGS__)
    SAY("{\"started\": %" PRIu64 ", \"team_sizes\": %d, \"section_seconds\": %.6f, "
        "\"program\": %u, \"malleable\": %u, \"learn_cost_seconds\": %.6f, \"learn_base_seconds\": %.6f, "
        "\"estimates\": [",
        page->started + page->started_others, __builtin_popcount(team_sizes), (double)page->section_ns * 1e-9,
        page->program, page->malleable, (double)page->learn_cost_ns * 1e-9,
        (double)page->learn_base_ns * 1e-9);
    for (uint32_t i = 0; i < page->estimates_used && i < VSCAF_ESTIMATES; i++) {
        const struct vscaf_estimate *estimate = &page->estimates[i];
        SAY("%s{\"p\": %u, \"speedup\": %.6f, \"standard_error\": %.6f, \"samples\": %u}", i ? ", " : "",
            estimate->team_size, (double)estimate->speedup_millionths * 1e-6,
            (double)estimate->standard_error_millionths * 1e-6, estimate->samples);
    }
    const struct vscaf_decomposition *parts = &page->decomposition;
    SAY("], \"decomposition\": {\"total\": %" PRIu64 ", \"useful\": %" PRIu64 ", \"inflation\": %" PRIu64
        ", \"fork\": %" PRIu64 ", \"dispatch\": %" PRIu64 ", \"barrier\": %" PRIu64 ", \"steal\": %" PRIu64
        ", \"sections\": %" PRIu64 "}}",
        parts->total, parts->useful, parts->inflation, parts->fork, parts->dispatch, parts->barrier, parts->steal,
        parts->sections);
#undef SAY
    CHECK(used < size);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"team", required_argument, NULL, 't'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"learn", no_argument, NULL, 'L'},
                                            {"resize", required_argument, NULL, 'r'},
                                            {"leaks", no_argument, NULL, 'k'},
                                            {"looks", required_argument, NULL, 'o'},
                                            {"sections", required_argument, NULL, 's'},
                                            {"estimate-after", required_argument, NULL, 'e'},
                                            {NULL, 0, NULL, 0}};
    unsigned team = 2, limit = 0, from = 0, to = 0;
    double hertz = 0.0, estimate_after = 5.0;
    bool learn = false, look = false;
    uint64_t looks_most = UINT64_MAX, sections_least = 0, sections_seen = 0;
    int option;
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (option) {
        case 't': team = (unsigned)atoi(optarg); break;
        case 'l': limit = (unsigned)atoi(optarg); break;
        case 'L': learn = true; break;
        case 'k': look = true; break;
        case 'o': looks_most = strtoul(optarg, NULL, 10); break;
        case 's': sections_least = strtoul(optarg, NULL, 10); break;
        case 'e': estimate_after = atof(optarg); break;
        case 'r':
            if (sscanf(optarg, "%lf,%u,%u", &hertz, &from, &to) == 3 && hertz > 0.0 && from >= 1 && from <= to)
                break;
            fprintf(stderr, "bench-run: --resize wants HZ,FROM,TO\n");
            return 2;
        default: return 2;
        }
    }
    if (team > 31 || to > 31) {
        fprintf(stderr, "bench-run: at most 31 threads\n");
        return 2;
    }
    if (optind >= argc) {
        fprintf(stderr, "bench-run: no command\n");
        return 2;
    }
    struct agent agent;
    agent_prepare(&agent, team, limit ? limit : to > team ? to : team);
    for (int i = 0; i < AGENT_PAGES; i++)
        agent.pages[i]->control = learn ? VSCAF_CONTROL_LEARN : VSCAF_CONTROL_EXCLUSIVE;
    agent_start(&agent, AGENT_JOINS);
    const char *library = getenv("VSCAF_BENCH_PRELOAD");
    double began = seconds();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (library)
            setenv("LD_PRELOAD", library, 1);
        execvp(argv[optind], argv + optind);
        fprintf(stderr, "bench-run: %s: %s\n", argv[optind], strerror(errno));
        _exit(127);
    }
    static char early[8192] = "null", late[8192];
    uint64_t random = 88172645463325252u;
    double next_resize = began + (hertz > 0.0 ? 1.0 / hertz : 1e9);
    bool early_taken = false;
    int status = 0;
    struct leaks leaks = {0};
    unsigned resizes = 0, followed = 0, size = team, size_followed = team;
    uint32_t team_sizes = 0;
    double seconds_at[32] = {0.0}, since = began;
    double next_look = began + 0.1;
    struct timespec pause = {.tv_nsec = hertz > 50.0 ? (long)(0.5e9 / hertz) : 10000000};
    for (;;) {
        pid_t ended = waitpid(child, &status, WNOHANG);
        CHECK(ended >= 0);
        if (ended == child)
            break;
        nanosleep(&pause, NULL);
        double now = seconds();
        if (agent.pages[0]->team_last > 0)
            team_sizes |= UINT32_C(1) << (agent.pages[0]->team_last % 32);
        if (!early_taken && now - began >= estimate_after) {
            early_taken = true;
            describe(early, sizeof early, agent.pages[0], team_sizes);
        }
        uint64_t sections = agent.pages[0]->finished + agent.pages[0]->finished_others;
        if (look && now >= next_look && sections - sections_seen >= sections_least) {
            next_look = now + 0.1;
            sections_seen = sections;
            leaks_look(&leaks, child);
            if (leaks.count == looks_most)
                kill(child, SIGTERM);
        }
        if (now >= next_resize) {
            next_resize += 1.0 / hertz;
            if (next_resize < now)
                next_resize = now; /* this process was not run for a while: no use in hurrying */
            resizes++;
            /* Of the changes while one section runs, at most one is followed. */
            if (size != size_followed && agent.pages[0]->team_last == size) {
                size_followed = size;
                followed++;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            seconds_at[size] += now - since;
            since = now;
            size = from + (uint32_t)(random >> 33) % (to - from + 1);
            for (int i = 0; i < AGENT_PAGES; i++)
                agent.pages[i]->team_size = size;
        }
    }
    double ended = seconds();
    seconds_at[size] += ended - since;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    describe(late, sizeof late, agent.pages[0], team_sizes);
    char grown[128] = "null";
    size_t looks = leaks.count;
    if (look) {
        struct leaks_sample by = leaks_grown(&leaks, (int)(to > team ? to : team));
        leaks_free(&leaks);
        if (by.threads >= 0)
            snprintf(grown, sizeof grown, "{\"threads\": %d, \"descriptors\": %d, \"memory\": %ld}", by.threads,
                     by.descriptors, by.memory_kib);
    }
    fprintf(stderr, "{\"seconds_at\": {\"0\": 0.0");
    for (unsigned i = 1; i < sizeof seconds_at / sizeof seconds_at[0]; i++)
        if (seconds_at[i] > 0.0)
            fprintf(stderr, ", \"%u\": %.6f", i, seconds_at[i]);
    fprintf(stderr, "}, \"wall_seconds\": %.6f, \"cpu_seconds\": %.6f, \"resizes\": %u, \"followed\": %u, \"looks\": %zu, \"leaks\": %s, "
            "\"early\": %s, \"end\": %s}\n", ended - began,
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
            resizes, followed, looks, grown, early, late);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
