#include "learn/counters/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "learn/counters/safety.h"
#include "learn/counters/sandbox_filter.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

bool sandbox_inside;

#if defined(SANDBOX_PROCESSOR) && !defined(SANITIZED)

#define RESULT_BYTES 4096u
/* The parent may get no CPU, or be stopped, before it lets the child run. If it ends, the child is killed. But it may
 * also become another program, and then the child must not stay. */
#define START_WAIT_S 60
#define REAP_NAP_FIRST_NS 20000
#define REAP_MAX_NS 100000000
#define STACK_BYTES 32768u
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The only page that the child may write and the parent reads. It may contain garbage, because a program can write
 * anywhere. */
struct result {
    _Atomic uint32_t started;
    _Atomic uint32_t state;
    _Atomic uint32_t detail;
};

static struct result *result;
static pid_t child; /* 0: none */
static struct sock_filter filter[SANDBOX_FILTER_MAX];
static unsigned short filter_used;

/* Only the child uses these. */
static struct ranges shared;
static _Alignas(16) unsigned char handler_stack[STACK_BYTES];

_Noreturn static void end(enum sandbox_state state, uint32_t detail)
{
    atomic_store_explicit(&result->detail, detail, memory_order_relaxed);
    /* Release: `detail` belongs to the state, so it comes before. */
    atomic_store_explicit(&result->state, state, memory_order_release);
    for (;;)
        syscall(SYS_exit_group, 0);
}

static bool touches_shared(uintptr_t start, uintptr_t length)
{
    uintptr_t past = start + length;
    if (past < start)
        return true;
    for (unsigned i = 0; i < shared.count; i++)
        if (start < shared.of[i].end && shared.of[i].start < past)
            return true;
    return false;
}

/* The arguments of the system call that a signal interrupted, and its result. */
#if defined(__x86_64__)
static long call_argument(const ucontext_t *context, unsigned index)
{
    static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8};
    return context->uc_mcontext.gregs[registers[index]];
}

static void set_call_result(ucontext_t *context, long value)
{
    context->uc_mcontext.gregs[REG_RAX] = value;
}
#else
static long call_argument(const ucontext_t *context, unsigned index)
{
    return (long)context->uc_mcontext.regs[index];
}

static void set_call_result(ucontext_t *context, long value)
{
    context->uc_mcontext.regs[0] = (unsigned long)value;
}
#endif

/* The filter did not let this call through. It is made after all if it only concerns private memory. */
static void check_call(siginfo_t *information, ucontext_t *context)
{
    uintptr_t start = (uintptr_t)call_argument(context, 0), length = (uintptr_t)call_argument(context, 1);
    bool harmless = false;
    /* mremap with an old length of 0 makes a second mapping, so an empty range counts as one byte. It may also replace
     * any mapping, but that only concerns the child. */
    if (information->si_code == 1 /* SYS_SECCOMP */ && information->si_arch == SANDBOX_PROCESSOR
        && (information->si_syscall == SYS_mprotect || information->si_syscall == SYS_mremap))
        harmless = !touches_shared(start, length ? length : 1);
    if (!harmless)
        end(SANDBOX_CALL, (uint32_t)information->si_syscall);
    set_call_result(context,
                    sandbox_gate(information->si_syscall, call_argument(context, 0), call_argument(context, 1),
                                 call_argument(context, 2), call_argument(context, 3), call_argument(context, 4)));
}

static void on_signal(int number, siginfo_t *information, void *context)
{
    if (number == SIGSYS)
        check_call(information, context);
    else
        end(number == SIGALRM || number == SIGPROF || number == SIGXCPU ? SANDBOX_TIME : SANDBOX_FAULT,
            (uint32_t)number);
}

static const int caught_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGALRM, SIGPROF, SIGXCPU};

static bool catch_signals(void)
{
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    if (sigaltstack(&stack, NULL) != 0)
        return false;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    sigset_t open;
    sigfillset(&open);
    for (size_t i = 0; i < COUNT(caught_signals); i++) {
        if (sigaction(caught_signals[i], &action, NULL) != 0)
            return false;
        sigdelset(&open, caught_signals[i]);
    }
    /* All others stay blocked, because no handler of the program may run here. */
    return sigprocmask(SIG_SETMASK, &open, NULL) == 0;
}

static bool protect_shared_memory(void)
{
    if (safety_of_mappings(&shared) != SAFETY_GOOD)
        return false;
    for (unsigned i = 0; i < shared.count; i++) {
        const struct range *range = &shared.of[i];
        if (range->start == (uintptr_t)result) {
            if (range->end - range->start != RESULT_BYTES)
                return false; /* merged with a neighbour that is not this library's */
        } else if ((range->protection & PROT_WRITE)
                   && mprotect((void *)range->start, range->end - range->start, range->protection & ~PROT_WRITE)) {
            return false;
        }
    }
    return true;
}

static bool set_limits(const struct sandbox_limits *limits)
{
    struct itimerval cpu = {.it_value = {limits->cpu_ms / 1000, limits->cpu_ms % 1000 * 1000}};
    struct itimerval wall = {.it_value = {limits->wall_ms / 1000, limits->wall_ms % 1000 * 1000}};
    struct rlimit nothing = {0, 0};
    struct rlimit seconds = {limits->cpu_ms / 1000 + 2, limits->cpu_ms / 1000 + 2}; /* in case the timer fails */
    return setrlimit(RLIMIT_CORE, &nothing) == 0 && setrlimit(RLIMIT_CPU, &seconds) == 0
           && setitimer(ITIMER_PROF, &cpu, NULL) == 0 && setitimer(ITIMER_REAL, &wall, NULL) == 0;
}

/* A core dump may go to a collecting program even if its size is limited to 0. If memory gets short, the child should
 * be killed first. If one of these settings fails, that does not matter. */
static void lower_priority(const struct sandbox_limits *limits)
{
    prctl(PR_SET_NAME, "vscaf-serial");
    struct sched_param parameters = {0};
    sched_setscheduler(0, SCHED_OTHER, &parameters);
    if (getpriority(PRIO_PROCESS, 0) < limits->niceness)
        setpriority(PRIO_PROCESS, 0, limits->niceness);
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        ssize_t written = write(file, "1000", 4);
        (void)written;
        close(file);
    }
}

static bool install_filter(void)
{
    struct sock_fprog program = {.len = filter_used, .filter = filter};
    /* Without SPEC_ALLOW some kernels restrict speculation, and then the child would not run like the program. */
    return prctl(PR_SET_DUMPABLE, 0) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0;
}

/* The child waits here, and from this moment the parent counts its cycles. The parent may watch the child only while
 * the child is dumpable. That is why this comes before `install_filter`. */
static void wait_for_start(void)
{
    struct timespec wait = {.tv_sec = START_WAIT_S};
    while (!atomic_load_explicit(&result->started, memory_order_acquire))
        if (syscall(SYS_futex, &result->started, FUTEX_WAIT, 0, &wait, NULL, 0) != 0 && errno == ETIMEDOUT)
            end(SANDBOX_REFUSED, 1);
}

static void enter_sandbox(const struct sandbox_limits *limits, pid_t parent)
{
    sandbox_inside = true;
    /* The table is still the parent's. Unshare it and close all. A copy would keep files open that the program closes
     * meanwhile (a reader would get no end of file), and it would share their offsets. */
    if (syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) != 0)
        end(SANDBOX_REFUSED, 2);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        end(SANDBOX_REFUSED, 3);
    if (!catch_signals())
        end(SANDBOX_REFUSED, 4);
    lower_priority(limits);
    if (!protect_shared_memory())
        end(SANDBOX_REFUSED, 5);
    wait_for_start();
    if (!set_limits(limits))
        end(SANDBOX_REFUSED, 6);
    if (!install_filter())
        end(SANDBOX_REFUSED, 7);
    atomic_store_explicit(&result->state, SANDBOX_RUNS, memory_order_relaxed);
}

/* A child of the program shares the result page with it. */
void sandbox_after_fork(void)
{
    if (result)
        munmap(result, RESULT_BYTES);
    result = NULL;
    child = 0;
}

static bool prepare(void)
{
    if (!result) {
        /* An inaccessible page on either side, so that the kernel merges the result page with no other mapping. */
        unsigned char *reserved =
            mmap(NULL, 3 * RESULT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED)
            return false;
        void *page = mmap(reserved + RESULT_BYTES, RESULT_BYTES, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (page == MAP_FAILED) {
            munmap(reserved, 3 * RESULT_BYTES);
            return false;
        }
        result = page;
        filter_used = sandbox_filter(filter);
    }
    atomic_store_explicit(&result->started, 0, memory_order_relaxed);
    atomic_store_explicit(&result->detail, 0, memory_order_relaxed);
    atomic_store_explicit(&result->state, SANDBOX_NEW, memory_order_relaxed);
    return true;
}

bool sandbox_supported(void)
{
    return true;
}

pid_t sandbox_clone(const struct sandbox_limits *limits)
{
    if (child || !prepare())
        return -1;
    sigset_t all, before;
    sigfillset(&all);
    pid_t parent = getpid();
    /* From here until the new mask, no handler of the program may run in the child. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* Not fork, because the program's fork handlers would run and take locks. No exit signal, so that wait() does not
     * see the child and there is no SIGCHLD. */
    long made = syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, 0);
    if (made == 0) {
        enter_sandbox(limits, parent);
        return 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made < 0)
        return -1;
    child = (pid_t)made;
    return child;
}

void sandbox_start(void)
{
    /* Release: everything that the parent prepared comes before. */
    atomic_store_explicit(&result->started, 1, memory_order_release);
    syscall(SYS_futex, &result->started, FUTEX_WAKE, 1, NULL, NULL, 0);
}

_Noreturn void sandbox_exit(void)
{
    end(SANDBOX_FINISHED, 0);
}

enum sandbox_state sandbox_read_state(uint32_t *detail)
{
    /* Acquire: pairs with the release in `end`. */
    uint32_t state = result ? atomic_load_explicit(&result->state, memory_order_acquire) : SANDBOX_NEW;
    *detail = result ? atomic_load_explicit(&result->detail, memory_order_relaxed) : 0;
    return state > SANDBOX_REFUSED ? SANDBOX_FAULT : (enum sandbox_state)state;
}

uint64_t sandbox_cpu_ns(void)
{
    clockid_t clock;
    struct timespec used;
    if (!child || clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

enum sandbox_state sandbox_end(uint32_t *detail)
{
    int saved_errno = errno;
    enum sandbox_state state = sandbox_read_state(detail);
    siginfo_t information = {0};
    if (child && state == SANDBOX_RUNS
        && waitid(P_PID, (id_t)child, &information, WEXITED | WNOHANG | WNOWAIT | __WCLONE) == 0
        && information.si_pid == child) {
        state = sandbox_read_state(detail); /* the child may have stored it in between */
        if (state == SANDBOX_RUNS)
            state = SANDBOX_FAULT;
    }
    /* While waitid still finds the child, its number is not reused. */
    if (child && waitid(P_PID, (id_t)child, &information, WEXITED | WNOHANG | WNOWAIT | __WCLONE) == 0)
        kill(child, SIGKILL);
    for (long nap_ns = REAP_NAP_FIRST_NS, waited_ns = 0; child && waited_ns < REAP_MAX_NS; nap_ns += nap_ns / 2) {
        pid_t reaped = waitpid(child, NULL, WNOHANG | __WCLONE);
        if (reaped == child || (reaped < 0 && errno == ECHILD)) {
            child = 0;
        } else {
            struct timespec nap = {.tv_nsec = nap_ns};
            nanosleep(&nap, NULL);
            waited_ns += nap_ns;
        }
    }
    errno = saved_errno;
    return state;
}

bool sandbox_child_remains(void)
{
    return child != 0;
}

#else

bool sandbox_supported(void)
{
    return false;
}

pid_t sandbox_clone(const struct sandbox_limits *limits)
{
    (void)limits;
    return -1;
}

void sandbox_start(void)
{
}

_Noreturn void sandbox_exit(void)
{
    _exit(0);
}

enum sandbox_state sandbox_read_state(uint32_t *detail)
{
    *detail = 0;
    return SANDBOX_NEW;
}

uint64_t sandbox_cpu_ns(void)
{
    return 0;
}

enum sandbox_state sandbox_end(uint32_t *detail)
{
    return sandbox_read_state(detail);
}

void sandbox_after_fork(void)
{
}

bool sandbox_child_remains(void)
{
    return false;
}

#endif
