#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "system/clock.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

int fuzz_stderr = STDERR_FILENO;

static struct agent *agent;
static const struct options options = {
    .socket = "none", .sysfs = "sys", .proc = "proc", .period_ms = 250, .learn_budget_ppm = 10000};

uint64_t take_number(struct bytes *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size && bytes->left > 0; i++, bytes->left--)
        number |= (uint64_t)*bytes->at++ << (8 * i);
    return number;
}

const char *take_bytes(struct bytes *bytes, size_t most, size_t *length)
{
    *length = bytes->left < most ? bytes->left : most;
    const char *taken = (const char *)bytes->at;
    bytes->at += *length;
    bytes->left -= *length;
    return taken;
}

void write_file(const char *path, const char *text, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0);
    MUST(write(fd, text, length) == (ssize_t)length);
    close(fd);
}

static void write_new(const char *path, const char *text)
{
    char directory[256];
    for (size_t i = 1; path[i] != '\0'; i++)
        if (path[i] == '/') {
            snprintf(directory, sizeof(directory), "%.*s", (int)i, path);
            MUST(mkdir(directory, 0700) == 0 || errno == EEXIST);
        }
    write_file(path, text, strlen(text));
}

static void online_file(char path[64], uint32_t cpu)
{
    snprintf(path, 64, "sys/devices/system/cpu/cpu%u/online", cpu);
}

static bool cpus_fixed;

void fix_cpu(uint32_t cpu)
{
    char path[64];
    if (cpu > 0) {
        online_file(path, cpu);
        unlink(path);
        cpus_fixed = true;
        return;
    }
    for (cpu = 1; cpu < FUZZ_CPUS; cpu++) {
        online_file(path, cpu);
        write_new(path, "1\n");
    }
    cpus_fixed = false;
}

/* Works in the current directory: run.py starts each program in a directory of its own. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    fuzz_stderr = dup(STDERR_FILENO);
    write_new("sys/devices/system/cpu/possible", "0-3\n");
    write_new("sys/devices/system/cpu/present", "0-3\n");
    write_new("sys/devices/system/cpu/online", "0-3\n");
    MUST(mkdir("sys/devices/system/cpu/cpu0", 0700) == 0 || errno == EEXIST);
    fix_cpu(0);
    write_new("proc/stat", "cpu  1000 0 0 5000 0 0 0 900 0 0\nprocs_running 1\n");
    write_new("proc/0/task/11/schedstat", "1 2 3\n");
    write_new("proc/0/task/12/schedstat", "1 2 3\n");
    agent = calloc(1, sizeof(*agent));
    MUST(agent != NULL);
    return 0;
}

static void stop_agent(void)
{
    static bool begun;
    if (begun)
        agent_stop(agent);
    begun = true;
    memset(agent, 0, sizeof(*agent));
}

struct agent *agent_reset(uint32_t clients)
{
    stop_agent();
    agent->options = agent->allocation.options = &options;
    agent->allocation.cpus = &agent->cpus;
    agent->period_ns = (uint64_t)options.period_ms * UINT64_C(1000000);
    agent->can_switch = true;
    agent->shares.barrier = IN_FLIGHT_BARRIER_NONE;
    snprintf(agent->boot_id, sizeof(agent->boot_id), "fuzz");
    port_init(&agent->port, "none", "sys");
    agent->clients.listener = agent->clients.epoll = agent->allocation.uevents = agent->allocation.switcher.event = -1;
    agent->contain.method = CONTAIN_NONE; /* nothing on this machine is changed */
    agent->process_cpus = (struct process_cpus){.proc = "proc", .cpus = &agent->cpus};
    agent->chunk = 1;
    for (uint32_t i = 0; i < clients && i < FUZZ_CLIENTS_MAX; i++) {
        struct client *client = &agent->clients.slots[i];
        client->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        void *page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(client->fd >= 0 && page != MAP_FAILED);
        client->page = page;
        client->pidfd = PEER_NO_PIDFD;
        client->running = client->newcomer = true;
        snprintf(client->name, sizeof(client->name), "program %u", i);
        agent->clients.joined++;
        agent->clients.end++;
    }
    if (cpus_fixed)
        fix_cpu(0);
    MUST(cpus_read(&agent->cpus, options.sysfs) == 0);
    agent->period_last_ns = monotonic_ns();
    agent->period_next_ns = agent->period_last_ns + agent->period_ns;
    agent_split(agent); /* as main.c does after a join */
    agent_update_demand(agent);
    return agent;
}

void check_agent(const struct agent *checked)
{
    uint32_t sum = 0, running = 0, limit = agent_budget(checked).team_limit;
    for (uint32_t i = 0; i < checked->clients.end; i++) {
        const struct client *client = &checked->clients.slots[i];
        if (client->page == NULL)
            continue;
        MUST(client->share >= 1 && client->share <= limit);
        MUST(atomic_load(&client->page->team_size) <= limit);
        if (!client->running)
            continue;
        sum += client->share;
        running++;
    }
    uint32_t budget = agent_budget(checked).guest;
    MUST(sum <= (budget > running ? budget : running));
    MUST(checked->shares.demand <= limit);
    MUST(cpu_set_has(&checked->cpus.online, 0));
}
