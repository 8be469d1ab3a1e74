#include "joining.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void joining_fail(const char *what)
{
    fprintf(stderr, "bench-agent: %s: %s\n", what, errno != 0 ? strerror(errno) : "refused");
    exit(1);
}

uint64_t joining_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int joining_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

struct joined joining_greet(int fd)
{
    const struct joined none = {-1, NULL};
    struct vscaf_join hello = {.magic = VSCAF_PAGE_MAGIC, .version = VSCAF_PAGE_VERSION, .name = "bench-agent"};
    struct vscaf_welcome welcome;
    struct iovec part = {&welcome, sizeof(welcome)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    errno = 0;
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) < 0 ||
        recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != sizeof(welcome) || welcome.status != VSCAF_JOINED)
        return none;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL)
        return none;
    int memory;
    memcpy(&memory, CMSG_DATA(header), sizeof(memory));
    void *page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    close(memory);
    return page == MAP_FAILED ? none : (struct joined){fd, page};
}

struct joined joining_join(const char *path)
{
    int fd = joining_connect(path);
    if (fd < 0)
        return (struct joined){-1, NULL};
    struct joined joined = joining_greet(fd);
    if (joined.page == NULL)
        close(fd);
    return joined;
}

void joining_leave(struct joined *joined)
{
    close(joined->fd);
    munmap(joined->page, VSCAF_PAGE_BYTES);
    *joined = (struct joined){-1, NULL};
}

pid_t joining_fork(void)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

/* Relaxed throughout: statistics, as the shim publishes them. */

static void add(_Atomic uint64_t *sum, uint64_t by)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + by, memory_order_relaxed);
}

void joining_section(struct vscaf_page *page, uint32_t turns)
{
    add(&page->started, 1);
    uint32_t team = atomic_load_explicit(&page->team_size, memory_order_relaxed);
    atomic_store_explicit(&page->team_last, team, memory_order_relaxed);
    for (volatile uint32_t turn = 0; turn < turns; turn++)
        ;
    add(&page->section_ns, turns);
    add(&page->finished, 1);
}

void joining_publish(struct vscaf_page *page, uint32_t seed)
{
    atomic_fetch_add_explicit(&page->estimates_sequence, 1, memory_order_acq_rel);
    for (uint32_t i = 0; i < VSCAF_ESTIMATES; i++) {
        struct vscaf_estimate *estimate = &page->estimates[i];
        atomic_store_explicit(&estimate->team_size, i + 2, memory_order_relaxed);
        atomic_store_explicit(&estimate->samples, seed % 1000 + 1, memory_order_relaxed);
        atomic_store_explicit(&estimate->speedup_millionths, 1000000 + (i + 1) * 700000 + seed % 99991,
                              memory_order_relaxed);
        atomic_store_explicit(&estimate->standard_error_millionths, 30000 + seed % 9973, memory_order_relaxed);
    }
    atomic_store_explicit(&page->estimates_used, VSCAF_ESTIMATES, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->estimates_sequence, 1, memory_order_release);
    add(&page->learn_cost_ns, 1000 + seed % 1000);
    add(&page->learn_base_ns, 1000000);
    struct vscaf_decomposition *where = &page->decomposition;
    _Atomic uint64_t *parts[] = {&where->useful,   &where->inflation, &where->fork,
                                 &where->dispatch, &where->barrier,   &where->steal};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        uint64_t ns = 10000 * (6 - i) + seed % 1009;
        add(parts[i], ns);
        add(&where->total, ns);
    }
}
