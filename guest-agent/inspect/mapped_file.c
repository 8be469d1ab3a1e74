#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef ZFS_SUPER_MAGIC
#define ZFS_SUPER_MAGIC 0x2fc12fc1
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

bool mapping_parse(const char *line, struct mapping *mapping)
{
    char rights[5];
    int path_at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 "%n", &mapping->start,
               &mapping->end, rights, &mapping->offset, &mapping->device_major, &mapping->device_minor,
               &mapping->inode, &path_at) != 7 ||
        strlen(rights) != 4 || mapping->start >= mapping->end)
        return false;
    mapping->writable = rights[1] == 'w';
    mapping->executable = rights[2] == 'x';
    const char *path = line + path_at;
    path += strspn(path, " ");
    if (strlen(path) >= sizeof(mapping->path))
        return false;
    strcpy(mapping->path, path);
    return true;
}

/* Whether this kernel alone keeps the bytes of the files there: no server or program can give others. */
static bool kept_by_kernel(int fd)
{
    static const long kinds[] = {EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                 OVERLAYFS_SUPER_MAGIC, SQUASHFS_MAGIC,   F2FS_SUPER_MAGIC,  RAMFS_MAGIC,
                                 ISOFS_SUPER_MAGIC,     ZFS_SUPER_MAGIC,  EROFS_SUPER_MAGIC_V1};
    struct statfs system;
    if (fstatfs(fd, &system) != 0)
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if ((long)system.f_type == kinds[i])
            return true;
    return false;
}

static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * UINT64_C(1000000000) + (uint64_t)time->tv_nsec;
}

int file_identity_of(int fd, struct file_identity *identity)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -ENOTSUP;
    *identity = (struct file_identity){
        .device = status.st_dev,
        .inode = status.st_ino,
        .size = (uint64_t)status.st_size,
        .mtime_ns = nanoseconds(&status.st_mtim),
        .ctime_ns = nanoseconds(&status.st_ctim),
        .root_only = status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && kept_by_kernel(fd)};
    return 0;
}

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns && a->root_only == b->root_only;
}

int mapped_file_open(const char *proc, pid_t pid, const struct mapping *mapping, int flags, bool *direct)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/map_files/%" PRIx64 "-%" PRIx64, proc, (int)pid, mapping->start, mapping->end);
    int fd = open(path, flags | O_CLOEXEC);
    *direct = fd >= 0;
    if (fd >= 0 || (errno != EPERM && errno != EACCES))
        return fd >= 0 ? fd : -errno;
    if (mapping->path[0] != '/')
        return -ENOENT;
    if (snprintf(path, sizeof(path), "%s/%d/root%s", proc, (int)pid, mapping->path) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    /* Something else may be there now, a named pipe for example. */
    fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == mapping->inode &&
        major(status.st_dev) == mapping->device_major && minor(status.st_dev) == mapping->device_minor)
        return fd;
    close(fd);
    return -ESTALE;
}
