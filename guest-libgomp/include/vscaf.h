/* For programs that know that they run under vscaf: how to declare what vscaf may do with their teams.
 *
 *   #include <vscaf.h>
 *
 * Nothing has to be linked. The functions are looked up when they are first called. Without vscaf they do nothing, so
 * the program needs none to be built or to run. docs/declaring.md says when a program may declare what.
 *
 * For C and C++ on Linux. With a glibc before 2.34, link with -ldl. */
#ifndef VSCAF_H
#define VSCAF_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds a function of the preloaded library. It is there from the start or never. */
__attribute__((unused)) static void *vscaf_function(const char *name)
{
    return dlsym((void *)0 /* RTLD_DEFAULT, which C compilers show to _GNU_SOURCE only */, name);
}

/* Resize me: from now on this program is right with any number of threads in each parallel section, and with another
 * number in the next one. */
__attribute__((unused)) static void vscaf_resize(void)
{
    void *found = vscaf_function("vscaf_resize");
    if (found != NULL)
        (__extension__(void (*)(void)) found)();
}

/* Leave me alone: from now on each parallel section has the number of threads that it would have without vscaf. */
__attribute__((unused)) static void vscaf_leave_alone(void)
{
    void *found = vscaf_function("vscaf_leave_alone");
    if (found != NULL)
        (__extension__(void (*)(void)) found)();
}

/* My size now: the number of CPUs that this program may use at present, for a program that divides its work by itself.
 * It changes at any time. 0: there is no vscaf here, or it has not decided yet. */
__attribute__((unused)) static unsigned vscaf_size(void)
{
    void *found = vscaf_function("vscaf_size");
    return found != NULL ? (__extension__(unsigned (*)(void)) found)() : 0;
}

#ifdef __cplusplus
}
#endif

#endif
