/* Whether a program's OpenMP can be reached by preloading, as far as its file tells. */
#ifndef VSCAF_GOMP_STATIC_CHECK_H
#define VSCAF_GOMP_STATIC_CHECK_H

/* Why not, to be put after the program's name; NULL: it can, or nothing is known (a script, no OpenMP, unreadable). */
const char *unreachable(const char *path);

#endif
