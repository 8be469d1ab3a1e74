/* Checks, as far as the file tells, whether preloading can reach a program's OpenMP runtime. */
#ifndef VSCAF_GOMP_STATIC_CHECK_H
#define VSCAF_GOMP_STATIC_CHECK_H

/* The reason why not, as text to follow the program's name. NULL: it can, or nothing is known (a script, no OpenMP, an
 * unreadable file). */
const char *preload_obstacle(const char *path);

#endif
