/* A program that joins the agent as the shim does. It obeys the lines on its standard input, with one answer line each:
 *
 *   page            answers with team_size team_limit agent_beat
 *   control         answers with control learn_budget_ppm
 *   there           answers with the number of CPUs that are there for it (team_told)
 *   begin           one section starts; answers with the team size that it loaded
 *   end NS          one section ends that took NS ns
 *   told N          the program was told N threads
 *   program BITS    sets VSCAF_PROGRAM_ bits
 *   malleable N     sets a value of enum vscaf_malleable, or any other
 *   most N          the largest team that its rules allow
 *   last N          team size of the last section
 *   counts S F      sets started and finished (hostile)
 *   others S F      sets started_others and finished_others
 *   estimate I P SPEEDUP ERROR SAMPLES    publishes an estimate, in millionths
 *   writing         leaves the estimates half written; a second time: completes them
 *   learning COST_NS BASE_NS METRIC    sets the figures of learning
 *   ipc MILLIONTHS                    sets the instructions per cycle of a thread
 *   spent USEFUL INFLATION FORK DISPATCH BARRIER STEAL    adds to the decomposition, in ns
 *   garbage SEED    writes random bytes over all fields that the shim writes
 *   storm SEED      a thread does that without end
 *   rest            that thread stops
 *   busy N          N more threads compute until `calm`
 *   scaled A B      a thread runs sections without a pause, which take A + B / p us at team size p; again: they take so
 *                   long from now on
 *   calm            they stop
 *   call N          calls with number N, as the shim does when it starts a section and is asked to call
 *   calls COUNT     calls COUNT times with the present number; answers with how many packets could be sent
 *   sight NAME      asks about a function of that name; LIBRARY:NAME opens that library first; "heap": about memory of no
 *                   file. Answers with the number of the question
 *   verdict N       answers with the verdict word of a question (0: not known yet)
 *   known NAME      answers with the verdict on the page for the function of that name (0: none)
 *   speak BYTES     sends a packet of so many bytes that is not a call
 *
 * Usage: joined-program SOCKET [PAGE_VERSION]. Its first line says "joined", "status N" or "closed". */
#include <dlfcn.h>
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
#include "vscaf/verdict.h"

#define SILENCE_S 5.0 /* CLIENTS_SILENCE_NS */

static struct vscaf_page *page;
static atomic_bool computing, storming;

static void *compute(void *unused)
{
    while (computing)
        ;
    return unused;
}

static atomic_uint scaled_serial_us, scaled_parallel_us;

/* Books one section as the shim does. Its time is what it should be, so a busy machine changes nothing. */
static void scaled_section(uint32_t p)
{
    uint64_t serial_ns = 1000u * (uint64_t)scaled_serial_us, parallel_ns = 1000u * (uint64_t)scaled_parallel_us;
    uint64_t section_ns = serial_ns + parallel_ns / p;
    struct timespec began, now;
    page->started++;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do /* some CPU time, or it would pass for idle */
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < (long)section_ns / 5);
    usleep((useconds_t)(section_ns - section_ns / 5) / 1000);
    page->section_ns += section_ns;
    page->team_last = p;
    page->finished++;
    page->decomposition.useful += serial_ns + parallel_ns;
    page->decomposition.barrier += (p - 1) * serial_ns;
    page->decomposition.total += p * section_ns;
    for (uint32_t i = 0; i < VSCAF_PACES; i++) {
        struct vscaf_pace *pace = &page->paces[i];
        if (pace->team_size == 0)
            pace->team_size = p;
        if (pace->team_size != p)
            continue;
        pace->ns += section_ns;
        pace->instances++;
        return;
    }
}

static void *scaled(void *unused)
{
    while (computing)
        scaled_section(page->team_size > 0 ? page->team_size : 1);
    return unused;
}

/* Values of every kind: zero, small, large, and all bits set. */
static void fill_with_garbage(uint32_t *seed)
{
    _Atomic uint32_t *words = (_Atomic uint32_t *)page;
    for (size_t i = offsetof(struct vscaf_page, started) / 4; i < VSCAF_PAGE_BYTES / 4; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        uint32_t word = (*seed >> 28) == 0 ? UINT32_MAX : (*seed >> 28) < 8 ? 0 : *seed >> (*seed >> 7) % 32;
        atomic_store_explicit(&words[i], word, memory_order_relaxed);
    }
}

static void *storm(void *argument)
{
    uint32_t seed = (uint32_t)(uintptr_t)argument;
    while (storming) {
        fill_with_garbage(&seed);
        usleep(1000);
    }
    return NULL;
}

static void publish_estimate(const unsigned long long numbers[])
{
    struct vscaf_estimate *estimate = &page->estimates[numbers[0] % VSCAF_ESTIMATES];
    page->estimates_sequence++;
    estimate->team_size = (uint32_t)numbers[1];
    estimate->speedup_millionths = numbers[2];
    estimate->standard_error_millionths = numbers[3];
    estimate->samples = (uint32_t)numbers[4];
    page->estimates_used = VSCAF_ESTIMATES;
    page->estimates_sequence++;
}

static void spend(const unsigned long long numbers[])
{
    struct vscaf_decomposition *where = &page->decomposition;
    _Atomic uint64_t *parts[] = {&where->useful,   &where->inflation, &where->fork,
                                 &where->dispatch, &where->barrier,   &where->steal};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        *parts[i] += numbers[i];
        where->total += numbers[i];
    }
}

static void start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument) == 0)
        pthread_detach(thread);
}

static unsigned call(int fd, uint32_t number, unsigned long long times)
{
    struct vscaf_call packet = {VSCAF_CALL_MAGIC, number};
    unsigned sent = 0;
    while (times-- > 0)
        sent += send(fd, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(packet);
    return sent;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int join(const char *path, uint32_t version)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    double began = seconds();
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    struct vscaf_join hello = {.magic = VSCAF_PAGE_MAGIC, .version = version};
    snprintf(hello.name, sizeof(hello.name), "%s", program_invocation_short_name);
    bool sent = send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) >= 0;
    bool late = seconds() - began >= SILENCE_S / 2; /* without a CPU for so long, the agent may rightly drop it */
    if (!sent && !late)
        return -1;
    struct vscaf_welcome welcome;
    struct iovec part = {&welcome, sizeof(welcome)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0 && late) {
        close(fd);
        return join(path, version);
    }
    if (got != sizeof(welcome) || welcome.magic != VSCAF_PAGE_MAGIC) {
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

/* Functions that tests ask about (inspect_double.c). */
#define ASKED(name)                                                                                                    \
    void name(void);                                                                                                   \
    __attribute__((noinline)) void name(void) { __asm__ volatile("nop" ::"i"(__LINE__)); }
ASKED(free_one)
ASKED(up_to_one)
ASKED(own_one)
ASKED(relies_one)
ASKED(unnamed)

/* The address of a function: NAME, or LIBRARY:NAME. */
static uint64_t address_of(char *name)
{
    char *colon = strchr(name, ':');
    if (strcmp(name, "heap") == 0)
        return (uint64_t)(uintptr_t)malloc(1);
    if (colon != NULL)
        *colon = '\0';
    void *library = dlopen(colon != NULL ? name : NULL, RTLD_NOW);
    return library != NULL ? (uint64_t)(uintptr_t)dlsym(library, colon != NULL ? colon + 1 : name) : 0;
}

static uint32_t ask(uint64_t address)
{
    uint32_t number = page->sights_used;
    page->sights[number].address = address;
    page->sights_used = number + 1;
    return number;
}

static uint32_t known_verdict(uint64_t address)
{
    for (uint32_t i = 0; i < page->known_used; i++)
        if (page->known[i].address == address)
            return vscaf_answered(page->known[i].answer);
    return 0;
}

int main(int argc, char *argv[])
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 2;
    int fd = join(argv[1], argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : VSCAF_PAGE_VERSION);
    if (fd < 0)
        return 1;
    char line[256], word[32];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        unsigned long long n[6] = {0};
        char name[200] = "";
        if (sscanf(line, "%31s %llu %llu %llu %llu %llu %llu", word, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]) < 1)
            continue;
        if (strcmp(word, "there") == 0) {
            printf("%u\n", page->team_told);
            continue;
        }
        if (strcmp(word, "page") == 0) {
            printf("%u %u %llu\n", page->team_size, page->team_limit, (unsigned long long)page->agent_beat);
            continue;
        }
        if (strcmp(word, "control") == 0) {
            printf("%u %u\n", page->control, page->learn_budget_ppm);
            continue;
        }
        if (strcmp(word, "begin") == 0) {
            page->started++;
            printf("%u\n", page->team_size);
            continue;
        }
        if (sscanf(line, "sight %199s", name) == 1) {
            printf("%u\n", ask(address_of(name)));
            continue;
        }
        if (sscanf(line, "known %199s", name) == 1) {
            printf("%u\n", known_verdict(address_of(name)));
            continue;
        }
        if (strcmp(word, "verdict") == 0) {
            printf("%u\n", vscaf_answered(page->sights[n[0] % VSCAF_SIGHTS].answer));
            continue;
        }
        if (strcmp(word, "calls") == 0) {
            printf("%u\n", call(fd, page->control >> VSCAF_CONTROL_CALL_SHIFT, n[0]));
            continue;
        }
        if (strcmp(word, "call") == 0) {
            call(fd, (uint32_t)n[0], 1);
        } else if (strcmp(word, "speak") == 0) {
            char bytes[64] = {0};
            if (send(fd, bytes, n[0] < sizeof(bytes) ? n[0] : sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                perror("send");
        } else if (strcmp(word, "end") == 0) {
            page->section_ns += n[0];
            page->finished++;
        } else if (strcmp(word, "told") == 0) {
            page->told = (uint32_t)n[0];
        } else if (strcmp(word, "program") == 0) {
            page->program = (uint32_t)n[0];
        } else if (strcmp(word, "malleable") == 0) {
            page->malleable = (uint32_t)n[0];
        } else if (strcmp(word, "most") == 0) {
            page->team_most = (uint32_t)n[0];
        } else if (strcmp(word, "last") == 0) {
            page->team_last = (uint32_t)n[0];
        } else if (strcmp(word, "counts") == 0) {
            page->started = n[0];
            page->finished = n[1];
        } else if (strcmp(word, "others") == 0) {
            page->started_others = n[0];
            page->finished_others = n[1];
        } else if (strcmp(word, "estimate") == 0) {
            publish_estimate(n);
        } else if (strcmp(word, "writing") == 0) {
            page->estimates_sequence++;
        } else if (strcmp(word, "learning") == 0) {
            page->learn_cost_ns = n[0];
            page->learn_base_ns = n[1];
            page->metric = (uint32_t)n[2];
        } else if (strcmp(word, "ipc") == 0) {
            page->ipc_millionths = n[0];
        } else if (strcmp(word, "spent") == 0) {
            spend(n);
        } else if (strcmp(word, "garbage") == 0) {
            uint32_t seed = (uint32_t)n[0];
            fill_with_garbage(&seed);
        } else if (strcmp(word, "storm") == 0) {
            storming = true;
            start(storm, (void *)(uintptr_t)n[0]);
        } else if (strcmp(word, "rest") == 0) {
            storming = false;
        } else if (strcmp(word, "busy") == 0) {
            computing = true;
            for (unsigned long long i = 0; i < n[0]; i++)
                start(compute, NULL);
        } else if (strcmp(word, "scaled") == 0) {
            scaled_serial_us = (unsigned)n[0];
            scaled_parallel_us = (unsigned)n[1];
            if (!computing) {
                computing = true;
                start(scaled, NULL);
            }
        } else if (strcmp(word, "calm") == 0) {
            computing = false;
        } else {
            puts("what?");
            continue;
        }
        puts("ok");
    }
    return 0;
}
