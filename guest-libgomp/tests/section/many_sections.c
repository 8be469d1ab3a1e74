/* More sections than a page has space for, and more than the library remembers. All run, and all are counted. The test
 * writes their outlined functions itself, in memory that belongs to no object. */
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
    static const unsigned char code[] = {0xc3};
#elif defined(__aarch64__)
    static const unsigned char code[] = {0xc0, 0x03, 0x5f, 0xd6};
#else
    return 77; /* this test has no code for a return on this processor */
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
            GOMP_parallel(function, NULL, 0, 0);
        }
    }
    CHECK(page->started == 2 * FUNCTIONS && page->finished == 2 * FUNCTIONS);
    CHECK(page->sections_used == VSCAF_SECTIONS, "%u", page->sections_used);
    CHECK(page->sections_dropped == 2 * (FUNCTIONS - VSCAF_SECTIONS), "%lu", (unsigned long)page->sections_dropped);
    for (int i = 0; i < (int)VSCAF_SECTIONS; i++)
        CHECK(agent_count(agent_section(&agent, 0, i), 1) == 2);
    return 0;
}
