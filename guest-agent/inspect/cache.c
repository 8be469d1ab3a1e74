#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 96
#define TOUCH_S 86400 /* a record's time is renewed when it is older than this */

int cache_open(const char *directory)
{
    struct stat status;
    if (mkdir(directory, 0755) != 0 && errno != EEXIST)
        return -errno;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
        (status.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return fd;
    close(fd);
    return -EPERM;
}

static void name_of(const uint8_t sha256[RECORD_SHA256_BYTES], char name[NAME_BYTES])
{
    for (size_t i = 0; i < RECORD_SHA256_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", sha256[i]);
    snprintf(name + 2 * (size_t)RECORD_SHA256_BYTES, NAME_BYTES - 2 * RECORD_SHA256_BYTES, ".%u", VSCAF_RULES_VERSION);
}

static bool read_all(int fd, void *bytes, size_t size)
{
    for (size_t used = 0; used < size;) {
        ssize_t got = read(fd, (char *)bytes + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    return true;
}

struct record *cache_load(int directory, const uint8_t sha256[RECORD_SHA256_BYTES])
{
    char name[NAME_BYTES];
    struct stat status;
    struct record *record = NULL;
    name_of(sha256, name);
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size >= sizeof(*record) &&
        (uint64_t)status.st_size <= RECORD_BYTES_MAX && (record = malloc((size_t)status.st_size)) != NULL &&
        (!read_all(fd, record, (size_t)status.st_size) || !record_is_good(record, (size_t)status.st_size) ||
         memcmp(record->sha256, sha256, RECORD_SHA256_BYTES) != 0)) {
        free(record);
        record = NULL;
    }
    if (record != NULL && time(NULL) - status.st_mtim.tv_sec > TOUCH_S)
        futimens(fd, NULL); /* if it fails, the record is only removed earlier */
    close(fd);
    return record;
}

/* Removes what is older than `oldest`. Returns how many files stay, and the name of the one that is oldest of them. */
static unsigned remove_old(int directory, time_t oldest, char name[256])
{
    int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
    if (list == NULL) {
        if (copy >= 0)
            close(copy);
        return 0;
    }
    unsigned count = 0;
    time_t first = 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        struct stat status;
        if (fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        if (status.st_mtim.tv_sec < oldest) {
            unlinkat(directory, entry->d_name, 0);
            continue;
        }
        if (count++ == 0 || status.st_mtim.tv_sec < first) {
            first = status.st_mtim.tv_sec;
            snprintf(name, 256, "%s", entry->d_name);
        }
    }
    closedir(list);
    return count;
}

int cache_store(int directory, const struct record *record)
{
    char name[NAME_BYTES], new[NAME_BYTES + 32], oldest[256] = "";
    name_of(record->sha256, name);
    snprintf(new, sizeof(new), "%s.new-%d", name, (int)getpid());
    int fd = openat(directory, new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return -errno;
    const char *bytes = (const char *)record;
    int status = 0;
    for (size_t left = record_bytes(record); left > 0 && status == 0;) {
        ssize_t put = write(fd, bytes, left);
        if (put < 0) {
            status = -errno;
        } else {
            bytes += put;
            left -= (size_t)put;
        }
    }
    close(fd);
    if (status == 0 && renameat(directory, new, directory, name) != 0)
        status = -errno;
    if (status != 0)
        unlinkat(directory, new, 0);
    if (remove_old(directory, time(NULL) - CACHE_AGE_S, oldest) > CACHE_FILES_MAX)
        unlinkat(directory, oldest, 0);
    return status;
}
