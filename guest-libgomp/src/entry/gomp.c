/* libgomp's entry points. Each forwards to the runtime of its caller. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "entry/export.h"
#include "join/join.h"
#include "join/program.h"
#include "join/program_list.h"
#include "learn/permission.h"
#include "measure/clock.h"
#include "section/decompose.h"
#include "section/section.h"

/* libgomp has no header for the symbols that compilers call. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* The construct fn(data) with `num_threads`, on the fast or on the full path. `call` starts it with `runtime` and
 * `threads`. */
#define SECTION(num_threads, call)                                                                                     \
    struct fast_section fast;                                                                                          \
    if (fast_path_begin(&fast, fn, num_threads)) {                                                                     \
        const struct runtime *runtime = fast_path.runtime;                                                             \
        unsigned threads = fast_path.team.argument;                                                                    \
        call;                                                                                                          \
        fast_path_end(&fast);                                                                                          \
    } else {                                                                                                           \
        struct sampled_section full;                                                                                   \
        sampled_begin(&full, fn, data, num_threads, fast.counted);                                                     \
        const struct runtime *runtime = full.section.runtime;                                                          \
        unsigned threads = full.section.team.argument;                                                                 \
        fn = full.section.fn;                                                                                          \
        data = full.section.data;                                                                                      \
        call;                                                                                                          \
        sampled_end(&full);                                                                                            \
    }

/* A section on the full path, which may be sampled. */
struct sampled_section {
    struct section section;
    struct decompose sample;
};

static void sampled_begin(struct sampled_section *full, outlined_function *fn, void *data, unsigned num_threads,
                          const struct vscaf_page *counted)
{
    section_begin(&full->section, fn, data, num_threads, counted);
    if (full->section.decompose_due)
        decompose_begin(&full->sample, &full->section);
}

static void sampled_end(struct sampled_section *full)
{
    if (full->section.decompose_due)
        decompose_end(&full->sample, &full->section);
    section_end(&full->section);
}

/* A program that is linked with OpenMP asks to join when it starts, not at its first section. Setting up its data keeps
 * a CPU busy too, and a resting guest has to ask for one. The answer is taken when it is first needed. A program that
 * loads a runtime later joins then. */
__attribute__((constructor)) static void join_at_start(void)
{
    program_start();
    program_list_start();
    permission_start();
    bool linked = dlsym(RTLD_NEXT, "GOMP_parallel") != NULL;
    dlerror(); /* the program must not see this failed look-up */
    if (!linked)
        return;
    join_request();
    clock_ticks(); /* the length of a tick is known some time after the first reading */
}

VSCAF_EXPORT void GOMP_parallel(outlined_function *fn, void *data, unsigned num_threads, unsigned flags)
{
    SECTION(num_threads, runtime->parallel(fn, data, threads, flags));
}

VSCAF_EXPORT unsigned GOMP_parallel_reductions(outlined_function *fn, void *data, unsigned num_threads, unsigned flags)
{
    /* Never sampled: the runtime itself looks into `data` for the data to reduce. */
    struct section section;
    section_begin(&section, fn, data, num_threads, NULL);
    unsigned threads = section.runtime->reductions(fn, data, section.team.argument, flags);
    section.team.size = threads;
    section_end(&section);
    return threads;
}

#define LOOP(name, member)                                                                                             \
    VSCAF_EXPORT void name(outlined_function *fn, void *data, unsigned num_threads, long start, long end, long step,   \
                           long chunk, unsigned flags)                                                                 \
    {                                                                                                                  \
        SECTION(num_threads, runtime->member(fn, data, threads, start, end, step, chunk, flags));                      \
    }
LOOP(GOMP_parallel_loop_static, loop_static)
LOOP(GOMP_parallel_loop_dynamic, loop_dynamic)
LOOP(GOMP_parallel_loop_guided, loop_guided)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic, loop_nonmonotonic_dynamic)
LOOP(GOMP_parallel_loop_nonmonotonic_guided, loop_nonmonotonic_guided)

#define LOOP_RUNTIME(name, member)                                                                                     \
    VSCAF_EXPORT void name(outlined_function *fn, void *data, unsigned num_threads, long start, long end, long step,   \
                           unsigned flags)                                                                             \
    {                                                                                                                  \
        SECTION(num_threads, runtime->member(fn, data, threads, start, end, step, flags));                             \
    }
LOOP_RUNTIME(GOMP_parallel_loop_runtime, loop_runtime)
LOOP_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime, loop_nonmonotonic_runtime)
LOOP_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime, loop_maybe_nonmonotonic_runtime)

VSCAF_EXPORT void GOMP_parallel_sections(outlined_function *fn, void *data, unsigned num_threads, unsigned count,
                                         unsigned flags)
{
    SECTION(num_threads, runtime->sections(fn, data, threads, count, flags));
}

/* Host teams run one after the other and do not count as a level. Their parallel regions are the sections. */
VSCAF_EXPORT void GOMP_teams_reg(outlined_function *fn, void *data, unsigned num_teams, unsigned thread_limit,
                                 unsigned flags)
{
    struct call_site_spare spare;
    const void *address;
    memcpy(&address, &fn, sizeof address);
    program_changed(); /* inside, the thread limit differs */
    call_site_runtime(call_site_of(address, &spare))->teams(fn, data, num_teams, thread_limit, flags);
    program_changed();
}

/* The pairs of calls that gcc before 4.9 emitted. Between start and end the caller runs the outlined function itself,
 * so the section is kept in a thread-local variable until its end. Initial-exec: the library is loaded at the start,
 * and a thread's first access must not allocate. */
static _Thread_local struct section pending __attribute__((tls_model("initial-exec")));

static const struct runtime *pair_begin(struct section *section, outlined_function *fn, void *data,
                                        unsigned num_threads)
{
    section_begin(section, fn, data, num_threads, NULL);
    if (section->attachment) {
        memcpy(&pending, section, sizeof pending);
        if (section->site == &section->spare.site) {
            pending.site = &pending.spare.site;
            if (atomic_load_explicit(&section->site->object, memory_order_relaxed) == &section->spare.object) {
                atomic_store_explicit(&pending.spare.site.object, &pending.spare.object, memory_order_relaxed);
                pending.runtime = &pending.spare.object.runtime;
            }
        }
    }
    return section->runtime;
}

VSCAF_EXPORT void GOMP_parallel_start(outlined_function *fn, void *data, unsigned num_threads)
{
    struct section section;
    pair_begin(&section, fn, data, num_threads)->parallel_start(fn, data, section.team.argument);
}

#define LOOP_START(name, member)                                                                                       \
    VSCAF_EXPORT void name(outlined_function *fn, void *data, unsigned num_threads, long start, long end, long step,   \
                           long chunk)                                                                                 \
    {                                                                                                                  \
        struct section section;                                                                                        \
        const struct runtime *runtime = pair_begin(&section, fn, data, num_threads);                                   \
        runtime->member(fn, data, section.team.argument, start, end, step, chunk);                                     \
    }
LOOP_START(GOMP_parallel_loop_static_start, loop_static_start)
LOOP_START(GOMP_parallel_loop_dynamic_start, loop_dynamic_start)
LOOP_START(GOMP_parallel_loop_guided_start, loop_guided_start)

VSCAF_EXPORT void GOMP_parallel_loop_runtime_start(outlined_function *fn, void *data, unsigned num_threads, long start,
                                                   long end, long step)
{
    struct section section;
    pair_begin(&section, fn, data, num_threads)->loop_runtime_start(fn, data, section.team.argument, start, end, step);
}

VSCAF_EXPORT void GOMP_parallel_sections_start(outlined_function *fn, void *data, unsigned num_threads, unsigned count)
{
    struct section section;
    pair_begin(&section, fn, data, num_threads)->sections_start(fn, data, section.team.argument, count);
}

VSCAF_EXPORT void GOMP_parallel_end(void)
{
    struct call_site_spare spare;
    call_site_runtime(call_site_of(__builtin_return_address(0), &spare))->parallel_end();
    if (pending.attachment && section_depth() == 1) {
        section_end(&pending);
        pending.attachment = NULL;
    } else {
        section_leave();
    }
}

static int report_max_threads(const void *caller)
{
    struct call_site_spare spare;
    const struct runtime *runtime = call_site_runtime(call_site_of(caller, &spare));
    join_before_number();
    return team_reported_threads(runtime, TEAM_MAX_THREADS, runtime->get_max_threads());
}

static int report_num_procs(const void *caller)
{
    struct call_site_spare spare;
    const struct runtime *runtime = call_site_runtime(call_site_of(caller, &spare));
    join_before_number();
    return team_reported_threads(runtime, TEAM_PROCESSORS, runtime->get_num_procs());
}

static void set_num_threads(const void *caller, int threads)
{
    struct call_site_spare spare;
    const struct runtime *runtime = call_site_runtime(call_site_of(caller, &spare));
    join_maintain_if_due(clock_ticks());
    runtime->set_num_threads(threads);
    program_note(VSCAF_PROGRAM_SET);
    program_changed();
}

/* The runtime always has the program's setting, except while a section starts whose size the page decides: then it is
 * off. */
static void set_dynamic(const void *caller, bool dynamic)
{
    struct call_site_spare spare;
    call_site_runtime(call_site_of(caller, &spare))->set_dynamic(dynamic);
    program_set_dynamic(dynamic);
}

VSCAF_EXPORT int omp_get_max_threads(void)
{
    return report_max_threads(__builtin_return_address(0));
}

VSCAF_EXPORT int32_t omp_get_max_threads_(void)
{
    return report_max_threads(__builtin_return_address(0));
}

VSCAF_EXPORT int omp_get_num_procs(void)
{
    return report_num_procs(__builtin_return_address(0));
}

VSCAF_EXPORT int32_t omp_get_num_procs_(void)
{
    return report_num_procs(__builtin_return_address(0));
}

VSCAF_EXPORT void omp_set_num_threads(int threads)
{
    set_num_threads(__builtin_return_address(0), threads);
}

VSCAF_EXPORT void omp_set_num_threads_(const int32_t *threads)
{
    set_num_threads(__builtin_return_address(0), *threads);
}

VSCAF_EXPORT void omp_set_num_threads_8_(const int64_t *threads)
{
    int64_t value = *threads;
    set_num_threads(__builtin_return_address(0), value > INT32_MAX ? INT32_MAX : value < 0 ? 0 : (int)value);
}

VSCAF_EXPORT void omp_set_dynamic(int dynamic)
{
    set_dynamic(__builtin_return_address(0), dynamic);
}

VSCAF_EXPORT void omp_set_dynamic_(const int32_t *dynamic)
{
    set_dynamic(__builtin_return_address(0), *dynamic);
}

VSCAF_EXPORT void omp_set_dynamic_8_(const int64_t *dynamic)
{
    set_dynamic(__builtin_return_address(0), *dynamic != 0);
}
