/* The join: packets from programs at the real socket. An input is a list of steps:
 *   0 N                    opens connection N (of three)
 *   1 N                    closes it
 *   2 N LENGTH BYTES       sends a packet
 *   3 N VERSION BYTES(36)  sends a join that is well formed except for its version and its name
 *   4 N                    waits N x 100 ms in silence */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEERS 3u
#define SOCKET "join.sock"

static struct clients clients;
static int peers[PEERS] = {-1, -1, -1};
static uint64_t now_ns;

static void leave(uint32_t number)
{
    if (peers[number] < 0)
        return;
    /* A process that reads /proc/PID/fd holds the file for a moment, and then close() alone ends the connection later. */
    shutdown(peers[number], SHUT_RDWR);
    close(peers[number]);
    peers[number] = -1;
}

static void call(uint32_t number)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    leave(number);
    peers[number] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    MUST(peers[number] >= 0);
    MUST(connect(peers[number], (const struct sockaddr *)&address, sizeof(address)) == 0);
    clients_accept(&clients, now_ns);
}

static void send_packet(uint32_t number, const void *bytes, size_t length)
{
    if (peers[number] >= 0 && send(peers[number], bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the agent has already closed the connection */
}

/* Reads the agent's answer: a welcome, with a sealed page if its status says so. */
static void read_answer(int peer)
{
    struct vscaf_welcome welcome;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {&welcome, sizeof(welcome)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(peer, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return;
    MUST(got == sizeof(welcome) && welcome.magic == VSCAF_PAGE_MAGIC && welcome.version == VSCAF_PAGE_VERSION);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    MUST((welcome.status == VSCAF_JOINED) == (header != NULL));
    if (header == NULL)
        return;
    int page;
    struct stat status;
    memcpy(&page, CMSG_DATA(header), sizeof(page));
    MUST(fstat(page, &status) == 0 && status.st_size == VSCAF_PAGE_BYTES);
    int seals = fcntl(page, F_GET_SEALS);
    MUST((seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) && (seals & F_SEAL_SEAL));
    close(page);
}

static void serve(void)
{
    for (uint32_t i = 0; i < clients.end; i++)
        if (clients.slots[i].fd >= 0)
            clients_serve(&clients, &clients.slots[i], FUZZ_CPUS);
    for (uint32_t i = 0; i < PEERS; i++)
        if (peers[i] >= 0)
            read_answer(peers[i]);
    uint32_t joined = 0, connected = 0;
    for (uint32_t i = 0; i < clients.end; i++) {
        const struct client *client = &clients.slots[i];
        connected += client->fd >= 0;
        joined += client->page != NULL;
        MUST(memchr(client->name, '\0', sizeof(client->name)) != NULL);
    }
    MUST(joined == clients.joined && connected <= PEERS);
}

static void step(struct bytes *bytes)
{
    uint32_t what = (uint32_t)take_number(bytes, 1) % 5, number = (uint32_t)take_number(bytes, 1);
    size_t length;
    const char *text;
    struct vscaf_join join = {.magic = VSCAF_PAGE_MAGIC};
    switch (what) {
    case 0: call(number % PEERS); break;
    case 1: leave(number % PEERS); break;
    case 2:
        length = take_number(bytes, 1);
        text = take_bytes(bytes, length, &length);
        send_packet(number % PEERS, text, length);
        break;
    case 3:
        join.version = (uint32_t)take_number(bytes, 1);
        text = take_bytes(bytes, sizeof(join.name), &length);
        memcpy(join.name, text, length);
        send_packet(number % PEERS, &join, sizeof(join));
        break;
    default:
        now_ns += number * UINT64_C(100000000);
        clients_drop_silent(&clients, now_ns);
        break;
    }
    serve();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool listening;
    if (!listening)
        MUST(clients_listen(&clients, SOCKET, "proc", CLIENTS_MAX) == 0);
    listening = true;
    struct bytes bytes = {data, size};
    for (int steps = 0; bytes.left > 0 && steps < 40; steps++)
        step(&bytes);
    for (uint32_t i = 0; i < PEERS; i++)
        leave(i);
    serve();
    MUST(clients.end == 0); /* every place is free again */
    MUST(clients.joined == 0);
    return 0;
}
