#include "known.h"

#include <stddef.h>
#include <string.h>

static const struct known_function functions[] = {
    /* The C library. */
    {"memset", KNOWN_PLAIN, "W--"}, {"memcpy", KNOWN_PLAIN, "WR-"}, {"memmove", KNOWN_PLAIN, "WR-"},
    {"__memset_chk", KNOWN_PLAIN, "W---"}, {"__memcpy_chk", KNOWN_PLAIN, "WR--"}, {"__memmove_chk", KNOWN_PLAIN, "WR--"},
    {"strcmp", KNOWN_PLAIN, "rr"}, {"strncmp", KNOWN_PLAIN, "rr-"}, {"strcasecmp", KNOWN_PLAIN, "rr"},
    {"memcmp", KNOWN_PLAIN, "RR-"}, {"strlen", KNOWN_PLAIN, "r"}, {"getenv", KNOWN_PLAIN, "r"},
    {"sincos", KNOWN_PLAIN, "fww"}, {"sincosf", KNOWN_PLAIN, "fvv"}, {"frexp", KNOWN_PLAIN, "fv"},
    {"modf", KNOWN_PLAIN, "fw"}, {"abs", KNOWN_PLAIN, "-"}, {"labs", KNOWN_PLAIN, "-"},
    {"malloc", KNOWN_MEMORY, "-"}, {"calloc", KNOWN_MEMORY, "--"}, {"aligned_alloc", KNOWN_MEMORY, "--"},
    {"free", KNOWN_PLAIN, "i"}, {"_Znwm", KNOWN_MEMORY, "-"}, {"_Znam", KNOWN_MEMORY, "-"}, {"_ZdlPv", KNOWN_PLAIN, "i"},
    {"_ZdlPvm", KNOWN_PLAIN, "i-"}, {"_ZdaPv", KNOWN_PLAIN, "i"}, {"_ZdaPvm", KNOWN_PLAIN, "i-"},
    {"sched_yield", KNOWN_PLAIN, ""}, {"usleep", KNOWN_PLAIN, "-"}, {"nanosleep", KNOWN_PLAIN, "ru"},
    {"puts", KNOWN_OUTPUT, "r"}, {"putchar", KNOWN_OUTPUT, "-"}, {"printf", KNOWN_OUTPUT, "rrrrrr"},
    {"__printf_chk", KNOWN_OUTPUT, "-rrrrr"}, {"fprintf", KNOWN_OUTPUT, "rrrrrr"},
    {"__fprintf_chk", KNOWN_OUTPUT, "r-rrrr"}, {"fflush", KNOWN_OUTPUT, "r"},
    {"fwrite", KNOWN_OUTPUT, "r--r"}, {"fputs", KNOWN_OUTPUT, "rr"}, {"fputc", KNOWN_OUTPUT, "-r"},
    /* The compilers' own libraries. */
    {"_gfortran_pow_i4_i4", KNOWN_PLAIN, "--"}, {"_gfortran_pow_i8_i4", KNOWN_PLAIN, "--"},
    {"_gfortran_pow_i8_i8", KNOWN_PLAIN, "--"}, {"__powidf2", KNOWN_PLAIN, "f-"}, {"__powisf2", KNOWN_PLAIN, "f-"},
    {"__muldc3", KNOWN_PLAIN, "ffff"}, {"__divdc3", KNOWN_PLAIN, "ffff"}, {"__mulsc3", KNOWN_PLAIN, "ffff"},
    {"__divsc3", KNOWN_PLAIN, "ffff"},
    /* The OpenMP runtimes. */
    {"omp_get_thread_num", KNOWN_NUMBER, ""}, {"omp_get_thread_num_", KNOWN_NUMBER, ""},
    {"omp_get_num_threads", KNOWN_TEAM, ""}, {"omp_get_num_threads_", KNOWN_TEAM, ""},
    {"omp_get_max_threads", KNOWN_TOLD, ""}, {"omp_get_max_threads_", KNOWN_TOLD, ""},
    {"omp_get_num_procs", KNOWN_TOLD, ""}, {"omp_get_num_procs_", KNOWN_TOLD, ""},
    {"omp_get_wtime", KNOWN_PLAIN, ""}, {"omp_get_wtime_", KNOWN_PLAIN, ""}, {"omp_get_wtick", KNOWN_PLAIN, ""},
    {"GOMP_barrier", KNOWN_BARRIER, ""}, {"GOMP_loop_end", KNOWN_BARRIER, ""}, {"GOMP_loop_end_nowait", KNOWN_RUNTIME, ""},
    {"GOMP_sections_end", KNOWN_BARRIER, ""}, {"GOMP_sections_end_nowait", KNOWN_RUNTIME, ""},
    {"GOMP_taskwait", KNOWN_BARRIER, ""}, {"GOMP_taskgroup_start", KNOWN_RUNTIME, ""},
    {"GOMP_taskgroup_end", KNOWN_BARRIER, ""}, {"GOMP_taskyield", KNOWN_RUNTIME, ""},
    {"GOMP_single_start", KNOWN_ONCE, ""}, {"GOMP_sections_start", KNOWN_SHARE, "-"},
    {"GOMP_sections_next", KNOWN_SHARE, ""},
    {"GOMP_critical_start", KNOWN_LOCK, ""}, {"GOMP_critical_end", KNOWN_UNLOCK, ""},
    {"GOMP_critical_name_start", KNOWN_LOCK, "i"}, {"GOMP_critical_name_end", KNOWN_UNLOCK, "i"},
    {"GOMP_atomic_start", KNOWN_LOCK, ""}, {"GOMP_atomic_end", KNOWN_UNLOCK, ""},
    {"GOMP_loop_static_start", KNOWN_SHARE, "----ww"}, {"GOMP_loop_dynamic_start", KNOWN_SHARE, "----ww"},
    {"GOMP_loop_guided_start", KNOWN_SHARE, "----ww"}, {"GOMP_loop_runtime_start", KNOWN_SHARE, "---ww"},
    {"GOMP_loop_nonmonotonic_dynamic_start", KNOWN_SHARE, "----ww"},
    {"GOMP_loop_nonmonotonic_guided_start", KNOWN_SHARE, "----ww"},
    {"GOMP_loop_nonmonotonic_runtime_start", KNOWN_SHARE, "---ww"},
    {"GOMP_loop_maybe_nonmonotonic_runtime_start", KNOWN_SHARE, "---ww"},
    {"GOMP_loop_static_next", KNOWN_SHARE, "ww"}, {"GOMP_loop_dynamic_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_guided_next", KNOWN_SHARE, "ww"}, {"GOMP_loop_runtime_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_nonmonotonic_dynamic_next", KNOWN_SHARE, "ww"}, {"GOMP_loop_nonmonotonic_guided_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_nonmonotonic_runtime_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_maybe_nonmonotonic_runtime_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_ull_dynamic_start", KNOWN_SHARE, "-----ww"}, {"GOMP_loop_ull_dynamic_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_ordered_static_start", KNOWN_SHARE, "----ww"}, {"GOMP_loop_ordered_static_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_ordered_dynamic_start", KNOWN_SHARE, "----ww"}, {"GOMP_loop_ordered_dynamic_next", KNOWN_SHARE, "ww"},
    {"GOMP_loop_ordered_guided_start", KNOWN_SHARE, "----ww"}, {"GOMP_loop_ordered_guided_next", KNOWN_SHARE, "ww"},
    {"GOMP_ordered_start", KNOWN_RUNTIME, ""}, {"GOMP_ordered_end", KNOWN_RUNTIME, ""},
    {"GOMP_task", KNOWN_TASK, ""}, {"GOMP_taskloop", KNOWN_TASK, ""}, {"GOMP_taskloop_ull", KNOWN_TASK, ""},
    {"__kmpc_global_thread_num", KNOWN_NUMBER, "i"}, {"__kmpc_barrier", KNOWN_BARRIER, "i-"},
    {"__kmpc_for_static_init_4", KNOWN_SHARE, "i--wwww--"}, {"__kmpc_for_static_init_4u", KNOWN_SHARE, "i--wwww--"},
    {"__kmpc_for_static_init_8", KNOWN_SHARE, "i--wwww--"}, {"__kmpc_for_static_init_8u", KNOWN_SHARE, "i--wwww--"},
    {"__kmpc_for_static_fini", KNOWN_RUNTIME, "i-"}, {"__kmpc_dispatch_init_4", KNOWN_RUNTIME, "i------"},
    {"__kmpc_dispatch_init_4u", KNOWN_RUNTIME, "i------"}, {"__kmpc_dispatch_init_8", KNOWN_RUNTIME, "i------"},
    {"__kmpc_dispatch_init_8u", KNOWN_RUNTIME, "i------"}, {"__kmpc_dispatch_next_4", KNOWN_SHARE, "i-wwww"},
    {"__kmpc_dispatch_next_4u", KNOWN_SHARE, "i-wwww"}, {"__kmpc_dispatch_next_8", KNOWN_SHARE, "i-wwww"},
    {"__kmpc_dispatch_next_8u", KNOWN_SHARE, "i-wwww"}, {"__kmpc_dispatch_fini_4", KNOWN_RUNTIME, "i-"},
    {"__kmpc_dispatch_fini_8", KNOWN_RUNTIME, "i-"}, {"__kmpc_single", KNOWN_ONCE, "i-"},
    {"__kmpc_end_single", KNOWN_RUNTIME, "i-"}, {"__kmpc_master", KNOWN_ONCE, "i-"},
    {"__kmpc_end_master", KNOWN_RUNTIME, "i-"}, {"__kmpc_masked", KNOWN_ONCE, "i--"},
    {"__kmpc_end_masked", KNOWN_RUNTIME, "i-"}, {"__kmpc_critical", KNOWN_LOCK, "i-i"},
    {"__kmpc_critical_with_hint", KNOWN_LOCK, "i-i-"}, {"__kmpc_end_critical", KNOWN_UNLOCK, "i-i"},
    {"__kmpc_reduce_nowait", KNOWN_LOCK, "i---ri"}, {"__kmpc_reduce", KNOWN_LOCK, "i---ri"},
    {"__kmpc_end_reduce_nowait", KNOWN_UNLOCK, "i-i"}, {"__kmpc_end_reduce", KNOWN_UNLOCK, "i-i"},
    {"__kmpc_flush", KNOWN_RUNTIME, "i"}, {"__kmpc_ordered", KNOWN_RUNTIME, "i-"},
    {"__kmpc_end_ordered", KNOWN_RUNTIME, "i-"},
    /* The end of the program. */
    {"__stack_chk_fail", KNOWN_ENDS, ""}, {"abort", KNOWN_ENDS, ""}, {"exit", KNOWN_ENDS, "-"}, {"_exit", KNOWN_ENDS, "-"},
    {"__assert_fail", KNOWN_ENDS, ""}, {"__fortify_fail", KNOWN_ENDS, ""}, {"__chk_fail", KNOWN_ENDS, ""},
    {"_ZSt9terminatev", KNOWN_ENDS, ""}, {"_gfortran_stop_string", KNOWN_ENDS, ""},
    {"_gfortran_stop_numeric", KNOWN_ENDS, ""}, {"_gfortran_error_stop_string", KNOWN_ENDS, ""},
    {"_gfortran_error_stop_numeric", KNOWN_ENDS, ""}, {"_gfortran_runtime_error", KNOWN_ENDS, ""},
    {"_gfortran_runtime_error_at", KNOWN_ENDS, ""}, {"_gfortran_os_error", KNOWN_ENDS, ""},
    {"_gfortran_os_error_at", KNOWN_ENDS, ""},
};

/* Functions of libm that have only numbers as arguments. A complex number is two, though cabsf and cexpf have one register.
 * Also those with f appended. Their numbers follow. */
static const struct known_function of_numbers[] = {
#define NUMBERS(name, effects) {name, KNOWN_PLAIN, effects}, {name "f", KNOWN_PLAIN, effects}
    NUMBERS("sqrt", "f"), NUMBERS("log", "f"), NUMBERS("exp", "f"), NUMBERS("pow", "ff"), NUMBERS("sin", "f"),
    NUMBERS("cos", "f"), NUMBERS("tan", "f"), NUMBERS("fabs", "f"), NUMBERS("floor", "f"), NUMBERS("ceil", "f"),
    NUMBERS("fmod", "ff"), NUMBERS("fmax", "ff"), NUMBERS("fmin", "ff"), NUMBERS("atan", "f"), NUMBERS("asin", "f"),
    NUMBERS("acos", "f"), NUMBERS("atan2", "ff"), NUMBERS("sinh", "f"), NUMBERS("cosh", "f"), NUMBERS("tanh", "f"),
    NUMBERS("log2", "f"), NUMBERS("log10", "f"), NUMBERS("log1p", "f"), NUMBERS("exp2", "f"), NUMBERS("exp10", "f"),
    NUMBERS("expm1", "f"), NUMBERS("cbrt", "f"), NUMBERS("erf", "f"), NUMBERS("erfc", "f"), NUMBERS("hypot", "ff"),
    NUMBERS("round", "f"), NUMBERS("trunc", "f"), NUMBERS("rint", "f"), NUMBERS("lround", "f"), NUMBERS("fma", "fff"),
    NUMBERS("tgamma", "f"), NUMBERS("copysign", "ff"), NUMBERS("lrint", "f"), NUMBERS("nearbyint", "f"),
    NUMBERS("ldexp", "f-"), NUMBERS("cabs", "ff"), NUMBERS("cexp", "ff"),
#undef NUMBERS
};

#define FUNCTIONS (sizeof functions / sizeof functions[0])
#define OF_NUMBERS (sizeof of_numbers / sizeof of_numbers[0])
_Static_assert(FUNCTIONS + OF_NUMBERS <= INSPECT_KNOWN_MAX, "each has a number");

const struct known_function *known_function(const char *name, unsigned *number)
{
    for (size_t i = 0; i < FUNCTIONS + OF_NUMBERS; i++) {
        const struct known_function *function = i < FUNCTIONS ? &functions[i] : &of_numbers[i - FUNCTIONS];
        if (strcmp(function->name, name) == 0) {
            *number = (unsigned)i;
            return function;
        }
    }
    return NULL;
}

const char *inspect_known_name(unsigned number)
{
    return number < FUNCTIONS ? functions[number].name
                              : number < FUNCTIONS + OF_NUMBERS ? of_numbers[number - FUNCTIONS].name : NULL;
}

bool known_never_returns(const char *name)
{
    unsigned number;
    const struct known_function *function = known_function(name, &number);
    return function != NULL && function->class == KNOWN_ENDS;
}
