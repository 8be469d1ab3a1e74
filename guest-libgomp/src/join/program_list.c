#include "join/program_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "join/program.h"

/* What others could change is not the administrator's word. */
static bool is_trusted(int fd, uid_t owner, mode_t type)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type && status.st_uid == owner
           && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* Closes the descriptor. */
static bool names_program(int fd, const char *program)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool named = false;
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return false;
    }
    while (!named && (length = getline(&line, &room, file)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        named = !strcmp(line, program);
    }
    free(line);
    fclose(file);
    return named;
}

bool program_is_listed(const char *directory, uid_t owner, const char *program)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 && is_trusted(fd, owner, S_IFDIR) ? fdopendir(fd) : NULL;
    if (!entries) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool listed = false;
    for (const struct dirent *entry; !listed && (entry = readdir(entries));) {
        if (entry->d_name[0] == '.')
            continue;
        int list = openat(fd, entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (list >= 0 && is_trusted(list, owner, S_IFREG))
            listed = names_program(list, program);
        else if (list >= 0)
            close(list);
    }
    closedir(entries);
    return listed;
}

void program_list_start(void)
{
    char program[PATH_MAX];
    int saved_errno = errno;
    if (access(PROGRAM_LISTS, F_OK) == 0) {
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        if (length > 0 && program_is_listed(PROGRAM_LISTS, 0, program))
            program_declare(PROGRAM_RESIZE);
    }
    errno = saved_errno;
}
