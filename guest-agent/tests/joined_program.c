/* A program that joins the agent as the shim does and then obeys the lines on its standard input, one answer line each:
 *
 *   page            team_size team_limit agent_beat
 *   begin           one section starts; answers with the team size that it loaded
 *   end NS          one section ends that took NS ns
 *   told N          the program was told N threads
 *   program BITS    VSCAF_PROGRAM_ bits
 *   used N          claims N sections in use (hostile when above the limit)
 *   counts S F      sets started and finished (hostile)
 *   busy N          N more threads compute until `calm`
 *   calm            they stop
 *   work US         a thread runs sections without end, each US microseconds of computing divided by its team size
 *   rest            that thread stops
 *
 * Usage: joined-program SOCKET [PAGE_VERSION]. Its first line says "joined", "status N" or "closed". */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "vscaf/page.h"

static struct vscaf_page *page;
static atomic_bool computing, working;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *compute(void *unused)
{
    while (computing)
        ;
    return unused;
}

static struct vscaf_point *point_for(struct vscaf_section *section, uint32_t team)
{
    for (uint32_t k = 0; k < VSCAF_POINTS; k++) {
        uint32_t free_slot = 0;
        if (section->points[k].team_size == team ||
            atomic_compare_exchange_strong(&section->points[k].team_size, &free_slot, team))
            return &section->points[k];
    }
    return NULL;
}

static void *work(void *argument)
{
    uint64_t work_ns = (uint64_t)(uintptr_t)argument * 1000u;
    struct vscaf_section *section = &page->sections[0];
    section->build_id = 1;
    section->offset = 1;
    page->sections_used = 1;
    while (working) {
        page->started++;
        uint32_t team = page->team_size;
        uint64_t began = now_ns(), took;
        if (team == 0)
            team = 1;
        do
            took = now_ns() - began;
        while (took < work_ns / team);
        struct vscaf_point *point = point_for(section, team);
        if (point != NULL) {
            point->count++;
            point->ns += took;
        }
        page->team_last = team;
        page->section_ns += took;
        page->finished++;
    }
    return NULL;
}

static int join(const char *path, uint32_t version)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    struct vscaf_join hello = {.magic = VSCAF_PAGE_MAGIC, .version = version};
    snprintf(hello.name, sizeof(hello.name), "%s", program_invocation_short_name);
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) < 0)
        return -1;
    struct vscaf_welcome welcome;
    struct iovec part = {&welcome, sizeof(welcome)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != sizeof(welcome) || welcome.magic != VSCAF_PAGE_MAGIC) {
        puts("closed");
        return -1;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (welcome.status != VSCAF_JOINED || header == NULL) {
        printf("status %u version %u\n", welcome.status, welcome.version);
        return -1;
    }
    int memory;
    memcpy(&memory, CMSG_DATA(header), sizeof(memory));
    page = mmap(NULL, welcome.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (page == MAP_FAILED || ftruncate(memory, 0) == 0) /* the seal must forbid it */
        return -1;
    close(memory);
    puts("joined");
    return fd;
}

int main(int argc, char *argv[])
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 2;
    int fd = join(argv[1], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : VSCAF_PAGE_VERSION);
    if (fd < 0)
        return 1;
    char line[128], word[32];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        unsigned long long a = 0, b = 0;
        if (sscanf(line, "%31s %llu %llu", word, &a, &b) < 1)
            continue;
        pthread_t thread;
        if (strcmp(word, "page") == 0) {
            printf("%u %u %llu\n", page->team_size, page->team_limit, (unsigned long long)page->agent_beat);
            continue;
        }
        if (strcmp(word, "begin") == 0) {
            page->started++;
            printf("%u\n", page->team_size);
            continue;
        }
        if (strcmp(word, "end") == 0) {
            page->section_ns += a;
            page->finished++;
        } else if (strcmp(word, "told") == 0) {
            page->told = (uint32_t)a;
        } else if (strcmp(word, "program") == 0) {
            page->program = (uint32_t)a;
        } else if (strcmp(word, "used") == 0) {
            page->sections_used = (uint32_t)a;
        } else if (strcmp(word, "counts") == 0) {
            page->started = a;
            page->finished = b;
        } else if (strcmp(word, "busy") == 0) {
            computing = true;
            for (unsigned long long i = 0; i < a; i++)
                if (pthread_create(&thread, NULL, compute, NULL) == 0)
                    pthread_detach(thread);
        } else if (strcmp(word, "calm") == 0) {
            computing = false;
        } else if (strcmp(word, "work") == 0) {
            working = true;
            if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)a) == 0)
                pthread_detach(thread);
        } else if (strcmp(word, "rest") == 0) {
            working = false;
        } else {
            puts("what?");
            continue;
        }
        puts("ok");
    }
    return 0;
}
