/* The readers of pages, with any content, and any change from one period to the next. An input is a list of steps. The
 * first byte of each selects one:
 *   0 CLIENT OFFSET(2) LENGTH BYTES  writes to the process's page
 *   1 CLIENT FIELD VALUE(8)          writes to a field that the agent reads
 *   2 N                              a period of N x 10 ms ends
 *   3 CPUS LIMIT DEADLINE COMPETITION  an order arrives
 *   4 THREAD LENGTH BYTES            sets the content of a thread's schedstat
 *   5 LENGTH BYTES                   sets the content of stat
 *   6                                an order goes on
 *   7 CLIENT SLOT P(2) SAMPLES SPEEDUP(4) ERROR(4)  publishes an estimate as a shim does
 *   8 CLIENT PARTS(6 x 2)            adds times to the process's decomposition */
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELD(name) {offsetof(struct vscaf_page, name), sizeof(((struct vscaf_page *)NULL)->name)}

static const struct {
    size_t offset, bytes;
} fields[] = {
    FIELD(started), FIELD(finished), FIELD(started_others), FIELD(finished_others), FIELD(section_ns), FIELD(program),
    FIELD(told), FIELD(team_last), FIELD(malleable), FIELD(team_most), FIELD(estimates_sequence),
    FIELD(estimates_used), FIELD(metric), FIELD(learn_cost_ns), FIELD(learn_base_ns), FIELD(decomposition.total),
    FIELD(decomposition.useful), FIELD(decomposition.inflation), FIELD(decomposition.fork),
    FIELD(decomposition.dispatch), FIELD(decomposition.barrier), FIELD(decomposition.steal),
    FIELD(estimates[0].team_size), FIELD(estimates[0].samples), FIELD(estimates[0].speedup_millionths),
    FIELD(estimates[0].standard_error_millionths), FIELD(estimates[1].team_size), FIELD(estimates[1].samples),
    FIELD(estimates[1].speedup_millionths), FIELD(estimates[1].standard_error_millionths), FIELD(team_size),
    FIELD(team_limit), FIELD(ipc_millionths),
};

static void write_page(struct agent *agent, uint32_t number, size_t offset, const void *bytes, size_t length)
{
    struct client *client = &agent->clients.slots[number % FUZZ_CLIENTS_MAX];
    if (client->page == NULL || offset >= VSCAF_PAGE_BYTES)
        return;
    memcpy((char *)client->page + offset, bytes,
           length < VSCAF_PAGE_BYTES - offset ? length : VSCAF_PAGE_BYTES - offset);
}

static struct vscaf_page *page_of(struct agent *agent, struct bytes *bytes)
{
    static struct vscaf_page nobodys;
    struct vscaf_page *page = agent->clients.slots[take_number(bytes, 1) % FUZZ_CLIENTS_MAX].page;
    return page != NULL ? page : &nobodys;
}

static void write_estimate(struct vscaf_page *page, struct bytes *bytes)
{
    uint32_t slot = (uint32_t)take_number(bytes, 1) % VSCAF_ESTIMATES;
    struct vscaf_estimate *estimate = &page->estimates[slot];
    atomic_store(&estimate->team_size, (uint32_t)take_number(bytes, 2));
    atomic_store(&estimate->samples, (uint32_t)take_number(bytes, 1));
    atomic_store(&estimate->speedup_millionths, take_number(bytes, 4));
    atomic_store(&estimate->standard_error_millionths, take_number(bytes, 4));
    atomic_store(&page->estimates_used, slot + 1);
    atomic_store(&page->estimates_sequence, (atomic_load(&page->estimates_sequence) + 2) & ~1u);
}

static void write_decomposition(struct vscaf_page *page, struct bytes *bytes)
{
    struct vscaf_decomposition *where = &page->decomposition;
    _Atomic uint64_t *parts[] = {&where->useful,   &where->inflation, &where->fork,
                                 &where->dispatch, &where->barrier,   &where->steal};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        uint64_t ns = 1000 * take_number(bytes, 2);
        atomic_fetch_add(parts[i], ns);
        atomic_fetch_add(&where->total, ns);
        atomic_fetch_add(&page->section_ns, ns);
    }
    atomic_fetch_add(&page->started, 1);
    atomic_fetch_add(&page->finished, 1);
}

static void write_schedstat(struct bytes *bytes)
{
    size_t length;
    const char *path = take_number(bytes, 1) & 1 ? "proc/0/task/11/schedstat" : "proc/0/task/12/schedstat";
    size_t most = take_number(bytes, 1);
    const char *text = take_bytes(bytes, most, &length);
    write_file(path, text, length);
}

/* Checks what learned.h promises. */
static void check_learned(const struct learned *learned)
{
    MUST(learned->points_count <= LEARNED_POINTS_MAX);
    for (size_t i = 0; i < learned->points_count; i++) {
        const struct speedup_point *point = &learned->points[i];
        MUST(i == 0 ? point->p == 1 : point->p > learned->points[i - 1].p);
        MUST(point->speedup > 0.0 && point->speedup <= LEARNED_EFFICIENCY_MAX * (double)point->p);
        MUST(point->standard_error >= 0.0 && point->standard_error <= point->speedup && point->samples > 0);
    }
    struct learned_decomposition where;
    if (!learned_decompose(learned, &where))
        return;
    double sum = 0.0;
    for (int i = 0; i < LEARNED_PARTS; i++)
        sum += where.part[i];
    MUST(sum > 0.999 && sum < 1.001);
}

static void period(struct agent *agent, uint64_t *now_ns, uint64_t tens_of_ms)
{
    *now_ns += tens_of_ms * UINT64_C(10000000);
    agent_period(agent, *now_ns);
    check_lines(agent);
    for (uint32_t i = 0; i < FUZZ_CLIENTS_MAX; i++)
        if (agent->clients.slots[i].page != NULL)
            check_learned(&agent->clients.slots[i].learned);
}

static void step(struct agent *agent, struct bytes *bytes, uint64_t *now_ns, bool *stat_written)
{
    uint32_t client;
    size_t offset, length;
    const char *text;
    uint64_t value;
    switch (take_number(bytes, 1) % 9) {
    case 0:
        client = (uint32_t)take_number(bytes, 1);
        offset = take_number(bytes, 2);
        length = take_number(bytes, 1);
        text = take_bytes(bytes, length, &length);
        write_page(agent, client, offset, text, length);
        break;
    case 1:
        client = (uint32_t)take_number(bytes, 1);
        offset = take_number(bytes, 1) % (sizeof(fields) / sizeof(*fields));
        value = take_number(bytes, 8);
        write_page(agent, client, fields[offset].offset, &value, fields[offset].bytes);
        break;
    case 2: period(agent, now_ns, take_number(bytes, 1)); break;
    case 3: {
        struct wire_allocate order = {.sequence = 1 + agent->allocation.order.sequence % 1000};
        order.cpus = (uint32_t)take_number(bytes, 1);
        order.limit = 1 + (uint32_t)take_number(bytes, 1);
        order.deadline_ms = (uint32_t)take_number(bytes, 1);
        order.competition = take_number(bytes, 1) & 1;
        agent_order(agent, &order, *now_ns);
        break;
    }
    case 4: write_schedstat(bytes); break;
    case 5:
        length = take_number(bytes, 1);
        text = take_bytes(bytes, length, &length);
        write_file("proc/stat", text, length);
        *stat_written = true;
        break;
    case 6: agent_advance(agent, *now_ns); break;
    case 7: write_estimate(page_of(agent, bytes), bytes); break;
    default: write_decomposition(page_of(agent, bytes), bytes); break;
    }
}

static void settle(struct agent *agent, uint64_t *now_ns)
{
    for (uint32_t i = 0; i < 3 * FUZZ_CPUS + 10 && agent->allocation.phase != ALLOCATION_SETTLED; i++) {
        *now_ns += UINT64_C(300000000);
        agent_advance(agent, *now_ns);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char stat[] = "cpu  1000 0 0 5000 0 0 0 900 0 0\nprocs_running 1\n";
    static bool stat_written = true;
    if (stat_written)
        write_file("proc/stat", stat, sizeof(stat) - 1);
    stat_written = false;
    struct bytes bytes = {data, size};
    struct agent *agent = agent_reset(1 + (uint32_t)take_number(&bytes, 1) % FUZZ_CLIENTS_MAX);
    uint64_t now_ns = agent->period_last_ns;
    for (int steps = 0; bytes.left > 0 && steps < 60; steps++)
        step(agent, &bytes, &now_ns, &stat_written);
    /* The deadline ends the wait, even if sections never end. */
    settle(agent, &now_ns);
    MUST(agent->allocation.phase == ALLOCATION_SETTLED);
    period(agent, &now_ns, 25);
    settle(agent, &now_ns);
    period(agent, &now_ns, 25);
    check_agent(agent);
    return 0;
}
