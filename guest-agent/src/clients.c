#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "status.h"
#include "wire.h"

static int make_directory(const char *socket_path)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s", socket_path) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    char *last = strrchr(path, '/');
    if (last == NULL || last == path)
        return 0;
    *last = '\0';
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return -1;
        if (slash == NULL)
            return 0;
        *slash = '/';
    }
}

static bool somebody_serves(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool served = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    close(fd);
    return served;
}

int clients_listen(struct clients *clients, const char *path)
{
    clients->path = path;
    clients->listener = -1;
    clients->joined = 0;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++)
        clients->slots[i] = (struct client){.fd = -1};

    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        log_line("socket %s: the path is longer than %zu bytes: give a shorter one with --socket", path,
                 sizeof(address.sun_path) - 1);
        return -1;
    }
    strcpy(address.sun_path, path);
    if (make_directory(path) != 0) {
        log_line("socket %s: its directory cannot be made: %s: run as root, or give another place with --socket", path,
                 strerror(errno));
        return -1;
    }
    struct stat status;
    if (lstat(path, &status) == 0) {
        if (!S_ISSOCK(status.st_mode)) {
            log_line("socket %s: something else is there: remove it, or give another place with --socket", path);
            return -1;
        }
        if (somebody_serves(&address)) {
            log_line("socket %s: another agent serves it: stop that one, or give another place with --socket", path);
            return -1;
        }
        unlink(path); /* if it fails, bind says so */
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || chmod(path, 0666) != 0 ||
        listen(fd, 128) != 0) {
        log_line("socket %s: %s: run as root, or give another place with --socket", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    clients->listener = fd;
    return 0;
}

void clients_drop(struct clients *clients, struct client *client)
{
    if (client->page != NULL) {
        munmap(client->page, VSCAF_PAGE_BYTES);
        clients->joined--;
    }
    free(client->threads);
    close(client->fd);
    *client = (struct client){.fd = -1};
}

void clients_close(struct clients *clients)
{
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++)
        if (clients->slots[i].fd >= 0)
            clients_drop(clients, &clients->slots[i]);
    if (clients->listener >= 0) {
        close(clients->listener);
        unlink(clients->path);
    }
    clients->listener = -1;
}

void clients_accept(struct clients *clients, uint64_t now_ns)
{
    for (;;) {
        int fd = accept4(clients->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno != EAGAIN && !clients->complained) {
                clients->complained = true;
                log_line("socket %s: a program cannot join: %s (said once)", clients->path, strerror(errno));
            }
            return;
        }
        struct client *slot = NULL;
        uint32_t joining = 0;
        for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
            if (clients->slots[i].fd < 0 && slot == NULL)
                slot = &clients->slots[i];
            if (clients->slots[i].fd >= 0 && clients->slots[i].page == NULL)
                joining++;
        }
        struct ucred credentials;
        socklen_t size = sizeof(credentials);
        if (slot == NULL || joining >= CLIENTS_JOINING_MOST ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
            close(fd); /* the program runs on as if there were no agent */
            continue;
        }
        *slot = (struct client){.fd = fd, .pid = credentials.pid, .user = credentials.uid, .connected_ns = now_ns};
    }
}

static void answer(const struct client *client, enum vscaf_join_status status, int page_fd)
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
    /* A peer that is gone shows as a closed socket at the next poll. */
    ssize_t sent = sendmsg(client->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

/* Makes the page and its sealed file. Returns the file, or -1 with nothing left behind. */
static int make_page(struct client *client, uint32_t team_limit)
{
    int fd = memfd_create("vscaf-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    /* Storage is taken now: a later lack of memory would be a SIGBUS here or in the program. */
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
    page->sections_max = VSCAF_SECTIONS;
    /* Relaxed: nobody else has the page yet, and handing over its file orders this before all that the process does. */
    atomic_store_explicit(&page->team_size, 1, memory_order_relaxed);
    atomic_store_explicit(&page->team_limit, team_limit, memory_order_relaxed);
    client->page = page;
    return fd;
}

enum clients_event clients_serve(struct clients *clients, struct client *client, uint32_t team_limit)
{
    struct vscaf_join join = {0};
    ssize_t got = recv(client->fd, &join, sizeof(join), MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return CLIENTS_NOTHING;
    bool joined = client->page != NULL;
    /* A joined process may call; anything else that it says ends it, as does its end of file. */
    if (joined && got > 0 && got <= (ssize_t)sizeof(join)) {
        enum lend_word word = lend_hear(&client->lend, &join, (size_t)got);
        if (word != LEND_GIBBERISH)
            return word == LEND_CALLED ? CLIENTS_CALLED : CLIENTS_NOTHING;
    }
    if (joined || got <= 0) {
        clients_drop(clients, client);
        return joined ? CLIENTS_LEFT : CLIENTS_NOTHING;
    }
    client->asked = status_asked(&join, (size_t)got);
    if (client->asked != 0)
        return CLIENTS_ASKED;
    if (got < (ssize_t)offsetof(struct vscaf_join, name) || join.magic != VSCAF_PAGE_MAGIC) {
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    if (join.version != VSCAF_PAGE_VERSION) {
        answer(client, VSCAF_JOIN_VERSION, -1);
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    if (got != sizeof(join)) {
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    int page_fd = clients->joined < CLIENTS_MOST ? make_page(client, team_limit) : -1;
    if (page_fd < 0) {
        if (!clients->complained)
            log_line("process %d cannot join: %s (said once)", (int)client->pid,
                     clients->joined < CLIENTS_MOST ? strerror(errno) : "as many have joined as there is room for");
        clients->complained = true;
        answer(client, VSCAF_JOIN_FULL, -1);
        clients_drop(clients, client);
        return CLIENTS_NOTHING;
    }
    join.name[sizeof(join.name) - 1] = '\0';
    wire_printable(client->name, sizeof(client->name), join.name);
    client->newcomer = client->running = true;
    clients->joined++;
    answer(client, VSCAF_JOINED, page_fd);
    close(page_fd);
    return CLIENTS_JOINED;
}

uint64_t clients_drop_silent(struct clients *clients, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < CLIENTS_SLOTS; i++) {
        struct client *client = &clients->slots[i];
        if (client->fd < 0 || client->page != NULL)
            continue;
        uint64_t due_ns = client->connected_ns + CLIENTS_SILENCE_NS;
        if (due_ns <= now_ns)
            clients_drop(clients, client);
        else if (due_ns < next_ns)
            next_ns = due_ns;
    }
    return next_ns;
}

/* Loads from the page are relaxed where they are single figures that are clamped and used alone. */

enum vscaf_malleable client_malleable(const struct client *client)
{
    uint32_t malleable = atomic_load_explicit(&client->page->malleable, memory_order_relaxed);
    return malleable < VSCAF_MALLEABLE_RIGID ? (enum vscaf_malleable)malleable : VSCAF_MALLEABLE_RIGID;
}

bool client_rigid(const struct client *client)
{
    return client_malleable(client) == VSCAF_MALLEABLE_RIGID;
}

static void bound(uint32_t *most, uint32_t by)
{
    if (by > 0 && by < *most)
        *most = by;
}

uint32_t client_most(const struct client *client, uint32_t limit)
{
    uint32_t most = limit > 0 ? limit : 1;
    uint32_t last = atomic_load_explicit(&client->page->team_last, memory_order_relaxed);
    if (client_rigid(client) && last > 0) {
        bound(&most, last);
        return most;
    }
    bound(&most, client->confines);
    bound(&most, atomic_load_explicit(&client->page->told, memory_order_relaxed));
    bound(&most, atomic_load_explicit(&client->page->team_most, memory_order_relaxed));
    return most;
}
