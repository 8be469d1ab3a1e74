#include "programs/clients.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inspect/client_code.h"
#include "programs/attached_fds.h"
#include "programs/join_socket.h"
#include "programs/peer.h"
#include "programs/status_request.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/utf8.h"

#define NO_DESCRIPTOR_NS UINT64_C(100000000) /* without a free descriptor, accept no connection for this time */
/* A program that alternates sections of its share with others of its own number is not moved back and forth. */
#define OWN_THREADS_NS UINT64_C(10000000000)
#define NO_TASK_NS UINT64_C(100000000)       /* if no child could be made, try again after this time */

/* Every connection is in a slot, waits in attached_fds.c, or was accepted in this turn. With CLIENTS_UNCLOSED_MAX
 * waiting, none is accepted. */
static_assert(CLIENTS_SLOTS + CLIENTS_UNCLOSED_MAX + CLIENTS_ACCEPTED_MAX <= ATTACHED_FDS_MAX,
              "all of them can be kept");

/* Makes sure that there are descriptors for all slots. Root may raise the hard limit, others only up to it. */
static void reserve_descriptors(void)
{
    const rlim_t needed = CLIENTS_DESCRIPTORS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    struct rlimit wanted = {.rlim_cur = needed, .rlim_max = limit.rlim_max > needed ? limit.rlim_max : needed};
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    log_line("only %ju descriptors may be open, and %u programs need %ju: raise the limit (ulimit -n, LimitNOFILE=)",
             (uintmax_t)limit.rlim_max, CLIENTS_MAX, (uintmax_t)needed);
}

int clients_listen(struct clients *clients, const char *path, const char *proc, uint32_t per_user)
{
    clients->path = path;
    clients->proc = proc;
    clients->joined = 0;
    clients->end = 0;
    admission_init(&clients->admission, per_user, geteuid());
    clients->work_ns = CLIENTS_WORK_BURST_NS;
    reserve_descriptors();
    clients->listener = join_socket_open(path);
    if (clients->listener >= 0 && (clients->epoll = client_poll_open()) < 0) {
        log_error("socket %s: cannot be served: %s: raise the limit of open files (LimitNOFILE)", path,
                  strerror(errno));
        return -1;
    }
    clients->rights_refused = clients->listener >= 0 && attached_fds_refuse(clients->listener);
    return clients->listener >= 0 ? 0 : -1;
}

void clients_drop(struct clients *clients, struct client *client)
{
    if (client->page != NULL) {
        uint64_t now_ns = monotonic_ns();
        clients_note_outgrown(clients, now_ns);
        client_learn(clients, client, now_ns); /* short runs end between two periods */
        if (client->program != NULL)
            known_program_leave(client->program, &client->paces_reader, now_ns);
        /* The process may keep the file for ever, and its memory is charged to the agent. So free the memory. */
        madvise(client->page, VSCAF_PAGE_BYTES, MADV_REMOVE);
        munmap(client->page, VSCAF_PAGE_BYTES);
        clients->joined--;
    }
    free(client->threads);
    client_code_release(client->code);
    if (client->answer_fd >= 0)
        close(client->answer_fd);
    client_poll_forget(clients->epoll, &client->poll, client->fd, client->pidfd);
    attached_fds_close(&clients->unclosed, client->fd);
    if (client->pidfd >= 0)
        close(client->pidfd);
    *client = (struct client){.fd = -1, .pidfd = PEER_NO_PIDFD, .answer_fd = -1};
    while (clients->end > 0 && clients->slots[clients->end - 1].fd < 0)
        clients->end--;
}

void clients_close(struct clients *clients)
{
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page != NULL) {
            /* No agent may follow. Relaxed: each value is used alone. */
            atomic_store_explicit(&client->page->control, 0, memory_order_relaxed);
            atomic_store_explicit(&client->page->team_size, 0, memory_order_relaxed);
            munmap(client->page, VSCAF_PAGE_BYTES);
            client->page = NULL;
        }
        if (client->fd >= 0)
            clients_drop(clients, client);
    }
    clients->joined = 0;
    known_programs_free(&clients->known);
    if (clients->listener >= 0)
        join_socket_close(&clients->unclosed, clients->listener, clients->path);
    clients->listener = -1;
    if (clients->epoll >= 0)
        close(clients->epoll);
    clients->epoll = -1;
}

static void send_welcome(int fd, enum vscaf_join_status status, int page_fd)
{
    struct vscaf_welcome welcome = {.magic = VSCAF_PAGE_MAGIC,
                                    .version = VSCAF_PAGE_VERSION,
                                    .status = (uint32_t)status,
                                    .bytes = VSCAF_PAGE_BYTES};
    struct iovec part = {&welcome, sizeof(welcome)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (page_fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &page_fd, sizeof(int));
    }
    /* If the peer is gone, the next poll shows a closed socket. */
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

/* Returns a slot for a connection that has sent nothing yet. If none is free, the account that has the most
 * loses one. */
static struct client *joining_slot(struct clients *clients, account_t account)
{
    struct client *free_slot = NULL, *joining[CLIENTS_JOINING_MAX + 1];
    account_t accounts[CLIENTS_JOINING_MAX + 1];
    uint64_t since_ns[CLIENTS_JOINING_MAX + 1];
    size_t count = 0;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->fd < 0) {
            free_slot = free_slot == NULL ? client : free_slot;
        } else if (client->page == NULL && count < CLIENTS_JOINING_MAX) {
            joining[count] = client;
            accounts[count] = client->account;
            since_ns[count++] = client->connected_ns;
        }
    }
    if (count < CLIENTS_JOINING_MAX && (free_slot != NULL || clients->end == CLIENTS_SLOTS))
        return free_slot;
    if (count < CLIENTS_JOINING_MAX)
        return &clients->slots[clients->end];
    joining[count] = NULL; /* the new connection counts, too; of its account's connections it goes last */
    accounts[count] = account;
    since_ns[count++] = UINT64_MAX;
    struct client *evicted = joining[admission_evict(accounts, since_ns, count)];
    if (evicted != NULL)
        clients_drop(clients, evicted);
    return evicted;
}

static void refuse(struct clients *clients, int fd, const struct peer *peer, account_t account, bool keep_out,
                   uint64_t now_ns)
{
    char name[64];
    account_name(account, name, sizeof(name));
    if (admission_should_log(&clients->admission, account, false))
        log_line("%s connects more than %.0f times a second (process %d): refused, its programs run on unmanaged "
                 "(logged once)",
                 name, ADMISSION_RATE, (int)peer->pid);
    if (keep_out) /* if this fails, each connection is still refused here */
        socket_acl_deny(&clients->acl, clients->path, peer->user, now_ns + admission_flood_ns());
    send_welcome(fd, VSCAF_JOIN_FULL, -1);
    attached_fds_close(&clients->unclosed, fd);
}

/* No connection can be accepted now. They wait at the listener, which is not polled for a while. */
static void pause_accepting(struct clients *clients, int error, uint64_t now_ns)
{
    if (!clients->shortage_logged)
        log_line("socket %s: a program cannot join: %s (logged once)", clients->path, strerror(error));
    clients->shortage_logged = true;
    clients->accept_ns = now_ns + NO_DESCRIPTOR_NS;
}

/* The account of the process. If the process has ended: the user that it had. */
static account_t account_of_peer(const struct clients *clients, struct peer *peer)
{
    account_t account = account_of(clients->proc, peer->pidfd != PEER_NO_PIDFD ? peer->pid : 0, peer->user);
    return peer_is_alive(peer->pidfd) ? account : (account_t)peer->user;
}

static void admit(struct clients *clients, int fd, uint64_t now_ns)
{
    struct peer peer;
    int status = peer_of(fd, clients->proc, &peer);
    if (status != 0 && status != -ESRCH) {
        pause_accepting(clients, -status, now_ns);
        send_welcome(fd, VSCAF_JOIN_FULL, -1); /* the program asks again */
        attached_fds_close(&clients->unclosed, fd);
        return;
    }
    account_t account = status == 0 ? account_of_peer(clients, &peer) : (account_t)peer.user;
    struct client *client = NULL;
    enum admission_pace pace = admission_connect(&clients->admission, account, now_ns);
    /* The list of the socket names a user id, which containers may share. A process that has ended may have been in
     * one. So only a flood that is known to be the user's own keeps the user out. */
    bool own = status == 0 && peer_is_alive(peer.pidfd) && account == (account_t)peer.user;
    if (pace != ADMISSION_STEADY)
        refuse(clients, fd, &peer, account, pace == ADMISSION_FLOOD && own, now_ns);
    else if (status != 0 || (client = joining_slot(clients, account)) == NULL)
        attached_fds_close(&clients->unclosed,
                           fd); /* the program, if it still runs, runs as if there were no agent */
    if (client == NULL) {
        if (peer.pidfd >= 0)
            close(peer.pidfd);
        return;
    }
    uint32_t slot = (uint32_t)(client - clients->slots);
    clients->end = clients->end > slot ? clients->end : slot + 1;
    *client = (struct client){.fd = fd,
                              .pid = peer.pid,
                              .user = peer.user,
                              .pidfd = peer.pidfd,
                              .answer_fd = -1,
                              .account = account,
                              .connected_ns = now_ns};
}

int clients_listener(const struct clients *clients, uint64_t now_ns)
{
    return now_ns >= clients->accept_ns && clients->unclosed.count < CLIENTS_UNCLOSED_MAX ? clients->listener : -1;
}

void clients_accept(struct clients *clients, uint64_t now_ns)
{
    for (uint32_t i = 0; i < CLIENTS_ACCEPTED_MAX && clients->accept_ns <= now_ns; i++) {
        int fd = accept4(clients->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(clients, fd, now_ns);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno == EAGAIN)
            return;
        pause_accepting(clients, errno, now_ns);
        return;
    }
}

void clients_worked(struct clients *clients, uint64_t cpu_ns, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > clients->work_updated_ns ? now_ns - clients->work_updated_ns : 0;
    if (passed_ns > UINT64_C(1000000000))
        passed_ns = UINT64_C(1000000000);
    clients->work_ns += (int64_t)passed_ns * CLIENTS_WORK_PERCENT / 100;
    if (clients->work_ns > CLIENTS_WORK_BURST_NS)
        clients->work_ns = CLIENTS_WORK_BURST_NS;
    clients->work_updated_ns = now_ns;
    clients->work_ns -= (int64_t)cpu_ns;
    if (clients->work_ns < 0)
        clients->accept_ns = now_ns + (uint64_t)(-clients->work_ns * 100 / CLIENTS_WORK_PERCENT);
}

/* Makes the page and its sealed file. Returns the descriptor of the file. On failure frees everything, and
 * returns -1. */
static int make_page(struct client *client, uint32_t team_limit)
{
    int fd = memfd_create("vscaf-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    /* Allocate the memory now: a later lack of memory would be a SIGBUS here or in the program. */
    if (posix_fallocate(fd, 0, VSCAF_PAGE_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    void *memory = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        close(fd);
        return -1;
    }
    struct vscaf_page *page = memory;
    page->magic = VSCAF_PAGE_MAGIC;
    page->version = VSCAF_PAGE_VERSION;
    page->bytes = VSCAF_PAGE_BYTES;
    /* Relaxed: no other process has the page yet, and sending its file orders these stores before the process's
     * loads. */
    atomic_store_explicit(&page->team_size, 1, memory_order_relaxed);
    atomic_store_explicit(&page->team_limit, team_limit, memory_order_relaxed);
    atomic_store_explicit(&page->team_told, team_limit, memory_order_relaxed);
    client->page = page;
    client->answer_fd = fd;
    return fd;
}

/* Drops an older connection of the same process: with two pages it would count twice. The old connection may still be
 * open when the process has started a new program, because a child has it. */
static void replace_older(struct clients *clients, const struct client *client)
{
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *other = &clients->slots[i];
        if (other->page != NULL && client->pid > 0 && other->pid == client->pid && other->account == client->account)
            clients_drop(clients, other);
    }
}

/* Whether it may join. If not, logs that once for its account. */
static bool may_join(struct clients *clients, const struct client *client)
{
    uint32_t own = 0;
    for (uint32_t i = 0; i < clients->end; i++)
        own += clients->slots[i].page != NULL && clients->slots[i].account == client->account;
    if (admission_join(&clients->admission, client->account, own, clients->joined, CLIENTS_MAX))
        return true;
    char name[64];
    account_name(client->account, name, sizeof(name));
    if (admission_should_log(&clients->admission, client->account, true))
        log_line("process %d (%s) runs on unmanaged: %u programs have joined, %u of them of %s (logged once; see "
                 "--per-user)",
                 (int)client->pid, client->name, clients->joined, own, name);
    return false;
}

enum clients_event clients_serve(struct clients *clients, struct client *client, uint32_t team_limit)
{
    if (!clients->rights_refused && attached_fds_present(client->fd)) {
        bool left = client->page != NULL;
        clients_drop(clients, client);
        return left ? CLIENTS_LEFT : CLIENTS_NOTHING;
    }
    struct vscaf_join join = {0};
    ssize_t got = recv(client->fd, &join, sizeof(join), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CLIENTS_NOTHING;
    bool joined = client->page != NULL;
    /* A joined process may call. Any other packet drops it, and so does its end of file. */
    if (joined && got > 0 && got <= (ssize_t)sizeof(join)) {
        enum lend_packet packet = lend_take_packet(&client->lend, &join, (size_t)got);
        if (packet != LEND_NO_CALL)
            return packet == LEND_CALLED ? CLIENTS_CALLED : CLIENTS_NOTHING;
    }
    if (joined || got <= 0) {
        clients_drop(clients, client);
        return joined ? CLIENTS_LEFT : CLIENTS_NOTHING;
    }
    client->status_version = status_request_version(&join, (size_t)got);
    if (client->status_version != 0)
        return CLIENTS_STATUS_REQUESTED;
    if (got < (ssize_t)offsetof(struct vscaf_join, name) || join.magic != VSCAF_PAGE_MAGIC) {
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    if (join.version != VSCAF_PAGE_VERSION) {
        send_welcome(client->fd, VSCAF_JOIN_VERSION, -1);
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    if (got != sizeof(join)) {
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    if (!peer_is_alive(client->pidfd)) { /* another process has its connection */
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    join.name[sizeof(join.name) - 1] = '\0';
    utf8_printable(client->name, sizeof(client->name), join.name);
    replace_older(clients, client);
    bool permitted = may_join(clients, client);
    int page_fd = permitted ? make_page(client, team_limit) : -1;
    if (page_fd < 0) {
        if (permitted && !clients->shortage_logged)
            log_line("process %d (%s) runs on unmanaged: no memory for its page (logged once)", (int)client->pid,
                     client->name);
        clients->shortage_logged = clients->shortage_logged || permitted;
        send_welcome(client->fd, VSCAF_JOIN_FULL, -1);
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    client->newcomer = client->running = true;
    clients->joined++;
    return CLIENTS_JOINED;
}

void clients_answer(struct client *client)
{
    if (client->answer_fd < 0)
        return;
    send_welcome(client->fd, VSCAF_JOINED, client->answer_fd);
    close(client->answer_fd);
    client->answer_fd = -1;
}

/* Whether it has sent nothing. If the agent was delayed, a packet may wait to be read. */
static bool has_sent_nothing(const struct client *client)
{
    struct pollfd input = {.fd = client->fd, .events = POLLIN};
    return poll(&input, 1, 0) == 0;
}

uint64_t clients_drop_silent(struct clients *clients, uint64_t now_ns)
{
    uint64_t next_ns = socket_acl_expire(&clients->acl, clients->path, now_ns);
    if (clients->unclosed.count > 0 && clients->unclosed_next_ns <= now_ns) {
        attached_fds_retry(&clients->unclosed);
        clients->unclosed_next_ns = now_ns + NO_TASK_NS;
    }
    if (clients->unclosed.count > 0 && clients->unclosed_next_ns < next_ns)
        next_ns = clients->unclosed_next_ns;
    if (clients->accept_ns > now_ns && clients->accept_ns < next_ns)
        next_ns = clients->accept_ns;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->fd < 0 || client->page != NULL)
            continue;
        uint64_t due_ns = client->connected_ns + CLIENTS_SILENCE_NS;
        if (due_ns > now_ns)
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        else if (has_sent_nothing(client))
            clients_drop(clients, client);
    }
    return next_ns;
}

void clients_recognize(struct clients *clients, struct client *client, uint64_t key, uint64_t now_ns)
{
    client->program = known_programs_enter(&clients->known, key, client->account, now_ns);
    client->known_at_start = client->program != NULL && client->program->points_count > 0;
}

void clients_note_outgrown(struct clients *clients, uint64_t now_ns)
{
    if (now_ns < clients->outgrown_check_ns) /* too early: sections that end soon do not count */
        return;
    clients->outgrown_check_ns = 0;
    for (uint32_t i = 0; i < clients->end; i++) {
        struct client *client = &clients->slots[i];
        if (client->page != NULL && in_flight_waiting(&client->in_flight, client->page, now_ns))
            clients->outgrown_ns = now_ns;
    }
}

void client_learn(const struct clients *clients, struct client *client, uint64_t now_ns)
{
    bool disturbed = clients->outgrown_ns > 0 && clients->outgrown_ns >= client->learned_ns;
    double passed_s = now_ns > client->learned_ns ? (double)(now_ns - client->learned_ns) / 1e9 : 0.0;
    learned_period(&client->learned, client->page, passed_s, client->running);
    if (client->program != NULL)
        known_program_learn(client->program, &client->paces_reader, client->page, &client->learned,
                            client->running ? passed_s : 0.0, disturbed);
    client->learned_ns = now_ns;
}

size_t client_speedup(const struct client *client, const struct speedup_point **points)
{
    *points = client->program != NULL ? client->program->points : client->learned.points;
    return client->program != NULL ? client->program->points_count : client->learned.points_count;
}

/* Loads from the page are relaxed below: each value is clamped and used alone. */

enum vscaf_malleable client_malleable(const struct client *client)
{
    uint32_t malleable = atomic_load_explicit(&client->page->malleable, memory_order_relaxed);
    return malleable < VSCAF_MALLEABLE_RIGID ? (enum vscaf_malleable)malleable : VSCAF_MALLEABLE_RIGID;
}

const char *client_malleable_name(const struct client *client)
{
    static const char *const names[] = {
        [VSCAF_MALLEABLE_FULL] = "full", [VSCAF_MALLEABLE_SHRINK] = "shrink", [VSCAF_MALLEABLE_RIGID] = "rigid"};
    return names[client_malleable(client)];
}

bool client_rigid(const struct client *client)
{
    return client_malleable(client) == VSCAF_MALLEABLE_RIGID;
}

static void limit_to(uint32_t *most, uint32_t by)
{
    if (by > 0 && by < *most)
        *most = by;
}

uint32_t client_last_threads(const struct client *client)
{
    uint32_t last = atomic_load_explicit(&client->page->team_last, memory_order_relaxed);
    return last < VSCAF_MAX_TEAM ? last : VSCAF_MAX_TEAM;
}

void client_note_own_threads(struct client *client, uint64_t now_ns)
{
    uint32_t last = client_last_threads(client);
    /* The first sections after a change may have the larger team of before. */
    if (last > client->share && client->share > 0 && client->seen.started > client->shrunk_started + 2) {
        client->own_threads = last;
        client->own_threads_ns = now_ns;
    } else if (now_ns - client->own_threads_ns >= OWN_THREADS_NS) {
        client->own_threads = 0;
    }
}

uint32_t client_max_team(const struct client *client, uint32_t limit)
{
    uint32_t most = limit, last = client_last_threads(client);
    if (client_rigid(client) && last > 0) {
        limit_to(&most, last);
    } else {
        if (!atomic_load_explicit(&client->page->grows, memory_order_relaxed))
            limit_to(&most, atomic_load_explicit(&client->page->told, memory_order_relaxed));
        limit_to(&most, atomic_load_explicit(&client->page->team_most, memory_order_relaxed));
        limit_to(&most, client->threads_most);
        if (client->own_threads > most) /* by a clause, for example */
            most = client->own_threads < limit ? client->own_threads : limit;
    }
    limit_to(&most, client->bounds.most);
    return most > 0 ? most : 1;
}
