/* Threads look up code of one object at once, for the first time and after an unloading. There is one object, and one
 * site for each address. */
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "../support/check.h"
#include "join/program.h"
#include "runtime/call_site.h"

#define THREADS 8
#define ADDRESSES 2
#define UNLOADINGS 20

static pthread_barrier_t barrier;
static _Thread_local bool waits;
static struct call_site *sites[THREADS];

void program_note(uint32_t bits)
{
    (void)bits;
}

/* The linker replaces dl_iterate_phdr by this function. No thread goes on before all threads look the object up. */
int __wrap_dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);
int __real_dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);
int __wrap_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
    if (waits) {
        waits = false;
        pthread_barrier_wait(&barrier);
    }
    return __real_dl_iterate_phdr(callback, data);
}

static void code(void)
{
}

static void *look_up(void *argument)
{
    static struct call_site_spare spares[THREADS];
    size_t thread = (size_t)((struct call_site **)argument - sites);
    void (*function)(void) = code;
    const char *address;
    memcpy(&address, &function, sizeof address);
    waits = true;
    sites[thread] = call_site_of(address + thread % ADDRESSES, &spares[thread]);
    CHECK(sites[thread] != &spares[thread].site);
    return NULL;
}

int main(void)
{
    struct call_site *first[ADDRESSES];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (int round = 0; round <= UNLOADINGS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, look_up, &sites[i]) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < ADDRESSES && round == 0; i++)
            first[i] = sites[i];
        for (int i = 0; i < THREADS; i++) {
            CHECK(sites[i]->object == first[0]->object, "thread %d has another object", i);
            CHECK(sites[i] == first[i % ADDRESSES], "thread %d has another site", i);
        }
        object_unloads++;
    }
    return 0;
}
