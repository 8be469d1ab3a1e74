/* A stand-in for PAPI that counts by the program's script. With STANDIN_PAPI=none it knows no event, as on a machine
 * without hardware counters. With STANDIN_PAPI=forbidden no event can be started. With STANDIN_PAPI=zero instructions
 * are never counted. */
#include "standin_papi.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERSION 0x07000000
#define SETS 64
#define FAILED (-1)
#define INSTRUCTIONS ((int)0x80000032)
#define CYCLES ((int)0x8000003b)
#define CYCLES_OF_A_THREAD 100000000

struct set {
    _Atomic int used;
    unsigned long thread; /* the thread that it counts; 0: the one that made it */
    int events[2], count;
    int running, component;
};

static struct set sets[SETS];
static unsigned long (*thread_name)(void);

static struct standin_script *script(void)
{
    static struct standin_script nothing;
    struct standin_script *found = dlsym(RTLD_DEFAULT, "standin_script");
    return found ? found : &nothing;
}

static int says(const char *what)
{
    const char *mode = getenv("STANDIN_PAPI");
    return mode && !strcmp(mode, what);
}

static struct set *set_of(int index)
{
    return index >= 0 && index < SETS && sets[index].used ? &sets[index] : NULL;
}

int PAPI_get_opt(int option, void *value)
{
    (void)value;
    return option == 21 ? VERSION : FAILED;
}

int PAPI_library_init(int version)
{
    script()->initialised++;
    return version == VERSION ? VERSION : FAILED;
}

int PAPI_thread_init(unsigned long (*name)(void))
{
    thread_name = name;
    return 0;
}

int PAPI_event_name_to_code(const char *name, int *code)
{
    *code = !strcmp(name, "PAPI_TOT_INS") ? INSTRUCTIONS : !strcmp(name, "PAPI_TOT_CYC") ? CYCLES : 0;
    return *code ? 0 : FAILED;
}

int PAPI_query_event(int code)
{
    return says("none") || (code != INSTRUCTIONS && code != CYCLES) ? FAILED : 0;
}

int PAPI_create_eventset(int *set)
{
    if (*set != -1 || !thread_name)
        return FAILED;
    for (int i = 0; i < SETS; i++) {
        int unused = 0;
        if (atomic_compare_exchange_strong(&sets[i].used, &unused, 1)) {
            sets[i].thread = 0;
            sets[i].count = sets[i].running = 0;
            sets[i].component = -1;
            script()->sets++;
            script()->made++;
            *set = i;
            return 0;
        }
    }
    return FAILED;
}

int PAPI_assign_eventset_component(int index, int component)
{
    struct set *set = set_of(index);
    if (!set || set->count)
        return FAILED;
    set->component = component;
    return 0;
}

int PAPI_attach(int index, unsigned long thread)
{
    struct set *set = set_of(index);
    if (!set || set->component != 0 || set->count)
        return FAILED;
    set->thread = thread;
    script()->attached++;
    struct timespec late = {.tv_nsec = script()->attach_ms * 1000000l};
    if (late.tv_nsec)
        ppoll(NULL, 0, &late, NULL); /* the program has a nanosleep of its own */
    return 0;
}

int PAPI_add_event(int index, int code)
{
    struct set *set = set_of(index);
    if (!set || set->count == 2 || set->running)
        return FAILED;
    set->events[set->count++] = code;
    return 0;
}

int PAPI_start(int index)
{
    struct set *set = set_of(index);
    if (!set || set->running || says("forbidden"))
        return FAILED;
    set->running = 1;
    return 0;
}

int PAPI_stop(int index, long long *values)
{
    struct set *set = set_of(index);
    if (!set || !set->running)
        return FAILED;
    set->running = 0;
    long long cycles = CYCLES_OF_A_THREAD;
    unsigned team = script()->team;
    double ipc = set->thread ? script()->serial : script()->by_team[team < STANDIN_TEAMS ? team : 0];
    clockid_t clock;
    struct timespec used = {0};
    /* A process that does not run has no cycles. A running one has one cycle in each nanosecond of CPU time. */
    if (set->thread) {
        cycles = 0;
        if (clock_getcpuclockid((pid_t)set->thread, &clock) == 0 && clock_gettime(clock, &used) == 0)
            cycles = used.tv_sec * 1000000000ll + used.tv_nsec;
    }
    for (int i = 0; i < set->count; i++)
        values[i] = set->events[i] == CYCLES ? cycles : says("zero") ? 0 : (long long)((double)cycles * ipc);
    return 0;
}

int PAPI_cleanup_eventset(int index)
{
    struct set *set = set_of(index);
    if (!set || set->running)
        return FAILED;
    set->count = 0;
    return 0;
}

int PAPI_destroy_eventset(int *index)
{
    struct set *set = set_of(*index);
    if (!set || set->count)
        return FAILED;
    set->used = 0;
    script()->sets--;
    *index = -1;
    return 0;
}

int PAPI_unregister_thread(void)
{
    return 0;
}
