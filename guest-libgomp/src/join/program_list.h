/* Programs that the administrator has declared: files in a directory name them. */
#ifndef VSCAF_GOMP_PROGRAM_LIST_H
#define VSCAF_GOMP_PROGRAM_LIST_H

#include <stdbool.h>
#include <sys/types.h>

#define PROGRAM_LISTS "/etc/vscaf/programs.d"

/* Declares this process's program if it is named there. Called once, when the library is loaded: one system call if
 * there is no such directory. Leaves errno alone. */
void program_list_start(void);

/* True if a line of a file in the directory is this path. The directory, and each file that counts, belongs to `owner`,
 * and nobody else may write to it. Empty lines and lines that begin with # say nothing. */
bool program_is_listed(const char *directory, uid_t owner, const char *program);

#endif
