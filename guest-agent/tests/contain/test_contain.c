#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "contain/contain.h"
#include "contain/contain_record.h"
#include "contain/process_start.h"
#include "cpus/thread_masks.h"

static const struct cpu_set NOWHERE = {0}, ZERO = {.words = {1}}, ONE = {.words = {2}};
static struct cpu_set all; /* the CPUs of this test */
static struct cpus cpus;

/* A process with threads that wait. It starts one more when it is sent a byte. */
struct process {
    pid_t pid;
    int input, output;
};

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void start_threads(int count)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < count; i++)
        if (pthread_create(&thread, &attributes, wait_for_ever, NULL) != 0)
            _exit(1);
}

static struct process start_process(int threads)
{
    int input[2], output[2];
    char byte = 0;
    assert_int_equal(pipe(input), 0);
    assert_int_equal(pipe(output), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(input[1]);
        start_threads(threads - 1);
        while (write(output[1], &byte, 1) == 1 && read(input[0], &byte, 1) == 1)
            start_threads(1);
        _exit(0);
    }
    close(input[0]);
    close(output[1]);
    assert_int_equal(read(output[0], &byte, 1), 1);
    return (struct process){pid, input[1], output[0]};
}

static void one_more_thread(struct process process)
{
    char byte = 1;
    assert_int_equal(write(process.input, &byte, 1), 1);
    assert_int_equal(read(process.output, &byte, 1), 1);
}

static void end_process(struct process process)
{
    kill(process.pid, SIGKILL);
    waitpid(process.pid, NULL, 0);
    close(process.input);
    close(process.output);
}

static void set(pid_t tid, const struct cpu_set *mask)
{
    assert_int_equal(sched_setaffinity(tid, sizeof(mask->words), (const cpu_set_t *)(const void *)mask->words), 0);
}

/* How many threads of the process have that mask. */
static uint32_t with(pid_t pid, const struct cpu_set *mask)
{
    char command[256], list[64];
    uint32_t count = 0;
    assert_true(cpu_set_format(mask, list, sizeof(list)));
    snprintf(command, sizeof(command), "cat /proc/%d/task/*/status | grep -cP '^Cpus_allowed_list:\\t%s$'", (int)pid,
             list);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_int_equal(fscanf(output, "%u", &count), 1);
    pclose(output);
    return count;
}

static int change(pid_t pid, const struct cpu_set *from, const struct cpu_set *to)
{
    uint32_t threads;
    struct thread_change what = {.own = &all, .set = from, .to = to, .available = &all, .free = true};
    return thread_masks_change("/proc", pid, &what, &threads);
}

/* A program exceeds its share by its threads, or by the CPUs that it uses, whatever it reports. */
static void test_exceeds(void **state)
{
    (void)state;
    assert_true(contain_exceeds(1, 2, 0.0));
    assert_false(contain_exceeds(2, 2, 2.0));
    assert_true(contain_exceeds(1, 1, 1.9));
    assert_false(contain_exceeds(1, 1, 1.1)); /* noise */
}

static void test_there_and_back(void **state)
{
    (void)state;
    struct process process = start_process(4);
    assert_int_equal(change(process.pid, &NOWHERE, &ZERO), 0);
    assert_int_equal(with(process.pid, &ZERO), 4);
    one_more_thread(process);
    assert_int_equal(change(process.pid, &ZERO, &ONE), 0);
    assert_int_equal(with(process.pid, &ONE), 5);
    set(process.pid, &all); /* as the kernel does when it loses all CPUs of a mask */
    assert_int_equal(change(process.pid, &ONE, &ONE), 0);
    assert_int_equal(with(process.pid, &ONE), 5);
    assert_int_equal(change(process.pid, &ONE, &NOWHERE), 0);
    assert_int_equal(with(process.pid, &all), 5);
    end_process(process);
    assert_int_equal(change(process.pid, &ONE, &NOWHERE), -ESRCH);
}

/* A thread that the program has pinned, before or while it is contained, stays where it was put. */
static void test_pinned_threads_stay(void **state)
{
    (void)state;
    struct process process = start_process(3);
    struct thread_look look;
    set(process.pid, &ONE);
    assert_int_equal(thread_masks_look("/proc", process.pid, &look), 0);
    assert_int_equal(look.threads, 3);
    assert_int_equal(look.pinned, 1);
    assert_int_not_equal(look.widest, process.pid);
    assert_true(cpu_set_equal(&look.all, &all));
    assert_int_equal(change(process.pid, &NOWHERE, &ZERO), 0);
    assert_int_equal(with(process.pid, &ZERO), 2);
    assert_int_equal(with(process.pid, &ONE), 1);
    set(look.widest, &ONE);
    assert_int_equal(change(process.pid, &ZERO, &ZERO), 0);
    assert_int_equal(change(process.pid, &ZERO, &NOWHERE), 0);
    assert_int_equal(with(process.pid, &ONE), 2);
    assert_int_equal(with(process.pid, &all), 1);
    end_process(process);
}

/* A process that was started by taskset gets those CPUs back, also one that is offline now. */
static void test_chosen_cpus_come_back(void **state)
{
    (void)state;
    struct process process = start_process(2);
    struct cpu_set widest, own = ZERO;
    uint32_t threads;
    assert_int_equal(change(process.pid, &NOWHERE, &ZERO), 0);
    assert_true(thread_masks_widest(process.pid, &ZERO, &widest));
    assert_true(cpu_set_equal(&widest, &all));
    assert_int_equal(with(process.pid, &ZERO), 2);
    cpu_set_add(&own, 1);
    struct thread_change what = {.own = &own, .set = &ZERO, .to = &NOWHERE, .available = &ZERO};
    assert_int_equal(thread_masks_change("/proc", process.pid, &what, &threads), 0);
    assert_int_equal(with(process.pid, &own), 2);
    end_process(process);
}

static void test_many_threads(void **state)
{
    (void)state;
    struct process process = start_process(1500);
    assert_int_equal(change(process.pid, &NOWHERE, &ZERO), 0);
    assert_int_equal(with(process.pid, &ZERO), 1500);
    assert_int_equal(change(process.pid, &ZERO, &NOWHERE), 0);
    assert_int_equal(with(process.pid, &all), 1500);
    end_process(process);
}

/* A thread was listed and has ended. Its number may now belong to another process. */
static void test_numbers_are_looked_up_again(void **state)
{
    (void)state;
    char directory[] = "/tmp/vscaf-contain-XXXXXX", path[128], command[128];
    struct process process = start_process(1);
    uint32_t threads;
    struct thread_change what = {.own = &all, .set = &NOWHERE, .to = &ZERO, .available = &all};
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof(command), "mkdir -p %s/70/task", directory);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof(path), "%s/70/task/%d", directory, (int)process.pid);
    assert_int_equal(symlink("gone", path), 0); /* it is listed, but is gone */
    assert_int_equal(thread_masks_change(directory, 70, &what, &threads), 0);
    assert_int_equal(with(process.pid, &all), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(thread_masks_change(directory, 70, &what, &threads), 0);
    assert_int_equal(with(process.pid, &ZERO), 1);
    end_process(process);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* An agent was killed while it moved threads. The next one finds some in the old set and some in the new one. */
static void test_killed_in_the_middle(void **state)
{
    (void)state;
    char directory[] = "/tmp/vscaf-contain-XXXXXX", record[80], socket[64];
    struct process process = start_process(3);
    struct options options = {.proc = "/proc", .contain = CONTAIN_NONE};
    struct contain contain = {.proc = "/proc", .record = record};
    assert_non_null(mkdtemp(directory));
    snprintf(socket, sizeof(socket), "%s/socket", directory);
    snprintf(record, sizeof(record), "%s.contained", socket);
    struct contained *contained = contain_add(&contain, process.pid);
    contained->start_ticks = process_start_ticks("/proc", process.pid);
    contained->own = all;
    contained->free = true;
    contained->set = ZERO;
    contained->next = ONE;
    assert_int_equal(contain_record_write(&contain), 0);
    contain_forget(&contain, contained);
    assert_int_equal(change(process.pid, &NOWHERE, &ZERO), 0);
    set(process.pid, &ONE);
    contain_start(&contain, &options, socket, &cpus);
    assert_int_equal(with(process.pid, &all), 3);
    assert_int_equal(access(record, F_OK), -1);
    contain_stop(&contain, &cpus);
    end_process(process);
    assert_int_equal(rmdir(directory), 0);
}

/* A child inherits the CPUs of a contained process. When it joins, it gets the CPUs that its parent had before. */
static void test_children(void **state)
{
    (void)state;
    struct process process = start_process(1);
    struct contain contain = {.proc = "/proc"};
    struct contained *parent = contain_add(&contain, getpid());
    parent->own = all;
    parent->free = true;
    assert_null(contain_own_cpus(&contain, process.pid, &cpus)); /* it is not contained yet */
    parent->set = ZERO;
    set(process.pid, &ZERO);
    assert_ptr_equal(contain_own_cpus(&contain, process.pid, &cpus), &parent->own);
    assert_int_equal(with(process.pid, &all), 1);
    contain_forget(&contain, parent);
    end_process(process);
}

static size_t json_bytes, json_bytes_most;

static void *json_allocate(size_t bytes)
{
    max_align_t *block = malloc(bytes + sizeof(*block));
    assert_non_null(block);
    *(size_t *)block = bytes;
    json_bytes += bytes;
    json_bytes_most = json_bytes > json_bytes_most ? json_bytes : json_bytes_most;
    return block + 1;
}

static void json_release(void *memory)
{
    if (memory == NULL)
        return;
    max_align_t *block = (max_align_t *)memory - 1;
    json_bytes -= *(size_t *)block;
    free(block);
}

/* As many processes as can be contained, with the longest sets. The next agent takes the record, and the memory to
 * write it does not depend on the number of processes. */
static void test_full_record_can_be_read(void **state)
{
    (void)state;
    static struct contain before, after;
    char path[] = "/tmp/vscaf-contain-XXXXXX";
    struct cpu_set odd = {0};
    for (uint32_t cpu = 1; cpu < CPUS_MAX; cpu += 2)
        cpu_set_add(&odd, cpu);
    close(mkstemp(path));
    json_set_alloc_funcs(json_allocate, json_release);
    before = after = (struct contain){.record = path};
    for (pid_t pid = 1; pid <= (pid_t)PLACEMENT_MAX; pid++) {
        struct contained *contained = contain_add(&before, pid);
        contained->start_ticks = 12345;
        contained->own = contained->set = contained->next = odd;
    }
    assert_null(contain_add(&before, 1000));
    assert_int_equal(contain_record_write(&before), 0);
    assert_in_range(json_bytes_most, 1, 1u << 20);
    assert_int_equal(contain_record_read(&after), 0);
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(json_bytes, 0);
    assert_int_equal(after.count, PLACEMENT_MAX);
    for (uint32_t i = 0; i < after.count; i++)
        assert_memory_equal(after.list[i], before.list[i], sizeof(*after.list[i]));
    while (before.count > 0)
        contain_forget(&before, before.list[0]);
    assert_int_equal(contain_record_write(&before), 0); /* with nothing to put back it goes */
    assert_int_equal(access(path, F_OK), before.recorded ? 0 : -1);
    while (after.count > 0)
        contain_forget(&after, after.list[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exceeds),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_pinned_threads_stay),
        cmocka_unit_test(test_chosen_cpus_come_back),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_numbers_are_looked_up_again),
        cmocka_unit_test(test_killed_in_the_middle),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_full_record_can_be_read),
    };
    if (sched_getaffinity(0, sizeof(all.words), (cpu_set_t *)(void *)all.words) != 0 || !cpu_set_has(&all, 0) ||
        !cpu_set_has(&all, 1))
        return 77; /* skipped: it needs the CPUs 0 and 1 */
    cpus.online = cpus.present = all;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
