#include "join/join.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <vscaf/socket_path.h>

#include "elf/loaded.h"
#include "join/program.h"
#include "measure/clock.h"

#define ANSWER_WAIT_MS 5000 /* in all, while the process has no page: what it is told meanwhile holds for good */
#define SHORT_WAIT_MS 200   /* for any other answer */
#define PAUSE_NS 200000     /* between two looks for another thread's join */
#define CHECK_PERIOD_NS 1000000000u
#define CHECK_GAP_MAX_NS UINT64_C(60000000000) /* after each refusal the gap to the next try doubles, up to this */
#define REFUSALS_COUNTED 7u
#define DESCRIPTOR_FLOOR 100 /* use descriptors above this, because programs and shells use the low ones by number */
#define DESCRIPTORS_MAX 8    /* at most this many are taken from one packet */

_Atomic uint64_t join_due, join_ahead_max;
/* Epoch and number of the last call. */
static _Atomic uint64_t last_call;

/* The process whose thread owns everything below; 0: no thread does. In a child made by fork it may be another process:
 * then that thread does not exist here. */
static _Atomic pid_t holder;
static uint32_t last_epoch = ATTACHMENT_FIRST_EPOCH;
static int socket_fd = -1;
static pid_t socket_process; /* the process that opened it: a child may have been made without the fork handler */
static dev_t socket_device;
static ino_t socket_inode;
static bool answer_outstanding;
static uint32_t refusals; /* by the agent, one after the other */
static bool answer_awaited; /* a call has waited for it */
static int patience_ms = ANSWER_WAIT_MS; /* what is left of ANSWER_WAIT_MS */
static uint32_t unloads_at_request; /* object_unloads */
static bool barrier_unavailable; /* the agent's barrier does not reach this process */

/* False: another thread is the holder. */
static bool hold(void)
{
    pid_t nobody = 0;
    /* Acquire and release: each holder sees the state that the last one left. The first look spares a system call. */
    return !atomic_load_explicit(&holder, memory_order_relaxed)
           && atomic_compare_exchange_strong_explicit(&holder, &nobody, getpid(), memory_order_acquire,
                                                      memory_order_relaxed);
}

static void release(void)
{
    atomic_store_explicit(&holder, 0, memory_order_release);
}

static bool socket_is_own(void)
{
    struct stat status;
    return socket_fd >= 0 && fstat(socket_fd, &status) == 0 && status.st_dev == socket_device
           && status.st_ino == socket_inode;
}

/* If the program closed the descriptor and its number now means something else, that is left alone. */
static void drop_socket(void)
{
    if (socket_is_own())
        close(socket_fd);
    socket_fd = -1;
    answer_outstanding = false;
}

static void map_anonymous(struct attachment *attachment)
{
    mmap(attachment->page, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void join_after_fork(void)
{
    drop_socket();
    for (unsigned i = 0; i < ATTACHMENTS; i++) {
        if (atomic_load_explicit(&attachments[i].joined, memory_order_relaxed))
            map_anonymous(&attachments[i]);
        /* Relaxed, all three: the child has one thread. */
        atomic_store_explicit(&attachments[i].joined, false, memory_order_relaxed);
        atomic_store_explicit(&attachments[i].sights_used, 0, memory_order_relaxed);
        atomic_store_explicit(&attachments[i].epoch, ++last_epoch, memory_order_relaxed);
    }
    patience_ms = ANSWER_WAIT_MS;
    atomic_store_explicit(&join_due, 0, memory_order_relaxed);
    release();
}

/* True if the memfd is as agreed: of the right size and version, and sealed against shrinking, because a page that
 * vanishes would raise SIGBUS in the program. */
static bool page_is_valid(int memfd)
{
    struct {
        uint32_t magic, version, bytes;
    } header;
    struct stat status;
    int seals = fcntl(memfd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(memfd, &status) == 0 && status.st_size == VSCAF_PAGE_BYTES
           && pread(memfd, &header, sizeof header, 0) == (ssize_t)sizeof header && header.magic == VSCAF_PAGE_MAGIC
           && header.version == VSCAF_PAGE_VERSION && header.bytes == VSCAF_PAGE_BYTES;
}

static bool attach(int memfd)
{
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_relaxed);
    struct attachment *next = &attachments[current == attachments];
    if (!page_is_valid(memfd))
        return false;
    atomic_store_explicit(&next->joined, false, memory_order_relaxed);
    if (mmap(next->page, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memfd, 0) == MAP_FAILED) {
        /* The kernel may have unmapped the old page before the call failed. */
        map_anonymous(next);
        return false;
    }
    atomic_store_explicit(&next->sights_used, 0, memory_order_relaxed);
    atomic_store_explicit(&next->unloads, unloads_at_request, memory_order_relaxed);
    atomic_store_explicit(&next->epoch, ++last_epoch, memory_order_relaxed);
    atomic_store_explicit(&next->joined, true, memory_order_relaxed);
    atomic_store_explicit(&next->fence, barrier_unavailable, memory_order_relaxed);
    /* Sequentially consistent: releases the stores above; see also program_note. */
    atomic_store(&attachment_current, next);
    program_copy(next->page);
    program_changed();
    return true;
}

/* Like poll(2), but a signal does not end the wait. */
static int wait_for_answer(int wait_ms)
{
    uint64_t deadline_ns = monotonic_ns() + (uint64_t)wait_ms * 1000000u;
    struct pollfd polled = {.fd = socket_fd, .events = POLLIN};
    for (;;) {
        int ready = poll(&polled, 1, wait_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return ready;
        uint64_t now_ns = monotonic_ns();
        if (now_ns >= deadline_ns)
            return 0;
        wait_ms = (int)((deadline_ns - now_ns + 999999u) / 1000000u);
    }
}

/* Takes the answer. The first time it waits for it. The agent has the connection, so it is only busy or stopped: if the
 * process has no page yet, the wait is long. False: the join has failed. */
static bool take_answer(void)
{
    bool patient = !answer_awaited && !attachment_joined() && patience_ms > SHORT_WAIT_MS;
    int wait_ms = answer_awaited ? 0 : patient ? patience_ms : SHORT_WAIT_MS;
    answer_awaited = true;
    uint64_t begin_ns = monotonic_ns();
    int ready = wait_for_answer(wait_ms);
    if (patient) {
        uint64_t waited_ms = (monotonic_ns() - begin_ns) / 1000000u;
        patience_ms -= waited_ms < ANSWER_WAIT_MS ? (int)waited_ms : ANSWER_WAIT_MS;
    }
    if (ready <= 0)
        return ready == 0; /* still outstanding: the next look tries again, without waiting */

    struct vscaf_welcome welcome = {0};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * DESCRIPTORS_MAX)];
    } control;
    struct iovec vector = {.iov_base = &welcome, .iov_len = sizeof welcome};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0)
        return errno == EAGAIN || errno == EINTR;
    answer_outstanding = false;

    bool accepted = received == (ssize_t)sizeof welcome && welcome.magic == VSCAF_PAGE_MAGIC
                    && welcome.version == VSCAF_PAGE_VERSION && welcome.status == VSCAF_JOINED
                    && welcome.bytes == VSCAF_PAGE_BYTES;
    bool attached = false;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int received_fd;
            memcpy(&received_fd, CMSG_DATA(part) + i * sizeof(int), sizeof received_fd);
            if (accepted && !attached)
                attached = attach(received_fd);
            close(received_fd);
        }
    }
    return attached;
}

static bool connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    return connect(socket_fd, (const struct sockaddr *)&address, sizeof address) == 0;
}

/* Connects to one of the places in vscaf/socket_path.h. */
static bool connect_to_agent(void)
{
    char own[VSCAF_SOCKET_PATH_BYTES];
    struct ucred peer;
    const char *named = secure_getenv("VSCAF_SOCKET");
    if (named && named[0])
        return connect_to(named);
    if (connect_to(VSCAF_SOCKET_DEFAULT))
        return true;
    /* EAGAIN: too many wait for the system's agent. Try that one again later, and no other. */
    return errno != EAGAIN && vscaf_socket_path_of_user(own) && connect_to(own)
           && vscaf_peer_is_trusted(socket_fd, &peer);
}

static bool request_join(void)
{
    int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (low < 0)
        return false;
    socket_fd = fcntl(low, F_DUPFD_CLOEXEC, DESCRIPTOR_FLOOR);
    if (socket_fd >= 0)
        close(low);
    else
        socket_fd = low; /* RLIMIT_NOFILE is below the floor */
    struct stat status;
    if (fstat(socket_fd, &status) != 0) {
        close(socket_fd);
        socket_fd = -1;
        return false;
    }
    socket_process = getpid();
    socket_device = status.st_dev;
    socket_inode = status.st_ino;

    /* The agent uses this barrier between storing a team size and reading the sections in flight (page.h). A kernel or
     * a seccomp filter may refuse it to this process alone. */
    barrier_unavailable = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;

    /* Acquire: see object_of. */
    unloads_at_request = atomic_load_explicit(&object_unloads, memory_order_acquire);
    struct vscaf_join packet = {.magic = VSCAF_PAGE_MAGIC, .version = VSCAF_PAGE_VERSION};
    strncpy(packet.name, program_invocation_short_name, sizeof packet.name - 1);
    if (!connect_to_agent()
        || send(socket_fd, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof packet) {
        drop_socket();
        return false;
    }
    answer_outstanding = true;
    answer_awaited = false;
    return true;
}

static bool answered(void)
{
    bool taken = take_answer();
    if (taken)
        refusals = 0;
    else if (refusals < REFUSALS_COUNTED)
        refusals++;
    return taken;
}

/* The agent has gone: teams have the program's own numbers again, on memory of the library. */
static void detach(void)
{
    const struct attachment *current = atomic_load_explicit(&attachment_current, memory_order_relaxed);
    struct attachment *next = &attachments[current == attachments];
    if (!atomic_load_explicit(&current->joined, memory_order_relaxed))
        return;
    atomic_store_explicit(&next->joined, false, memory_order_relaxed);
    map_anonymous(next);
    atomic_store_explicit(&next->epoch, ++last_epoch, memory_order_relaxed);
    /* Sequentially consistent: see attach. */
    atomic_store(&attachment_current, next);
    program_changed();
}

static void check_connection(void)
{
    if (!join_fork_is_handled())
        return;
    if (socket_fd >= 0 && !socket_is_own())
        drop_socket();
    if (socket_fd >= 0 && answer_outstanding) {
        if (!answered())
            drop_socket();
        return;
    }
    if (socket_fd >= 0) {
        char byte;
        ssize_t received = recv(socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        /* The agent sends nothing after its answer. So a packet is an error, like the end of the connection. */
        if (received < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        drop_socket();
        if (!request_join() || !answered()) {
            drop_socket();
            detach();
        }
    } else if (request_join() && !answered()) {
        drop_socket();
    }
}

void join_request(void)
{
    /* Another library's constructor may have run a section already, or started a thread that runs one now. */
    if (!hold())
        return;
    int saved_errno = errno;
    if (socket_fd < 0 && join_fork_is_handled())
        request_join();
    errno = saved_errno;
    release();
}

static void call(uint32_t number)
{
    struct vscaf_call packet = {.magic = VSCAF_CALL_MAGIC, .number = number};
    if (answer_outstanding || getpid() != socket_process || !socket_is_own())
        return;
    /* A call that gets lost does no harm: the agent sees the section in its next period. */
    ssize_t sent = send(socket_fd, &packet, sizeof packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

void join_call(struct attachment *attachment, uint32_t number)
{
    uint64_t this_call = (uint64_t)atomic_load_explicit(&attachment->epoch, memory_order_relaxed) << 32 | number;
    /* Relaxed: it is only compared, and only the holder writes it. */
    if (atomic_load_explicit(&last_call, memory_order_relaxed) == this_call)
        return;
    int saved_errno = errno;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* see join_maintain */
    /* If another thread is the holder, that one is quick, and the next section tries again. */
    if (hold()) {
        if (attachment == atomic_load_explicit(&attachment_current, memory_order_relaxed)
            && atomic_load_explicit(&last_call, memory_order_relaxed) != this_call) {
            atomic_store_explicit(&last_call, this_call, memory_order_relaxed);
            call(number);
        }
        release();
    }
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
}

void join_maintain(uint64_t now)
{
    if (!hold())
        return;
    if (join_is_due(now)) {
        int saved_errno = errno;
        int cancel_state;
        /* If the thread were cancelled here, it would stay the holder and no thread would look again. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        clock_refine();
        check_connection();
        pthread_setcancelstate(cancel_state, NULL);
        uint64_t gap_ns = refusals > 1 ? (uint64_t)CHECK_PERIOD_NS << (refusals - 1) : CHECK_PERIOD_NS;
        uint64_t period = clock_ticks_of(gap_ns < CHECK_GAP_MAX_NS ? gap_ns : CHECK_GAP_MAX_NS);
        /* Two periods: another thread may have read the clock before this one. */
        atomic_store_explicit(&join_ahead_max, 2 * period, memory_order_relaxed);
        /* Release: see join_before_number. */
        atomic_store_explicit(&join_due, clock_ticks() + period, memory_order_release);
        errno = saved_errno;
    }
    release();
}

/* Sleeps, so that a thread of any priority lets the holder go on. */
static __attribute__((noinline)) void wait_for_holder(void)
{
    int saved_errno = errno;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the program's call is no cancellation point */
    struct timespec pause = {.tv_nsec = PAUSE_NS};
    pid_t own = getpid();
    /* The holder itself waits no longer than that. A signal handler may have interrupted it in this very thread. */
    uint64_t deadline_ns = monotonic_ns() + (uint64_t)ANSWER_WAIT_MS * 1000000u;
    while (join_maintain_if_due(clock_ticks()) && !attachment_joined()) {
        pid_t seen = atomic_load_explicit(&holder, memory_order_relaxed);
        if ((seen && seen != own) || monotonic_ns() >= deadline_ns)
            break;
        nanosleep(&pause, NULL);
    }
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved_errno;
}

void join_before_number(void)
{
    /* A thread that has looked itself has put the next look off. If another one looks now, it still is due. */
    if (join_maintain_if_due(clock_ticks()) && join_is_due(clock_ticks()) && !attachment_joined())
        wait_for_holder();
    /* Acquire: who sees that another thread's look has put the next one off also sees the page that it found. */
    atomic_load_explicit(&join_due, memory_order_acquire);
}
