/* The files that a process has mapped: PROC/PID/maps, and opening one of them. These calls can block for ever (a file
 * system whose server hangs), so they are made where that does no harm: in a helper or in a thread for that. */
#ifndef VSCAF_INSPECT_MAPPED_FILE_H
#define VSCAF_INSPECT_MAPPED_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of PROC/PID/maps. */
struct mapping {
    uint64_t start, end, offset;
    uint64_t inode;
    uint32_t device_major, device_minor;
    bool writable, executable;
    char path[PATH_MAX]; /* "" if it has none */
};

/* Reads one line, without its end. False: it is no such line. */
bool mapping_parse(const char *line, struct mapping *mapping);

/* Which file it is, and when it was changed. */
struct file_identity {
    uint64_t device, inode, size, mtime_ns, ctime_ns;
    uint32_t root_only; /* root alone can write it, and this kernel alone keeps its bytes: the times tell changes */
    uint32_t unused;
};

/* Returns 0 or -errno. -ENOTSUP: not a regular file. */
int file_identity_of(int fd, struct file_identity *identity);

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b);

/* Opens the file that is mapped there, with these flags of open(). PROC/PID/map_files leads to the file itself, but only
 * with CAP_CHECKPOINT_RESTORE. Otherwise by its path, if the same file is still there. `direct`: whether it was the
 * former. Returns the descriptor or -errno. */
int mapped_file_open(const char *proc, pid_t pid, const struct mapping *mapping, int flags, bool *direct);

#endif
