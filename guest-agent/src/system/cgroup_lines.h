/* Finds control groups: reads the lines of PROC/self/mountinfo and of PROC/PID/cgroup. */
#ifndef VSCAF_CGROUP_LINES_H
#define VSCAF_CGROUP_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* One of these files, read line by line. */
struct cgroup_lines {
    FILE *file;
    char *line;
    size_t size;
};

/* A mounted hierarchy. The strings point into the line, so they are valid until the next line is read. */
struct cgroup_mount {
    bool version_2;
    const char *root;        /* the group that the mount point shows */
    const char *point;       /* where it is mounted */
    const char *controllers; /* version 1: its options, including the controllers; comma-separated */
};

/* A group that a process is in. The strings point into the line. */
struct cgroup_membership {
    bool version_2;
    const char *controllers; /* version 1; comma-separated */
    const char *path;        /* as the kernel writes it */
};

/* Opens PROC/PID/NAME; pid 0: PROC/self/NAME. Returns 0 or -errno. Call cgroup_lines_close() in both cases. */
int cgroup_lines_open(struct cgroup_lines *lines, const char *proc, pid_t pid, const char *name);
void cgroup_lines_close(struct cgroup_lines *lines);

/* Reads the next hierarchy of "mountinfo"; false: there is none. Other file systems are left out. */
bool cgroup_lines_mount(struct cgroup_lines *lines, struct cgroup_mount *mount);

/* Reads the next group of "cgroup"; false: there is none. */
bool cgroup_lines_membership(struct cgroup_lines *lines, struct cgroup_membership *membership);

/* Whether the word is in a list of words that are separated by any of `separators`. */
bool cgroup_has_word(const char *list, const char *separators, const char *word);

#endif
