#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pages/sections_in_flight.h"

struct fixture {
    struct vscaf_page page;
    struct in_flight in_flight;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static bool set(struct fixture *fixture, uint32_t team_size, bool barrier_ran)
{
    bool shrunk = in_flight_set_team(&fixture->in_flight, &fixture->page, team_size);
    in_flight_after_barrier(&fixture->in_flight, &fixture->page, barrier_ran, 1000);
    assert_int_equal(fixture->page.team_size, team_size);
    return shrunk;
}

static bool waiting(struct fixture *fixture)
{
    return in_flight_waiting(&fixture->in_flight, &fixture->page, 1001);
}

static void test_only_a_smaller_team_is_waited_for(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.started = fixture->page.started_others = 1;
    assert_true(set(fixture, 4, true)); /* the program may have used any number of its own */
    fixture->page.finished = fixture->page.finished_others = 1;
    assert_false(waiting(fixture));
    fixture->page.started = fixture->page.started_others = 2;
    assert_false(set(fixture, 4, true));
    assert_false(set(fixture, 5, true));
    assert_false(set(fixture, 0, true));
    assert_false(waiting(fixture));
}

static void test_the_owners_section_in_flight(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.team_size = 4;
    fixture->page.started = 7;
    fixture->page.finished = 6;
    assert_true(set(fixture, 2, true));
    assert_true(waiting(fixture));
    fixture->page.finished = 7;
    fixture->page.started = 8; /* the next section began with the new size */
    assert_false(waiting(fixture));
    assert_true(set(fixture, 1, true));
    assert_true(waiting(fixture));
}

/* Sections of other threads cannot be told apart: the end of short ones does not show that a long one has ended. */
static void test_the_others_sections_in_flight(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.team_size = 4;
    fixture->page.started_others = 1;
    assert_true(set(fixture, 2, true));
    for (uint32_t i = 1; i < 5; i++) {
        fixture->page.started_others = i + 1;
        fixture->page.finished_others = i;
        fixture->page.started = fixture->page.finished = i;
        assert_true(waiting(fixture));
    }
    fixture->page.finished_others = 5;
    assert_false(waiting(fixture));
    fixture->page.started_others = 6;
    assert_false(waiting(fixture));
}

static void test_without_a_barrier_the_counters_wait_for_a_grace(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.team_size = 4;
    assert_true(set(fixture, 2, false));
    assert_true(waiting(fixture)); /* a section may have started that is not visible yet */
    fixture->page.started = 1;     /* now it is visible */
    assert_true(in_flight_waiting(&fixture->in_flight, &fixture->page, 1000 + IN_FLIGHT_GRACE_NS));
    fixture->page.finished = 1;
    assert_false(in_flight_waiting(&fixture->in_flight, &fixture->page, 1001 + IN_FLIGHT_GRACE_NS));
    assert_true(set(fixture, 1, false));
    assert_false(in_flight_waiting(&fixture->in_flight, &fixture->page, 1000 + IN_FLIGHT_GRACE_NS));
}

static void test_counters_that_lie_harm_nobody(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.team_size = 4;
    fixture->page.finished = fixture->page.finished_others = UINT64_MAX;
    assert_true(set(fixture, 2, true));
    assert_false(waiting(fixture));
    fixture->page.started = UINT64_MAX;
    fixture->page.finished = 0;
    assert_true(set(fixture, 1, true));
    assert_true(waiting(fixture)); /* the deadline ends this wait */
}

/* As page.h demands: the thread stores `started`, then loads the team size. Only program order is guaranteed. */
struct race {
    struct vscaf_page page;
    _Atomic uint32_t loaded; /* the team size of the section in flight */
    _Atomic bool stop;
};

static void *run_sections(void *argument)
{
    struct race *race = argument;
    for (uint64_t i = 1; !atomic_load_explicit(&race->stop, memory_order_relaxed); i++) {
        atomic_store_explicit(&race->page.started, i, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        uint32_t size = atomic_load_explicit(&race->page.team_size, memory_order_relaxed);
        atomic_store_explicit(&race->loaded, size, memory_order_relaxed);
        atomic_store_explicit(&race->loaded, 0, memory_order_relaxed);
        atomic_store_explicit(&race->page.finished, i, memory_order_release);
    }
    return NULL;
}

/* Once the agent no longer waits, no section has the larger team. */
static void test_barrier_against_a_running_thread(void **state)
{
    (void)state;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
        skip();
    enum in_flight_barrier barrier = in_flight_barrier_choose();
    struct race *race = calloc(1, sizeof(*race));
    assert_non_null(race);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_sections, race), 0);
    struct in_flight in_flight = {0};
    uint32_t wrong = 0;
    for (int round = 0; round < 20000; round++) {
        in_flight_set_team(&in_flight, &race->page, 4);
        in_flight_after_barrier(&in_flight, &race->page, in_flight_barrier_run(barrier), 0);
        in_flight_set_team(&in_flight, &race->page, 2);
        in_flight_after_barrier(&in_flight, &race->page, in_flight_barrier_run(barrier), 0);
        while (in_flight_waiting(&in_flight, &race->page, 0))
            sched_yield(); /* on one CPU the other thread would not run for the rest of a time slice */
        for (int i = 0; i < 20; i++)
            wrong += atomic_load_explicit(&race->loaded, memory_order_relaxed) == 4;
    }
    atomic_store(&race->stop, true);
    pthread_join(thread, NULL);
    free(race);
    assert_int_equal(wrong, 0);
}

static void test_kernel_without_membarrier(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            _exit(77);
        bool none =
            in_flight_barrier_choose() == IN_FLIGHT_BARRIER_NONE && !in_flight_barrier_run(IN_FLIGHT_BARRIER_NONE) &&
            !in_flight_barrier_run(IN_FLIGHT_BARRIER_EXPEDITED) && !in_flight_barrier_run(IN_FLIGHT_BARRIER_GLOBAL);
        _exit(none ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_counts(void **state)
{
    struct fixture *fixture = *state;
    fixture->page.started = 5;
    fixture->page.finished = 5;
    fixture->page.started_others = 3;
    fixture->page.finished_others = 2;
    struct in_flight_counts counts = in_flight_count(&fixture->page);
    assert_true(counts.started == 8 && counts.finished == 7 && counts.in_flight);
    fixture->page.finished_others = 3;
    assert_false(in_flight_count(&fixture->page).in_flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_only_a_smaller_team_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_owners_section_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_others_sections_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_a_barrier_the_counters_wait_for_a_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counters_that_lie_harm_nobody, setup, teardown),
        cmocka_unit_test(test_barrier_against_a_running_thread),
        cmocka_unit_test(test_kernel_without_membarrier),
        cmocka_unit_test_setup_teardown(test_counts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
