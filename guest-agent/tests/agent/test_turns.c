/* The agent over time, on a clock that the test drives (linked with --wrap=clock_gettime). It checks when things happen
 * and how CPU time is judged, even if the test machine is busy. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/messages.h"
#include "programs/peer.h"

#define CPUS 4
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS UINT64_C(1000000)
#define PERIOD_MS 250
#define TICKS 100 /* ticks per second in /proc/stat */
#define PROGRAMS 3
#define FIRST_PID 4000000 /* these programs do not exist: the test sets their CPU time */

static uint64_t now_ns, program_cpu_ns[PROGRAMS];
static uint64_t held_up_ns; /* the agent gets no CPU for so long, before it next reads a program's CPU time */
static double busy_ticks;
static char directory[64], place[96], sysfs[96], proc[96];
static struct agent *agent;
static struct options options;

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

static void put(const char *above, const char *name, const char *text)
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

static void put_stat(void)
{
    char text[128];
    snprintf(text, sizeof(text), "cpu  %.0f 0 0 5000 0 0 0 0 0 0\nprocs_running 1\n", busy_ticks);
    put(proc, "stat", text);
}

static int begin(void **state)
{
    (void)state;
    now_ns = 1000 * SECOND_NS;
    busy_ticks = 1000.0;
    memset(program_cpu_ns, 0, sizeof(program_cpu_ns));
    strcpy(directory, "/tmp/vscaf-turns-XXXXXX");
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

static int end(void **state)
{
    (void)state;
    char command[128];
    agent_stop(agent);
    free(agent);
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command);
}

/* A program that has just joined. */
static struct client *join(uint32_t number)
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

/* Time passes and a period ends. The programs used `cpus` CPUs, and processes that never joined `others_cpus`. */
static void pass(uint64_t time_ns, const double cpus[PROGRAMS], double others_cpus)
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

static void periods(unsigned count, const double cpus[PROGRAMS], double others_cpus)
{
    while (count-- > 0)
        pass(PERIOD_MS * MS_NS, cpus, others_cpus);
}

static uint32_t team(const struct client *client)
{
    return atomic_load(&client->page->team_size);
}

static void learn(struct client *client, uint32_t team_size, uint64_t speedup_millionths)
{
    struct vscaf_estimate *estimate = &client->page->estimates[0];
    client->page->estimates_sequence++;
    estimate->team_size = team_size;
    estimate->speedup_millionths = speedup_millionths;
    estimate->standard_error_millionths = 20000;
    estimate->samples = 30;
    client->page->estimates_used = 1;
    client->page->estimates_sequence++;
}

static const double NONE_RUNNING[PROGRAMS] = {0}, FIRST[PROGRAMS] = {1.0}, TWO[PROGRAMS] = {1.0, 1.0};

static void test_silent_connection_is_dropped_after_its_time(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, place);
    char byte;
    int peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(peer, (const struct sockaddr *)&address, sizeof(address)), 0);
    clients_accept(&agent->clients, now_ns);
    uint64_t due_ns = now_ns + CLIENTS_SILENCE_NS;
    assert_int_equal(clients_drop_silent(&agent->clients, due_ns - 1), due_ns);
    assert_int_equal(recv(peer, &byte, 1, 0), -1); /* not closed yet */
    clients_drop_silent(&agent->clients, due_ns);
    assert_int_equal(recv(peer, &byte, 1, 0), 0);
    assert_int_equal(agent->clients.end, 0);
    close(peer);
}

/* The agent was held up. A peer that sent its packet meanwhile is served, however long ago it connected. */
static void test_who_has_spoken_is_not_silent(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, place);
    int peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct vscaf_join packet = {.magic = VSCAF_PAGE_MAGIC, .version = VSCAF_PAGE_VERSION, .name = "late"};
    assert_int_equal(connect(peer, (const struct sockaddr *)&address, sizeof(address)), 0);
    clients_accept(&agent->clients, now_ns);
    assert_int_equal(send(peer, &packet, sizeof(packet), 0), sizeof(packet));
    now_ns += 10 * CLIENTS_SILENCE_NS;
    clients_drop_silent(&agent->clients, now_ns);
    assert_int_equal(agent->clients.end, 1);
    assert_int_equal(clients_serve(&agent->clients, &agent->clients.slots[0], CPUS), CLIENTS_JOINED);
    close(peer);
}

/* A program needs two descriptors. With only one left, it hears that the agent is full, and the others wait. */
static void test_last_descriptor_is_no_hang_up(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, place);
    int peers[3], fillers[64], filled = 0;
    for (int i = 0; i < 3; i++) {
        peers[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        assert_int_equal(connect(peers[i], (const struct sockaddr *)&address, sizeof(address)), 0);
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((fillers[filled] = dup(peers[0])) >= 0)
        filled++;
    assert_true(filled > 0);
    close(fillers[--filled]);
    clients_accept(&agent->clients, now_ns);
    while (filled > 0)
        close(fillers[--filled]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

    struct vscaf_welcome welcome;
    assert_int_equal(recv(peers[0], &welcome, sizeof(welcome), 0), sizeof(welcome));
    assert_int_equal(welcome.status, VSCAF_JOIN_FULL);
    assert_int_equal(agent->clients.end, 0);
    assert_int_equal(clients_listener(&agent->clients, now_ns), -1);
    now_ns += SECOND_NS;
    assert_true(clients_listener(&agent->clients, now_ns) >= 0);
    clients_accept(&agent->clients, now_ns);
    assert_int_equal(agent->clients.end, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(recv(peers[i], &welcome, sizeof(welcome), 0), i == 0 ? 0 : -1);
        close(peers[i]);
    }
}

/* Under any load, serving programs takes at most its part of one CPU, and what was saved for a burst. */
static void test_serving_takes_its_part_of_a_cpu(void **state)
{
    (void)state;
    const uint64_t piece_ns = MS_NS, begin_ns = now_ns;
    int64_t used_ns = 0;
    clients_worked(&agent->clients, 0, now_ns);
    while (now_ns < begin_ns + 100 * SECOND_NS) { /* a flood: work whenever the listener is open */
        now_ns += piece_ns;
        if (clients_listener(&agent->clients, now_ns) < 0)
            continue;
        clients_worked(&agent->clients, piece_ns, now_ns);
        used_ns += (int64_t)piece_ns;
    }
    int64_t part_ns = (int64_t)(now_ns - begin_ns) * CLIENTS_WORK_PERCENT / 100;
    assert_in_range(used_ns, part_ns, part_ns + CLIENTS_WORK_BURST_NS + (int64_t)piece_ns);
}

/* Advances the agent until the order is applied. Returns the time. */
static uint64_t settle(void)
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

static void order(uint32_t cpus, uint32_t deadline_ms)
{
    static int64_t sequence = 100;
    struct wire_allocate wanted = {
        .sequence = ++sequence, .cpus = cpus, .limit = CPUS, .competition = false, .deadline_ms = deadline_ms};
    agent_order(agent, &wanted, now_ns);
}

static void test_shrink_waits_to_its_deadline_and_no_longer(void **state)
{
    (void)state;
    const struct client *client = join(0);
    atomic_store(&client->page->started, 1); /* this section does not end */
    uint64_t ordered_ns = now_ns;
    order(1, 300);
    assert_int_equal(team(client), 1);
    assert_int_equal(settle(), ordered_ns + 300 * MS_NS);
    assert_false(agent->allocation.sections_ended);
    assert_int_equal(cpu_set_count(&agent->cpus.online), 1);
}

static void test_shrink_ends_with_the_section(void **state)
{
    (void)state;
    const struct client *client = join(0);
    atomic_store(&client->page->started, 1);
    uint64_t ordered_ns = now_ns;
    order(1, 300);
    while (now_ns < ordered_ns + 100 * MS_NS) {
        uint64_t next_ns = agent_advance(agent, now_ns);
        assert_true(agent->allocation.phase == ALLOCATION_WAITING && next_ns > now_ns);
        now_ns = next_ns;
    }
    atomic_store(&client->page->finished, 1);
    assert_in_range(settle(), ordered_ns + 100 * MS_NS, ordered_ns + 110 * MS_NS);
    assert_true(agent->allocation.sections_ended);
}

static void test_parked_for_long_is_offlined(void **state)
{
    (void)state;
    join(0);
    agent->allocation.parking.offline_later = true;
    struct cpu_set parked = {0};
    cpu_set_add(&parked, 3);
    cpus_park(&agent->cpus, &parked);
    agent->allocation.parked_since_ns[3] = now_ns;
    agent->allocation.later_ns = 0;
    uint64_t due_ns = now_ns + 10 * SECOND_NS;
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    now_ns = due_ns - 1;
    agent_advance(agent, now_ns);
    assert_true(cpu_set_has(&agent->cpus.powered, 3));
    now_ns = due_ns;
    for (int turn = 0; turn < 5; turn++)
        agent_advance(agent, now_ns);
    assert_false(cpu_set_has(&agent->cpus.powered, 3));
    assert_true(cpu_set_has(&agent->cpus.powered, 2));
}

/* The agent ends after it has given the first CPUs to the kernel to park, and before it has taken the result. */
static void test_the_end_gives_back_what_is_just_being_parked(void **state)
{
    (void)state;
    char root[96], text[32] = "";
    snprintf(root, sizeof(root), "%s/cgroup", directory);
    put(root, "cgroup.subtree_control", "cpuset");
    put(root, "cpuset.cpus.effective", "0-1");
    put(root, PARKING_GROUP "/cgroup.subtree_control", "cpuset");
    put(root, PARKING_GROUP "/cpuset.cpus", "");
    put(root, PARKING_GROUP "/cpuset.cpus.partition", "member");
    struct parking *parking = &agent->allocation.parking;
    parking->by_cpuset = true;
    parking->tree.version = CGROUP_V2;
    snprintf(parking->tree.root, sizeof(parking->tree.root), "%s", root);
    order(2, 0);
    agent_advance(agent, now_ns);
    assert_int_equal(cgroup_read(&parking->tree, PARKING_GROUP, "cpuset.cpus.partition", text, sizeof(text)), 0);
    assert_string_equal(text, "isolated");
    assert_true(switcher_busy(&agent->allocation.switcher));
    allocation_stop(&agent->allocation);
    agent->allocation.uevents = -1; /* it is closed */
    assert_int_equal(cgroup_read(&parking->tree, PARKING_GROUP, "cpuset.cpus.partition", text, sizeof(text)), 0);
    assert_memory_equal(text, "member", strlen("member")); /* a plain file keeps the rest of a longer text */
}

static void test_held_up_makes_up_for_nothing(void **state)
{
    (void)state;
    join(0);
    periods(4, FIRST, 0.0);
    uint64_t beat = agent->clients.slots[0].page->agent_beat;
    pass(2 * SECOND_NS + 7 * MS_NS, FIRST, 0.0);
    assert_int_equal(agent->clients.slots[0].page->agent_beat, beat + 1);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    assert_float_equal(agent->measure.busy_cpus, 1.0, 0.01);
    assert_int_equal(agent->shares.demand, 4);
    busy_ticks += 1e9; /* the count of busy ticks jumped */
    periods(1, FIRST, 0.0);
    assert_float_equal(agent->measure.busy_cpus, CPUS, 0.0);
    busy_ticks = 0.0;
    periods(2, FIRST, 0.0);
    assert_float_equal(agent->measure.busy_cpus, 1.0, 0.01);
}

/* A program would be contained if it seemed to use more than its share. */
static void test_held_up_within_a_look_adds_no_load(void **state)
{
    (void)state;
    const struct client *client = join(0);
    periods(4, FIRST, 0.0);
    for (int look = 0; look < 4; look++) {
        assert_float_equal(client->load_cpus, 1.0, 0.01);
        held_up_ns = 100 * MS_NS;
        periods(1, FIRST, 0.0);
        assert_true(client->running && client->load_cpus < 1.01);
        periods(2, FIRST, 0.0);
    }
}

static void test_others_are_demand_and_then_none(void **state)
{
    (void)state;
    periods(4, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 0);
    periods(1, NONE_RUNNING, 1.6);
    assert_int_equal(agent->shares.demand, 0); /* one period is noise */
    periods(1, NONE_RUNNING, 1.6);
    assert_int_equal(agent->shares.demand, 2);
    periods(10, NONE_RUNNING, 1.2);
    assert_int_equal(agent->shares.demand, 1);
    periods(1, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 1);
    periods(2, NONE_RUNNING, 0.0);
    assert_int_equal(agent->shares.demand, 0);
}

static void test_others_keep_their_cpus(void **state)
{
    (void)state;
    const struct client *program = join(0);
    periods(8, FIRST, 0.0);
    assert_int_equal(team(program), 4);
    periods(60, FIRST, 2.0);
    assert_int_equal(team(program), 2);
    periods(60, FIRST, 3.0);
    assert_int_equal(team(program), 1);
    for (int period = 0; period < 60; period++) {
        periods(1, FIRST, 9.0);
        assert_int_equal(team(program), 1); /* it always keeps one */
    }
    const struct client *second = join(1);
    periods(4, TWO, 3.0);
    assert_int_equal(team(program), 1); /* each keeps one */
    assert_int_equal(team(second), 1);
    periods(120, TWO, 0.0);
    assert_int_equal(team(program), 2);
    assert_int_equal(team(second), 2);
}

static void test_what_others_use_is_asked_for(void **state)
{
    (void)state;
    struct client *program = join(0);
    atomic_store(&program->page->told, 2);
    periods(60, FIRST, 2.0);
    assert_int_equal(agent->shares.demand, 4);
    assert_int_equal(program->share, 2);
    order(4, 0);
    settle();
    periods(4, FIRST, 2.0);
    assert_int_equal(agent->shares.demand, 4);
    /* The host gives fewer CPUs. The others use the same CPUs as before, and the program gets the rest. */
    order(3, 0);
    settle();
    periods(4, FIRST, 2.0);
    assert_int_equal(program->share, 1);
    order(0, 0);
    settle();
    assert_int_equal(team(program), 1);
}

static void test_newcomer_has_an_equal_share_for_its_time(void **state)
{
    (void)state;
    struct client *good = join(0);
    learn(good, 4, 3900000);
    periods(20, FIRST, 0.0);
    assert_int_equal(team(good), 4);
    struct client *poor = join(1);
    learn(poor, 4, 1100000);
    uint64_t joined_ns = now_ns;
    do {
        assert_int_equal(team(good), 2);
        assert_int_equal(team(poor), 2);
        periods(1, TWO, 0.0);
    } while (now_ns < joined_ns + 2 * SECOND_NS);
    assert_int_equal(team(good), 3);
    assert_int_equal(team(poor), 1);
}

static void test_a_section_is_long_from_a_second_on(void **state)
{
    (void)state;
    struct client *program = join(0);
    for (uint64_t started = 1; started <= 2; started++) {
        atomic_store(&program->page->started, started);
        periods(1, FIRST, 0.0); /* the agent sees it for the first time */
        for (uint64_t seen_ns = now_ns; now_ns < seen_ns + SECOND_NS; periods(1, FIRST, 0.0))
            assert_false(program->long_section);
        assert_true(program->long_section);
        periods(8, FIRST, 0.0);
        assert_true(program->long_section);
        atomic_store(&program->page->finished, started);
        periods(1, FIRST, 0.0);
        assert_false(program->long_section);
    }
    for (uint64_t number = 3; number < 13; number++) { /* sections of half a second, one after the other */
        atomic_store(&program->page->finished, number - 1);
        atomic_store(&program->page->started, number);
        periods(2, FIRST, 0.0);
        assert_false(program->long_section);
    }
}

static void take(const char *line)
{
    messages_handle(agent, line, strlen(line));
}

/* Takes all lines that are due. True: the last one is a report that says that none follows. */
static bool reports_quiet(void)
{
    bool quiet = false, reported = false;
    char *line;
    now_ns += 20 * MS_NS; /* reports are at least so far apart */
    while ((line = messages_next(agent)) != NULL) {
        reported = strstr(line, "\"report\"") != NULL;
        quiet = strstr(line, "\"quiet\":true") != NULL;
        free(line);
    }
    assert_true(reported);
    return quiet;
}

#define HELLO_OF_QUIET_HOST "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\",\"capabilities\":[\"quiet\"]}"
#define HELLO_OF_SPARSE_HOST \
    "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\",\"capabilities\":[\"quiet\",\"sparse\"]}"
#define HELLO_OF_OLDER_HOST "{\"v\":1,\"type\":\"hello\",\"daemon\":\"d\"}"

static void test_quiet_until_something_changes(void **state)
{
    (void)state;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC); /* connected */
    take(HELLO_OF_QUIET_HOST);
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_int_equal(agent->period_next_ns, now_ns + AGENT_QUIET_NS);
    assert_true(reports_quiet());
    for (int look = 0; look < 3; look++) {
        pass(AGENT_QUIET_NS, NONE_RUNNING, 0.0);
        assert_null(messages_next(agent));
    }
    order(0, 100); /* an order is answered, and applied before the agent is quiet again */
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    order(2, 100);
    periods(1, NONE_RUNNING, 0.0);
    assert_false(reports_quiet());
    settle();
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    assert_int_equal(agent->allocation.applied_sequence, agent->allocation.order.sequence);
    take("half a line of a host that died" HELLO_OF_QUIET_HOST);
    assert_false(reports_quiet());
    periods(1, NONE_RUNNING, 0.0);
    assert_true(reports_quiet());
    join(0);
    periods(1, FIRST, 0.0);
    assert_false(reports_quiet());
}

static void test_an_older_host_gets_every_report(void **state)
{
    (void)state;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    take(HELLO_OF_QUIET_HOST);
    periods(1, NONE_RUNNING, 0.0);
    assert_true(agent->quiet);
    take("half a line of a host that died" HELLO_OF_OLDER_HOST);
    for (int period = 0; period < 10; period++) {
        assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
        periods(1, NONE_RUNNING, 0.0);
        now_ns -= 20 * MS_NS;
        assert_false(reports_quiet());
    }
}

/* Takes all lines that are due. Returns how many of them are reports. */
static int take_reports(void)
{
    int reports = 0;
    char *line;
    while ((line = messages_next(agent)) != NULL) {
        reports += strstr(line, "\"report\"") != NULL;
        free(line);
    }
    return reports;
}

static void test_a_sparse_host_gets_news_at_once_and_the_same_once_a_second(void **state)
{
    (void)state;
    const int per_second = 1000 / PERIOD_MS;
    agent->port.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    take(HELLO_OF_SPARSE_HOST);
    struct client *program = join(0);
    periods(per_second, FIRST, 0.0);
    take_reports();
    for (int second = 0; second < 3; second++)
        for (int period = 1; period <= per_second; period++) {
            periods(1, FIRST, 0.0);
            assert_int_equal(take_reports(), period == per_second);
        }
    for (int news = 0; news < 4; news++) {
        periods(1, FIRST, 0.0);
        assert_int_equal(take_reports(), 0);
        switch (news) {
        case 0: atomic_store(&program->page->told, 2); break; /* the size of its largest team, and so the demand */
        case 1: atomic_fetch_or(&program->page->program, VSCAF_PROGRAM_OVERRIDE); break;
        case 2: order(3, 100); settle(); break;
        case 3: join(1); break;
        }
        periods(1, news < 3 ? FIRST : TWO, 0.0);
        assert_int_equal(take_reports(), 1);
    }
    take("half a line of a host that died" HELLO_OF_QUIET_HOST); /* an older host */
    take_reports();
    for (int period = 0; period < per_second; period++) {
        periods(1, TWO, 0.0);
        assert_int_equal(take_reports(), 1);
    }
}

static void test_each_part_of_a_report_is_news_alone(void **state)
{
    (void)state;
    struct client *program = join(0);
    uint64_t before = agent_report_hash(agent);
    agent->shares.demand ^= 1;
    assert_int_not_equal(agent_report_hash(agent), before);
    agent->shares.demand ^= 1;
    program->share ^= 1;
    assert_int_not_equal(agent_report_hash(agent), before);
    program->share ^= 1;
    bool *flags[] = {&program->running, &program->long_section, &program->contained};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        *flags[i] = !*flags[i];
        assert_int_not_equal(agent_report_hash(agent), before);
        *flags[i] = !*flags[i];
    }
    program->load_cpus += 0.5; /* a measurement */
    assert_int_equal(agent_report_hash(agent), before);
}

static void test_who_is_connected_or_computes_keeps_it_awake(void **state)
{
    (void)state;
    periods(1, NONE_RUNNING, 0.0);
    assert_true(agent->quiet); /* there is no host */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 2.0);
    assert_true(agent->quiet); /* one look is noise */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 2.0);
    assert_false(agent->quiet);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    periods(4, NONE_RUNNING, 0.0);
    assert_true(agent->quiet);
    agent->clients.slots[0] = (struct client){.fd = open("/dev/null", O_RDONLY | O_CLOEXEC), .pidfd = PEER_NO_PIDFD};
    agent->clients.end = 1; /* it has not joined yet */
    pass(AGENT_QUIET_NS, NONE_RUNNING, 0.0);
    assert_false(agent->quiet);
}

/* Stand-alone, only joined programs count. A program that joins a sleeping agent finds the load of the others known. */
static void test_sleeps_without_a_host_and_wakes_with_a_measurement(void **state)
{
    (void)state;
    options.standalone = true;
    periods(8, NONE_RUNNING, 1.0);
    assert_true(agent->quiet);
    busy_ticks += 2.0 * 10.0 * TICKS;
    put_stat();
    now_ns += 10 * SECOND_NS;
    agent_wake(agent, now_ns);
    assert_false(agent->quiet);
    assert_int_equal(agent->period_next_ns, now_ns + PERIOD_MS * MS_NS);
    assert_float_equal(agent->measure.busy_cpus, 2.0, 0.01);
    const struct client *program = join(0);
    assert_int_equal(team(program), 2);
    agent_wake(agent, now_ns); /* it is awake */
    assert_int_equal(program->page->agent_beat, 0);
    periods(4, FIRST, 2.0);
    assert_int_equal(team(program), 2);
}

static void test_the_cpus_of_one_that_left_are_kept_for_the_next_for_a_moment(void **state)
{
    (void)state;
    const struct client *stays = join(0);
    struct client *leaves = join(1);
    assert_int_equal(team(stays), 2);
    clients_drop(&agent->clients, leaves);
    uint64_t due_ns = now_ns + AGENT_LEFT_NS;
    agent_split_later(agent, now_ns);
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    pass(AGENT_LEFT_NS / 2, FIRST, 0.0); /* a period ends, which gives nobody the CPUs */
    assert_int_equal(team(stays), 2);
    now_ns = due_ns - 1;
    agent_split_later(agent, now_ns); /* another one leaves, which delays nothing */
    assert_int_equal(agent_advance(agent, now_ns), due_ns);
    assert_int_equal(team(stays), 2);
    now_ns = due_ns;
    assert_int_equal(agent_advance(agent, now_ns), UINT64_MAX);
    assert_int_equal(team(stays), 4);

    leaves = join(1);
    clients_drop(&agent->clients, leaves);
    agent_split_later(agent, now_ns);
    now_ns += AGENT_LEFT_NS / 2;
    struct client *next = join(2);
    assert_int_equal(agent_advance(agent, now_ns), UINT64_MAX); /* the join has split */
    assert_int_equal(team(stays), 2);
    assert_int_equal(team(next), 2);

    clients_drop(&agent->clients, next);
    agent_split_later(agent, now_ns);
    pass(2 * AGENT_LEFT_NS, FIRST, 0.0); /* the agent was held up, and a period ends late enough */
    assert_int_equal(team(stays), 4);
}

/* A child of this test that may run on one CPU only. */
static pid_t start_on_one_cpu(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(sched_setaffinity(pid, sizeof(one), &one), 0);
    return pid;
}

/* A narrow mask is one of taskset's, unless the agent itself has set it. */
static void test_a_mask_of_the_agents_own_bounds_no_team(void **state)
{
    (void)state;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2)
        skip();
    options.standalone = true;
    pid_t pid = start_on_one_cpu();
    struct client *client = join(0);
    client->pid = pid;
    client->contained = true; /* in a long section, which has just ended */
    pass(2 * SECOND_NS, NONE_RUNNING, 0.0);
    assert_int_equal(client->affinity_cpus, 0);
    client->contained = false;
    pass(2 * SECOND_NS, NONE_RUNNING, 0.0);
    assert_int_equal(client->affinity_cpus, 1);

    /* The process starts another program while it is contained. */
    client->affinity_cpus = 0;
    client->affinity_next_ns = 0;
    struct contained *contained = contained_add(&agent->contain, pid);
    cpu_set_add(&contained->set, 0);
    agent_joined(agent, client, now_ns);
    assert_int_equal(client->affinity_cpus, 0);
    contained_forget(&agent->contain, contained);
    agent_joined(agent, client, now_ns);
    assert_int_equal(client->affinity_cpus, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_silent_connection_is_dropped_after_its_time, begin, end),
        cmocka_unit_test_setup_teardown(test_who_has_spoken_is_not_silent, begin, end),
        cmocka_unit_test_setup_teardown(test_last_descriptor_is_no_hang_up, begin, end),
        cmocka_unit_test_setup_teardown(test_serving_takes_its_part_of_a_cpu, begin, end),
        cmocka_unit_test_setup_teardown(test_shrink_waits_to_its_deadline_and_no_longer, begin, end),
        cmocka_unit_test_setup_teardown(test_shrink_ends_with_the_section, begin, end),
        cmocka_unit_test_setup_teardown(test_parked_for_long_is_offlined, begin, end),
        cmocka_unit_test_setup_teardown(test_the_end_gives_back_what_is_just_being_parked, begin, end),
        cmocka_unit_test_setup_teardown(test_held_up_makes_up_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_held_up_within_a_look_adds_no_load, begin, end),
        cmocka_unit_test_setup_teardown(test_others_are_demand_and_then_none, begin, end),
        cmocka_unit_test_setup_teardown(test_others_keep_their_cpus, begin, end),
        cmocka_unit_test_setup_teardown(test_what_others_use_is_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(test_newcomer_has_an_equal_share_for_its_time, begin, end),
        cmocka_unit_test_setup_teardown(test_the_cpus_of_one_that_left_are_kept_for_the_next_for_a_moment, begin, end),
        cmocka_unit_test_setup_teardown(test_a_section_is_long_from_a_second_on, begin, end),
        cmocka_unit_test_setup_teardown(test_quiet_until_something_changes, begin, end),
        cmocka_unit_test_setup_teardown(test_a_sparse_host_gets_news_at_once_and_the_same_once_a_second, begin, end),
        cmocka_unit_test_setup_teardown(test_each_part_of_a_report_is_news_alone, begin, end),
        cmocka_unit_test_setup_teardown(test_an_older_host_gets_every_report, begin, end),
        cmocka_unit_test_setup_teardown(test_who_is_connected_or_computes_keeps_it_awake, begin, end),
        cmocka_unit_test_setup_teardown(test_a_mask_of_the_agents_own_bounds_no_team, begin, end),
        cmocka_unit_test_setup_teardown(test_sleeps_without_a_host_and_wakes_with_a_measurement, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
