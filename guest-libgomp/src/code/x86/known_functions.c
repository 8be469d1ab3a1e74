#include "code/x86/known_functions.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    const char *effects;
} known[] = {
    {"memset", "W"},         {"memcpy", "Wr"},         {"memmove", "Wr"},        {"mempcpy", "Wr"},
    {"__memset_chk", "W"},   {"__memcpy_chk", "Wr"},   {"__memmove_chk", "Wr"},  {"bzero", "w"},
    {"strcpy", "wr"},        {"strcmp", "rr"},         {"memcmp", "rr"},         {"strlen", "r"},
    {"malloc", ""},          {"calloc", ""},           {"free", ""},             {"realloc", ""},
    {"aligned_alloc", ""},   {"sincos", "ww"},         {"sincosf", "ww"},        {"frexp", "w"},
    {"modf", "w"},           {"time", "w"},            {"gettimeofday", "w"},    {"clock_gettime", "-w"},
    {"rand", ""},            {"srand", ""},            {"drand48", ""},          {"random", ""},
    {"sched_yield", ""},     {"usleep", ""},           {"__errno_location", ""}, {"getpid", ""},
    {"clock", ""},           {"pthread_self", ""},
};

/* Functions of libm that only have numbers as arguments. Also those with f or l appended. */
static const char *const of_numbers[] = {
    "sqrt", "log",  "exp",  "pow",   "sin",   "cos",   "tan",  "fabs",  "floor", "ceil",  "fmod",  "fmax", "fmin",
    "atan", "asin", "acos", "atan2", "sinh",  "cosh",  "tanh", "log2",  "log10", "log1p", "exp2",  "exp10", "expm1",
    "cbrt", "erf",  "erfc", "hypot", "round", "trunc", "rint", "lround", "fma",  "tgamma", "lgamma", "copysign",
};

static bool starts(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

const char *known_effects(const char *name)
{
    /* The runtime's own functions do not touch the program's data, except these. */
    if (starts(name, "__kmpc_threadprivate") || starts(name, "__kmpc_copyprivate"))
        return NULL;
    /* One section may wait for another, which then needs a thread of its own. */
    if (starts(name, "GOMP_sections"))
        return NULL;
    if (starts(name, "omp_") || starts(name, "GOMP_") || starts(name, "__kmpc_") || starts(name, "_gfortran_pow_"))
        return "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].effects;
    for (size_t i = 0; i < sizeof of_numbers / sizeof *of_numbers; i++) {
        size_t length = strlen(of_numbers[i]);
        if (!strncmp(name, of_numbers[i], length)
            && (!name[length] || ((name[length] == 'f' || name[length] == 'l') && !name[length + 1])))
            return "";
    }
    return NULL;
}

bool known_never_returns(const char *name)
{
    static const char *const names[] = {"__stack_chk_fail", "abort",       "exit",           "_exit",
                                        "__assert_fail",    "quick_exit",  "_Unwind_Resume", "__cxa_throw",
                                        "__cxa_rethrow",    "longjmp",     "siglongjmp",     "_ZSt9terminatev",
                                        "__fortify_fail",   "__chk_fail",  "pthread_exit",   "__cxa_bad_cast"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return starts(name, "_gfortran_stop_") || starts(name, "_gfortran_error_stop_")
           || starts(name, "_gfortran_runtime_error") || starts(name, "_gfortran_os_error")
           || (starts(name, "_ZSt") && strstr(name, "__throw_"))
           /* Of sanitizers that do not go on after an error. */
           || (starts(name, "__asan_report_") && !strstr(name, "_noabort"))
           || (starts(name, "__ubsan_handle_") && strstr(name, "_abort"));
}
