/* Says, as far as files and environment tell, whether the shim can be preloaded into a program and reach its OpenMP
 * runtime. */
#ifndef VSCAF_GOMP_OBSTACLE_H
#define VSCAF_GOMP_OBSTACLE_H

/* The reason why not, as text to follow the program's name. NULL: it can, or nothing is known (no OpenMP, an unreadable
 * file). A script can, unless the preload would break its interpreter: it may start other programs. */
const char *preload_obstacle(const char *path);

#endif
