/* Programs and moments in which no experiment may run. */
#include "unseen.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The refusals: no experiment begins. */
static void is_filtered(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, all};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void is_locked(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mlock(memory, 4096) == 0);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void is_large(void)
{
    size_t bytes = 300u << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, bytes);
    run_scenario(&(struct scenario){.outcome = REFUSED});
    munmap(memory, bytes);
}

static void has_system_v(void)
{
    int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    CHECK(segment >= 0 && shmat(segment, NULL, 0) != (void *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void has_userfaultfd(void)
{
    if (syscall(SYS_userfaultfd, O_CLOEXEC) < 0)
        exit(77);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void has_io_uring(void)
{
    char parameters[120] = {0};
    if (syscall(SYS_io_uring_setup, 4, parameters) < 0)
        exit(77);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void has_device(void)
{
    int file = -1;
    static const char *const devices[] = {"/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/kvm", "/dev/rtc0"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0] && file < 0; i++)
        file = open(devices[i], O_RDWR | O_CLOEXEC);
    if (file < 0)
        exit(77);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void is_traced(void)
{
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

static void is_bound(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    run_scenario(&(struct scenario){.outcome = REFUSED});
}

/* Clauses are obeyed, so no thread can be taken for an experiment. The same holds for a program that set its number. */
static void has_clause(void)
{
    for (int i = 0; i < 100; i++) {
        int threads = 0;
#pragma omp parallel num_threads(2) reduction(+ : threads)
        {
            threads++;
            busy(4.);
        }
        CHECK(threads == 2);
    }
    omp_set_num_threads(2);
    for (int i = 0; i < 100; i++) {
        int threads = 0;
#pragma omp parallel reduction(+ : threads)
        {
            threads++;
            busy(4.);
        }
        CHECK(threads == 2);
    }
    CHECK(standin_script.attached == 0 && page->experiments_ended + page->experiments_abandoned == 0);
}

/* Two threads start sections, so it is unknown whose counts are whose. */
static void *other_master(void *argument)
{
    run_scenario(&(struct scenario){.outcome = EITHER});
    return argument;
}

static void two_masters(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_master, NULL) == 0);
    pthread_join(thread, NULL);
    unsigned before = standin_script.attached, experiments = page->experiments_ended + page->experiments_abandoned;
    for (int i = 0; i < 100; i++) {
#pragma omp parallel
        busy(4.);
    }
    CHECK(standin_script.attached == before && page->experiments_ended + page->experiments_abandoned == experiments);
}

/* The agent does not ask for learning. */
static void not_wanted(void)
{
    page->control = 0;
    for (int i = 0; i < 50; i++) {
#pragma omp parallel
        busy(4.);
    }
    CHECK(standin_script.initialised == 0 && page->experiments_refused == 0 && page->estimates_used == 0);
}

/* There is no counter, or none may be used. The shim says so once and uses the metric rate. */
static void no_counters(void)
{
    for (int i = 0; i < 50; i++) {
        int threads = 0;
#pragma omp parallel reduction(+ : threads)
        {
            threads++;
            busy(3.);
        }
        CHECK(threads == 2 || threads == 1, "only rate has blocks on one thread");
        check_nothing_left(0);
    }
    CHECK(page->program & VSCAF_PROGRAM_NO_COUNTERS);
    CHECK(page->metric == VSCAF_METRIC_RATE && page->experiments_refused == 0 && page->ipc_millionths == 0);
    CHECK(standin_script.initialised <= 1 && standin_script.sets == 0, "counters are looked for once");
}

/* The user chose the metric. */
static void metric_rate(void)
{
    for (int i = 0; i < 50; i++) {
#pragma omp parallel
        busy(3.);
    }
    CHECK(!(page->program & VSCAF_PROGRAM_NO_COUNTERS) && standin_script.initialised == 0);
    CHECK(page->ipc_millionths == 0);
}

/* A child that the program forks goes on without counters, because they are its parent's. */
static void forked_program(void)
{
    run_scenario(&(struct scenario){.outcome = EITHER});
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unsigned before = standin_script.made;
        /* Long enough that the parent's spending is within this process's budget. */
        while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < 300000000u + page->learn_cost_ns) {
#pragma omp parallel if (0)
            busy(4.);
        }
        CHECK(standin_script.made == before, "%u event sets in a forked child", standin_script.made - before);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

const struct act unseen_refusals[] = {
    {"filtered", is_filtered},
    {"locked", is_locked},
    {"large", is_large},
    {"system-v", has_system_v},
    {"userfaultfd", has_userfaultfd},
    {"io_uring", has_io_uring},
    {"device", has_device},
    {"traced", is_traced},
    {"bound", is_bound},
    {"clause", has_clause},
    {"two-masters", two_masters},
    {"not-wanted", not_wanted},
    {"no-counters", no_counters},
    {"metric-rate", metric_rate},
    {"forked", forked_program},
    {NULL, NULL},
};
