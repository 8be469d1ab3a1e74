/* Connections of programs: the silent, the late, the last descriptor, and how much CPU time serving takes. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "scripted_agent.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_silent_connection_is_dropped_after_its_time, begin, end),
        cmocka_unit_test_setup_teardown(test_who_has_spoken_is_not_silent, begin, end),
        cmocka_unit_test_setup_teardown(test_last_descriptor_is_no_hang_up, begin, end),
        cmocka_unit_test_setup_teardown(test_serving_takes_its_part_of_a_cpu, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
