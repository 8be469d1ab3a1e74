#include "scripted_agent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "programs/peer.h"

#define FIRST_PID 4000000 /* these programs do not exist: the test sets their CPU time */

uint64_t now_ns;
static uint64_t program_cpu_ns[PROGRAMS];
uint64_t held_up_ns;
double busy_ticks;
char directory[64], place[96];
static char sysfs[96], proc[96];
struct agent *agent;
struct options options;
const double NONE_RUNNING[PROGRAMS] = {0}, FIRST[PROGRAMS] = {1.0}, TWO[PROGRAMS] = {1.0, 1.0};

int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    uint64_t value_ns;
    if (id == CLOCK_MONOTONIC) {
        value_ns = now_ns;
    } else {
        int pid = (int)~((unsigned)id >> 3 | 7u << 29); /* the PID in the id of a process's clock */
        if (id >= 0 || pid < FIRST_PID || pid >= FIRST_PID + PROGRAMS)
            return __real_clock_gettime(id, time);
        now_ns += held_up_ns;
        program_cpu_ns[pid - FIRST_PID] += held_up_ns;
        held_up_ns = 0;
        value_ns = program_cpu_ns[pid - FIRST_PID];
    }
    *time = (struct timespec){(time_t)(value_ns / SECOND_NS), (long)(value_ns % SECOND_NS)};
    return 0;
}

void put(const char *above, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", above, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

void put_stat(void)
{
    char text[128];
    snprintf(text, sizeof(text), "cpu  %.0f 0 0 5000 0 0 0 0 0 0\nprocs_running 1\n", busy_ticks);
    put(proc, "stat", text);
}

int begin(void **state)
{
    (void)state;
    now_ns = 1000 * SECOND_NS;
    busy_ticks = 1000.0;
    memset(program_cpu_ns, 0, sizeof(program_cpu_ns));
    strcpy(directory, "/tmp/vscaf-agent-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(place, sizeof(place), "%s/agent.sock", directory);
    snprintf(sysfs, sizeof(sysfs), "%s/sys", directory);
    snprintf(proc, sizeof(proc), "%s/proc", directory);
    put(sysfs, "devices/system/cpu/possible", "0-3\n");
    put(sysfs, "devices/system/cpu/present", "0-3\n");
    put(sysfs, "devices/system/cpu/online", "0-3\n");
    put(sysfs, "devices/system/cpu/cpu0/none", "");
    for (int cpu = 1; cpu < CPUS; cpu++) {
        char name[64];
        snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/online", cpu);
        put(sysfs, name, "1\n");
    }
    put_stat();
    options = (struct options){.socket = place,
                               .sysfs = sysfs,
                               .proc = proc,
                               .port = "none",
                               .park = PARK_OFFLINE,
                               .period_ms = PERIOD_MS,
                               .per_user = CLIENTS_MAX,
                               .contain = CONTAIN_NONE,
                               .learn_budget_ppm = 10000};
    agent = calloc(1, sizeof(*agent));
    if (agent == NULL || agent_start(agent, &options) != 0)
        return -1;
    switcher_close(&agent->allocation.switcher); /* this thread switches the CPUs, not another one */
    agent->allocation.switcher.event = -1;
    return 0;
}

int end(void **state)
{
    (void)state;
    char command[128];
    agent_stop(agent);
    free(agent);
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command);
}

struct client *join(uint32_t number)
{
    struct client *client = &agent->clients.slots[agent->clients.end++];
    void *page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    *client = (struct client){.fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                              .pid = FIRST_PID + (pid_t)number,
                              .pidfd = PEER_NO_PIDFD,
                              .page = page,
                              .newcomer = true,
                              .running = true};
    agent->clients.joined++;
    agent_joined(agent, client, now_ns);
    agent_split(agent);
    agent_update_demand(agent);
    return client;
}

struct client *join_and_look(uint32_t number)
{
    struct client *client = join(number);
    now_ns += CLIENTS_OUTGROWN_NS;
    agent_advance(agent, now_ns);
    return client;
}

void pass(uint64_t time_ns, const double cpus[PROGRAMS], double others_cpus)
{
    double sum = others_cpus, seconds = (double)time_ns / (double)SECOND_NS;
    for (int i = 0; i < PROGRAMS; i++) {
        sum += cpus[i];
        program_cpu_ns[i] += (uint64_t)(cpus[i] * (double)time_ns);
    }
    busy_ticks += sum * seconds * TICKS;
    put_stat();
    now_ns += time_ns;
    agent_period(agent, now_ns);
}

void periods(unsigned count, const double cpus[PROGRAMS], double others_cpus)
{
    while (count-- > 0)
        pass(PERIOD_MS * MS_NS, cpus, others_cpus);
}

uint32_t team(const struct client *client)
{
    return atomic_load(&client->page->team_size);
}

uint64_t settle(void)
{
    for (int turn = 0; turn < 10000 && agent->allocation.phase != ALLOCATION_SETTLED; turn++) {
        uint64_t next_ns = agent_advance(agent, now_ns);
        assert_int_not_equal(next_ns, UINT64_MAX);
        if (agent->allocation.phase == ALLOCATION_WAITING)
            assert_int_equal(cpu_set_count(&agent->cpus.online), CPUS);
        now_ns = next_ns > now_ns ? next_ns : now_ns;
    }
    assert_int_equal(agent->allocation.phase, ALLOCATION_SETTLED);
    return now_ns;
}

void order(uint32_t cpus, uint32_t deadline_ms)
{
    static int64_t sequence = 100;
    struct wire_allocate wanted = {
        .sequence = ++sequence, .cpus = cpus, .limit = CPUS, .competition = false, .deadline_ms = deadline_ms};
    agent_order(agent, &wanted, now_ns);
}
