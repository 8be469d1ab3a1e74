/* The readers of pages: whatever they hold, and however it changes from one period to the next. An input is a list of
 * steps, the first byte of each saying which:
 *   0 CLIENT OFFSET(2) LENGTH BYTES  is written to the process's page
 *   1 CLIENT FIELD VALUE(8)          is written to a field that is read
 *   2 N                              a period of N x 10 ms ends
 *   3 CPUS LIMIT DEADLINE COMPETITION  an order
 *   4 THREAD LENGTH BYTES            is what schedstat of a thread says
 *   5 LENGTH BYTES                   is what stat says
 *   6                                an order goes on */
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
    FIELD(team_limit),
};

static void write_page(struct agent *agent, uint32_t number, size_t offset, const void *bytes, size_t length)
{
    struct client *client = &agent->clients.slots[number % FUZZ_CLIENTS_MOST];
    if (client->page == NULL || offset >= VSCAF_PAGE_BYTES)
        return;
    memcpy((char *)client->page + offset, bytes,
           length < VSCAF_PAGE_BYTES - offset ? length : VSCAF_PAGE_BYTES - offset);
}

static void write_schedstat(struct bytes *bytes)
{
    size_t length;
    const char *path = take_number(bytes, 1) & 1 ? "proc/0/task/11/schedstat" : "proc/0/task/12/schedstat";
    size_t most = take_number(bytes, 1);
    const char *text = take_bytes(bytes, most, &length);
    write_file(path, text, length);
}

static void period(struct agent *agent, uint64_t *now_ns, uint64_t tens_of_ms)
{
    *now_ns += tens_of_ms * UINT64_C(10000000);
    agent_period(agent, *now_ns);
    check_lines(agent);
    for (uint32_t i = 0; i < FUZZ_CLIENTS_MOST; i++) {
        const struct client *client = &agent->clients.slots[i];
        MUST(client->page == NULL || (client->learned.points_count <= LEARNED_POINTS_MOST && client->share >= 1));
    }
}

static void step(struct agent *agent, struct bytes *bytes, uint64_t *now_ns, bool *stat_written)
{
    uint32_t client;
    size_t offset, length;
    const char *text;
    uint64_t value;
    switch (take_number(bytes, 1) % 7) {
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
        allocation_order(agent, &order, *now_ns);
        break;
    }
    case 4: write_schedstat(bytes); break;
    case 5:
        length = take_number(bytes, 1);
        text = take_bytes(bytes, length, &length);
        write_file("proc/stat", text, length);
        *stat_written = true;
        break;
    default: allocation_advance(agent, *now_ns); break;
    }
}

static void settle(struct agent *agent, uint64_t *now_ns)
{
    for (uint32_t i = 0; i < 3 * FUZZ_CPUS + 10 && agent->allocation.phase != ALLOCATION_SETTLED; i++) {
        *now_ns += UINT64_C(300000000);
        allocation_advance(agent, *now_ns);
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
    struct agent *agent = agent_anew(1 + (uint32_t)take_number(&bytes, 1) % FUZZ_CLIENTS_MOST);
    uint64_t now_ns = agent->period_last_ns;
    for (int steps = 0; bytes.left > 0 && steps < 60; steps++)
        step(agent, &bytes, &now_ns, &stat_written);
    /* Whatever the sections say, the deadline ends the wait. */
    settle(agent, &now_ns);
    MUST(agent->allocation.phase == ALLOCATION_SETTLED);
    period(agent, &now_ns, 25);
    settle(agent, &now_ns);
    period(agent, &now_ns, 25);
    check_agent(agent);
    return 0;
}
