/* Sections that use descriptors, processes, signals and threads. */
#include "unseen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/vscaf-unseen-XXXXXX";
static char path[64];
static int file = -1, pipe_ends[2], sockets[2];
static FILE *stream;
static volatile sig_atomic_t user_signals;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void open_file(void)
{
    CHECK(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/file", directory);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0);
}

static void remove_file(void)
{
    CHECK(unlink(path) == 0 && rmdir(directory) == 0);
}

static void write_act(void)
{
    ssize_t written = write(file, "0123456789", 10);
    if (real())
        CHECK(written == 10);
}

static void writes(void)
{
    open_file();
    run_scenario(&(struct scenario){.act = write_act, .outcome = ABANDONED});
    CHECK(lseek(file, 0, SEEK_CUR) == 10 * (off_t)instances && lseek(file, 0, SEEK_END) == 10 * (off_t)instances);
    remove_file();
}

static void seek_act(void)
{
    lseek(file, 1, SEEK_CUR);
}

static void seeks(void)
{
    open_file();
    run_scenario(&(struct scenario){.act = seek_act, .outcome = ABANDONED});
    CHECK(lseek(file, 0, SEEK_CUR) == (off_t)instances);
    remove_file();
}

static void pipe_act(void)
{
    unsigned short number = 0;
    ssize_t got = read(pipe_ends[0], &number, sizeof number);
    if (real())
        CHECK(got == sizeof number && number == instances, "%u instead of %u", number, instances);
}

static void reads_pipe(void)
{
    CHECK(pipe(pipe_ends) == 0);
    for (unsigned short i = 1; i <= INSTANCES_MAX; i++)
        CHECK(write(pipe_ends[1], &i, sizeof i) == sizeof i);
    run_scenario(&(struct scenario){.act = pipe_act, .outcome = ABANDONED});
}

static void send_act(void)
{
    send(sockets[0], "x", 1, 0);
}

static void count_received(void)
{
    char byte;
    int received = 0;
    while (recv(sockets[1], &byte, 1, MSG_DONTWAIT) == 1)
        received++;
    CHECK(received == 1, "%d", received);
}

static void sends(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    run_scenario(&(struct scenario){.act = send_act, .after = count_received, .outcome = ABANDONED});
}

static void write_at_exit(void)
{
    if (!real()) {
        ssize_t written = write(file, "exit", 4);
        (void)written;
    }
}

static void exit_act(void)
{
    if (!real())
        exit(3);
}

static void exits(void)
{
    open_file();
    atexit(write_at_exit);
    run_scenario(&(struct scenario){.act = exit_act, .outcome = ABANDONED});
    CHECK(lseek(file, 0, SEEK_END) == 0);
    remove_file();
}

static void quiet_exit_act(void)
{
    if (!real())
        _exit(0);
}

/* The child exits silently, so nothing is learned. */
static void exits_quietly(void)
{
    run_scenario(&(struct scenario){.act = quiet_exit_act, .outcome = ABANDONED});
    /* After two such experiments no more is tried, however long the program runs. */
    uint64_t until_ns = scripted_now_ns() + UINT64_C(100000000000);
    while (scripted_now_ns() < until_ns) {
        scripted_advance(2000000000);
        run_scenario(&(struct scenario){.act = quiet_exit_act, .outcome = ABANDONED, .more = true});
    }
    CHECK(page->experiments_abandoned == 2, "%u", page->experiments_abandoned);
}

static void fork_act(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (real()) {
        int status;
        CHECK(child > 0 && waitpid(-1, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void forks(void)
{
    run_scenario(&(struct scenario){.act = fork_act, .outcome = ABANDONED, .signals = 1});
}

static void on_user(int number)
{
    (void)number;
    user_signals++;
}

static void raise_act(void)
{
    kill(program, SIGUSR1);
}

static void raises(void)
{
    signal(SIGUSR1, on_user);
    run_scenario(&(struct scenario){.act = raise_act, .outcome = ABANDONED});
    CHECK(user_signals <= (int)instances, "%d signals in %u sections", (int)user_signals, instances);
    int before = user_signals;
    CHECK(raise(SIGUSR1) == 0 && user_signals == before + 1);
}

static void sleep_act(void)
{
    struct timespec nap = {.tv_nsec = 3000000};
    CHECK(nanosleep(&nap, NULL) == 0);
}

static void sleeps(void)
{
    run_scenario(&(struct scenario){.act = sleep_act, .outcome = ENDS});
}

static void create_act(void)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%u-%d", directory, instances, real());
    int made = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (real()) {
        CHECK(made >= 0);
        close(made);
    }
}

static void creates(void)
{
    open_file();
    run_scenario(&(struct scenario){.act = create_act, .outcome = ABANDONED});
    for (unsigned i = 1; i <= instances; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s/%u-1", directory, i);
        CHECK(unlink(name) == 0, "%s", name);
    }
    remove_file(); /* fails if a child made any other file */
}

static void print_act(void)
{
    fprintf(stream, "line %u\n", instances);
}

static void flush_act(void)
{
    fprintf(stream, "line %u\n", instances);
    fflush(stream);
}

static void check_lines(void)
{
    CHECK(fclose(stream) == 0);
    stream = fopen(path, "r");
    for (unsigned i = 1, seen; i <= instances; i++)
        CHECK(fscanf(stream, "line %u\n", &seen) == 1 && seen == i);
    CHECK(fgetc(stream) == EOF);
    fclose(stream);
    remove_file();
}

static void prints(void)
{
    open_file();
    stream = fdopen(file, "w");
    static char buffer[1 << 20];
    setvbuf(stream, buffer, _IOFBF, sizeof buffer);
    run_scenario(&(struct scenario){.act = print_act, .outcome = ENDS});
    check_lines();
}

static void flushes(void)
{
    open_file();
    stream = fdopen(file, "w");
    run_scenario(&(struct scenario){.act = flush_act, .outcome = ABANDONED});
    check_lines();
}

static void *touch(void *argument)
{
    (*(int *)argument)++;
    return NULL;
}

static void thread_act(void)
{
    pthread_t thread;
    int touched = 0;
    int made = pthread_create(&thread, NULL, touch, &touched);
    if (real()) {
        CHECK(made == 0 && pthread_join(thread, NULL) == 0 && touched == 1);
    }
}

static void starts_threads(void)
{
    run_scenario(&(struct scenario){.act = thread_act, .outcome = ABANDONED});
}

static void futex_act(void)
{
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_nsec -= 1000000000;
        soon.tv_sec++;
    }
    pthread_mutex_lock(&lock);
    CHECK(pthread_cond_timedwait(&condition, &lock, &soon) == ETIMEDOUT);
    pthread_mutex_unlock(&lock);
}

static void waits_on_futex(void)
{
    run_scenario(&(struct scenario){.act = futex_act, .outcome = ENDS});
}

/* Holds the lock when a section begins, and releases it in the middle of the section. */
static _Atomic int holder_phase;

static void *holder(void *argument)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        holder_phase = 1;
        while (holder_phase == 1)
            sched_yield();
        pthread_mutex_unlock(&lock);
        while (holder_phase == 2)
            sched_yield();
        if (holder_phase < 0)
            return argument;
    }
}

static void await_holder(void)
{
    WAIT_UNTIL(holder_phase == 1, (void)0);
}

static void lock_act(void)
{
    holder_phase = 2;
    pthread_mutex_lock(&lock); /* a child waits here forever */
    pthread_mutex_unlock(&lock);
}

static void release_holder(void)
{
    holder_phase = 0;
}

static void holds_locks(void)
{
    real_limits = true;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, holder, NULL) == 0);
    run_scenario(&(struct scenario){
        .act = lock_act, .before = await_holder, .after = release_holder, .outcome = ABANDONED});
    await_holder();
    holder_phase = 2;
    holder_phase = -1;
    pthread_join(thread, NULL);
}

/* Another thread closes the writing end during the section. The reader must see the end of file at once. */
static _Atomic int closing, closed_in_time;

static void *closer(void *argument)
{
    for (;;) {
        while (closing == 0)
            sched_yield();
        if (closing < 0)
            return argument;
        close(pipe_ends[1]);
        struct pollfd watched = {.fd = pipe_ends[0], .events = POLLIN};
        closed_in_time += poll(&watched, 1, 0) == 1 && (watched.revents & POLLHUP);
        closing = 0;
    }
}

static void make_pipe(void)
{
    CHECK(pipe(pipe_ends) == 0);
}

static void close_act(void)
{
    if (real()) {
        closing = 1;
        while (closing)
            sched_yield();
    }
}

static void close_reader(void)
{
    close(pipe_ends[0]);
}

static void closes(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, closer, NULL) == 0);
    run_scenario(&(struct scenario){.act = close_act, .before = make_pipe, .after = close_reader, .outcome = ENDS});
    closing = -1;
    pthread_join(thread, NULL);
    CHECK(closed_in_time == (int)instances, "%d of %u", closed_in_time, instances);
}

/* flock: the lock must be free when the program closes the file. So the child must not have a copy of it. */
static void flock_act(void)
{
    if (real()) {
        int other = open(path, O_RDWR | O_CLOEXEC);
        CHECK(close(file) == 0 && flock(other, LOCK_EX | LOCK_NB) == 0, "still locked");
        file = other;
    }
}

static void locks_file(void)
{
    open_file();
    CHECK(flock(file, LOCK_EX) == 0);
    run_scenario(&(struct scenario){.act = flock_act, .outcome = ENDS});
    remove_file();
}

const struct act unseen_calls[] = {
    {"write", writes},
    {"seek", seeks},
    {"pipe", reads_pipe},
    {"socket", sends},
    {"exit", exits},
    {"_exit", exits_quietly},
    {"fork", forks},
    {"signal", raises},
    {"sleep", sleeps},
    {"create", creates},
    {"print", prints},
    {"flush", flushes},
    {"thread", starts_threads},
    {"futex", waits_on_futex},
    {"lock", holds_locks},
    {"close", closes},
    {"flock", locks_file},
    {NULL, NULL},
};
