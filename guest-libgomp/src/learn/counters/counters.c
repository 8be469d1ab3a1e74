#include "learn/counters/counters.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The part of PAPI's interface that is used here. It is the same from version 5 to 7. */
#define PAPI_OK 0
#define PAPI_NULL (-1)
#define PAPI_LIB_VERSION 21
#define PAPI_VERSION_MASK 0xffff0000u /* major and minor version, which PAPI_library_init compares */
#define CPU_COMPONENT 0

#define FUNCTIONS(X)                                                                                                   \
    X(get_opt, int, (int option, void *value))                                                                         \
    X(library_init, int, (int version))                                                                                \
    X(thread_init, int, (unsigned long (*thread)(void)))                                                               \
    X(event_name_to_code, int, (const char *name, int *code))                                                          \
    X(query_event, int, (int code))                                                                                    \
    X(create_eventset, int, (int *set))                                                                                \
    X(assign_eventset_component, int, (int set, int component))                                                        \
    X(attach, int, (int set, unsigned long thread))                                                                    \
    X(add_event, int, (int set, int code))                                                                             \
    X(start, int, (int set))                                                                                           \
    X(stop, int, (int set, long long *values))                                                                         \
    X(cleanup_eventset, int, (int set))                                                                                \
    X(destroy_eventset, int, (int *set))                                                                               \
    X(unregister_thread, int, (void))

#define X(name, result, arguments) static result(*papi_##name) arguments;
FUNCTIONS(X)
#undef X

static int instructions_event, cycles_event;

static const char *const names[] = {
    /* Distributions also name it by the number of its minor version. */
    "libpapi.so.7",   "libpapi.so.7.0", "libpapi.so.7.1", "libpapi.so.7.2", "libpapi.so.6",   "libpapi.so.6.0",
    "libpapi.so.5",   "libpapi.so.5.7", "libpapi.so.5.6", "libpapi.so.5.5", "libpapi.so",
};

static unsigned long current_thread_id(void)
{
    return (unsigned long)pthread_self();
}

static bool resolve(void *library)
{
    bool complete = true;
#define X(name, result, arguments)                                                                                     \
    do {                                                                                                               \
        void *found_ = dlsym(library, "PAPI_" #name);                                                                  \
        complete = complete && found_;                                                                                 \
        memcpy(&papi_##name, &found_, sizeof found_);                                                                  \
    } while (0);
    FUNCTIONS(X)
#undef X
    return complete;
}

static bool usable(void)
{
    int version = papi_get_opt(PAPI_LIB_VERSION, NULL);
    int major = version >> 24;
    if (major < 5 || major > 15)
        return false;
    int requested = (int)((unsigned)version & PAPI_VERSION_MASK);
    if (papi_library_init(requested) != requested || papi_thread_init(current_thread_id) != PAPI_OK)
        return false;
    if (papi_event_name_to_code("PAPI_TOT_INS", &instructions_event) != PAPI_OK
        || papi_event_name_to_code("PAPI_TOT_CYC", &cycles_event) != PAPI_OK
        || papi_query_event(instructions_event) != PAPI_OK || papi_query_event(cycles_event) != PAPI_OK)
        return false;
    /* An event that is known may still be forbidden (perf_event_paranoid) or missing (a guest without a PMU). If the
     * hypervisor does not emulate an event, it starts and stops without an error, but stays 0. */
    struct counts counts;
    int set = counters_start(0);
    return set != COUNTERS_NONE && counters_stop(set, &counts) && counts.instructions && counts.cycles;
}

static bool load_papi(void)
{
    /* A program that contains PAPI may use it. Both would then share one initialization, and one registration of each
     * thread. */
    if (dlsym(RTLD_DEFAULT, "PAPI_library_init"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *loaded = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (loaded) {
            dlclose(loaded);
            return false;
        }
    }
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    /* It stays loaded even if it is of no use, because its initialization may have left something behind. */
    return resolve(library) && usable();
}

bool counters_found(void)
{
    static bool tried, found;
    if (!tried) {
        tried = true;
        found = load_papi();
        dlerror(); /* the program must not see this failed look-up */
    }
    return found;
}

static void destroy(int set)
{
    papi_cleanup_eventset(set);
    papi_destroy_eventset(&set);
}

int counters_start(pid_t thread_id)
{
    int set = PAPI_NULL;
    if (papi_create_eventset(&set) != PAPI_OK)
        return COUNTERS_NONE;
    /* Attaching needs a component. It must come before the events are added, or they would be opened on this thread. */
    if ((thread_id
         && (papi_assign_eventset_component(set, CPU_COMPONENT) != PAPI_OK
             || papi_attach(set, (unsigned long)thread_id) != PAPI_OK))
        || papi_add_event(set, instructions_event) != PAPI_OK || papi_add_event(set, cycles_event) != PAPI_OK
        || papi_start(set) != PAPI_OK) {
        destroy(set);
        return COUNTERS_NONE;
    }
    return set;
}

bool counters_stop(int set, struct counts *counts)
{
    long long values[2] = {0, 0};
    bool stopped = papi_stop(set, values) == PAPI_OK;
    destroy(set);
    if (!stopped || values[0] < 0 || values[1] < 0)
        return false;
    *counts = (struct counts){.instructions = (uint64_t)values[0], .cycles = (uint64_t)values[1]};
    return true;
}

void counters_forget_thread(void)
{
    papi_unregister_thread();
}
