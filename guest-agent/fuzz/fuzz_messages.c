/* The message layer: lines from a host, and all code that acts on them. An input is the unchanged bytes that a host
 * sends. A line whose first byte is 1 to 6 is not sent. Each further byte N of it stands for one event:
 *   1 N  N x 10 ms pass                  2 N  a period ends   3 N  a section of process N begins
 *   4 N  a section of process N ends     5 N  CPU N can no longer be switched
 *   6 N  the host reads what the agent sent */
#include <string.h>

#include "fuzz.h"
#include "system/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t passed_ns;

static uint64_t now_ns(void)
{
    return monotonic_ns() + passed_ns;
}

static void apply_event(struct agent *agent, int what, uint8_t number)
{
    struct client *client = &agent->clients.slots[number % FUZZ_CLIENTS_MAX];
    switch (what) {
    case 1:
        passed_ns += number * UINT64_C(10000000);
        agent_advance(agent, now_ns());
        break;
    case 2: agent_period(agent, now_ns()); break;
    case 3:
        if (client->page != NULL)
            atomic_fetch_add(&client->page->started, 1);
        break;
    case 4:
        if (client->page != NULL)
            atomic_store(&client->page->finished, atomic_load(&client->page->started));
        break;
    case 5:
        if (number % FUZZ_CPUS > 0)
            fix_cpu(number % FUZZ_CPUS);
        break;
    default: check_lines(agent); break;
    }
}

static void take_line(struct agent *agent, const char *line, size_t length)
{
    if (length > 0 && line[0] >= 1 && line[0] <= 6) {
        for (size_t i = 1; i < length && i < 40; i++)
            apply_event(agent, line[0], (uint8_t)line[i]);
        return;
    }
    struct wire_message message;
    wire_parse(line, length, &message);
    MUST(memchr(message.text, '\0', sizeof(message.text)) != NULL);
    MUST(message.type == WIRE_BAD || strlen(message.text) == 0 || message.type == WIRE_HELLO ||
         message.type == WIRE_ERROR);
    if (message.type == WIRE_ALLOCATE)
        MUST(message.allocate.sequence >= 0 && message.allocate.cpus <= CPUS_MAX && message.allocate.limit >= 1 &&
             message.allocate.limit <= CPUS_MAX && message.allocate.deadline_ms <= 3600000);
    messages_handle(agent, line, length);
}

static void settle(struct agent *agent)
{
    for (int i = 0; i < 3 * FUZZ_CPUS + 10 && agent->allocation.phase != ALLOCATION_SETTLED; i++)
        apply_event(agent, 1, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent *agent = agent_reset(2);
    const char *text = (const char *)data, *end = text + size;
    passed_ns = 0;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (stop == NULL)
            stop = end;
        take_line(agent, text, (size_t)(stop - text));
        text = stop + 1;
    }
    /* Once the sections have ended, every order settles. That takes one step for each CPU and a few more. */
    for (uint8_t i = 0; i < 2; i++)
        apply_event(agent, 4, i);
    settle(agent);
    MUST(agent->allocation.phase == ALLOCATION_SETTLED);
    MUST(!agent->allocation.given || agent->allocation.applied_sequence == agent->allocation.order.sequence);
    check_lines(agent);
    apply_event(agent, 2, 0);
    settle(agent);
    /* A host that knows `sparse` gets a report that repeats the last one only a second after it. */
    apply_event(agent, 1, 200);
    apply_event(agent, 2, 0);
    check_agent(agent);
    MUST(check_lines(agent) > 0);
    return 0;
}
