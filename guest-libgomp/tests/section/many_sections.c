/* More sections than a page has space for, and more than the library remembers. All run, and all are counted. The page
 * decides the teams of those that it has space for. The test writes their outlined functions itself, in memory that
 * belongs to no object. Each of them stores 1 in its argument. */
#include <string.h>
#include <sys/mman.h>

#include "../support/agent.h"
#include "../support/check.h"

#define FUNCTIONS 6000u
#define STRIDE 16u

extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);

int main(void)
{
#if defined(__x86_64__)
    static const unsigned char code[] = {0xc6, 0x07, 0x01, 0xc3};
#elif defined(__aarch64__)
    static const unsigned char code[] = {0x21, 0x00, 0x80, 0x52, 0x01, 0x00, 0x00, 0x39, 0xc0, 0x03, 0x5f, 0xd6};
#else
    return 77; /* this test has no such code for this processor */
#endif
    struct agent agent;
    agent_run(&agent, 1, 1);
    struct vscaf_page *page = agent.pages[0];
    unsigned char *memory =
        mmap(NULL, FUNCTIONS * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        memcpy(memory + i * STRIDE, code, sizeof code);
    CHECK(mprotect(memory, FUNCTIONS * STRIDE, PROT_READ | PROT_EXEC) == 0);

    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            void *address = memory + i * STRIDE;
            void (*function)(void *);
            memcpy(&function, &address, sizeof function);
            unsigned char ran = 0;
            GOMP_parallel(function, &ran, 0, 0);
            CHECK(ran == 1 && page->own_last == (i >= VSCAF_SIGHTS), "section %u", i);
        }
    }
    CHECK(page->started == 2 * FUNCTIONS && page->finished == 2 * FUNCTIONS);
    CHECK(agent_asked(page) == VSCAF_SIGHTS, "%u", page->sights_used);
    return 0;
}
