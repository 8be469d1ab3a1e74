/* Joins the driver as the shim does, asks for verdicts, and prints what it is told: for the driver's own tests.
 *
 *   asker    prints the page's sizes, how many verdicts were there at the join, and the verdicts on: a section of its
 *            own, code that is in no file, a function of libc; then whether the team's size changes as sections start */
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <vscaf/page.h>
#include <vscaf/verdict.h>

static struct vscaf_page *join(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct vscaf_join request = {VSCAF_PAGE_MAGIC, VSCAF_PAGE_VERSION, "asker"};
    struct vscaf_welcome welcome;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&welcome, sizeof welcome};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), memfd;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", getenv("VSCAF_SOCKET"));
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0
        || send(fd, &request, sizeof request, 0) != (ssize_t)sizeof request
        || recvmsg(fd, &message, 0) != (ssize_t)sizeof welcome || welcome.status != VSCAF_JOINED)
        exit(1);
    memcpy(&memfd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memfd);
    void *page = mmap(NULL, VSCAF_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (page == MAP_FAILED)
        exit(1);
    return page;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void ask(struct vscaf_page *page, const char *what, void *address)
{
    uint32_t at = page->sights_used;
    page->sights[at].address = (uintptr_t)address;
    atomic_store_explicit(&page->sights_used, at + 1, memory_order_release);
    while (!page->sights[at].answer)
        pause_briefly();
    uint32_t word = vscaf_answered(page->sights[at].answer);
    printf("%s: verdict %d reason %d\n", what, (int)vscaf_verdict_of(word), (int)vscaf_reason_of(word));
}

int main(void)
{
    struct vscaf_page *page = join();
    uint32_t size = page->team_size, last = 0;
    void *nowhere = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("told %u limit %u known %u\n", page->team_told, page->team_limit, page->known_used);
    for (uint32_t i = 1; i < page->known_used; i++)
        if (page->known[i - 1].address >= page->known[i].address)
            puts("not sorted");
    ask(page, "own code", (void *)main);
    ask(page, "no file", nowhere);
    ask(page, "libc", (void *)getenv);
    for (int changes = 0; changes < 20; last = page->team_size) {
        page->started++;
        pause_briefly();
        page->finished++;
        changes += page->team_size != size && page->team_size != last;
        if (page->team_size < 1 || page->team_size > page->team_limit)
            puts("not a size");
    }
    puts("changes");
    return 3;
}
