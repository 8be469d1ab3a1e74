#include "learn/counters/safety.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUFFER_BYTES 16384u /* longer than any line: a path has at most 4096 bytes, and some more when escaped */
#define LINES_MAX 8192u
#define DESCRIPTORS_MAX 512u

/* Only one thread at a time calls. */
static char buffer[BUFFER_BYTES];

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Calls `each` for each line. False: unreadable or too long. */
static bool read_lines(const char *path, enum safety (*each)(char *line, void *argument), void *argument,
                       enum safety *verdict)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    size_t held = 0;
    unsigned lines = 0;
    bool complete = false;
    *verdict = SAFETY_GOOD;
    while (lines <= LINES_MAX) {
        ssize_t got = read(file, buffer + held, BUFFER_BYTES - 1 - held);
        if (got < 0)
            break;
        if (got == 0) {
            complete = held == 0;
            break;
        }
        held += (size_t)got;
        char *line = buffer;
        char *end;
        while ((end = memchr(line, '\n', held - (size_t)(line - buffer))) != NULL) {
            *end = '\0';
            lines++;
            enum safety found = each(line, argument);
            if (*verdict == SAFETY_GOOD)
                *verdict = found;
            line = end + 1;
        }
        held -= (size_t)(line - buffer);
        memmove(buffer, line, held);
        if (held == BUFFER_BYTES - 1)
            break;
    }
    close(file);
    return complete;
}

/* Special files whose memory is harmless, or that have none. */
static bool harmless_device(const char *path)
{
    static const char *const harmless[] = {
        "/dev/zero", "/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx",
    };
    if (starts(path, "/dev/shm/") || starts(path, "/dev/pts/") || starts(path, "/dev/hugepages/")
        || starts(path, "/dev/mqueue/") || starts(path, "/dev/fd/"))
        return true;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        size_t length = strlen(harmless[i]);
        if (!strncmp(path, harmless[i], length) && (!path[length] || !strcmp(path + length, " (deleted)")))
            return true;
    }
    return starts(path, "/dev/tty"); /* consoles and serial lines */
}

static enum safety check_mapping(char *line, void *argument)
{
    struct ranges *shared = argument;
    char *at;
    uintptr_t start = strtoul(line, &at, 16);
    if (*at != '-')
        return SAFETY_UNKNOWN;
    uintptr_t end = strtoul(at + 1, &at, 16);
    if (*at != ' ' || strlen(at) < 6)
        return SAFETY_UNKNOWN;
    const char *rights = at + 1;
    bool is_shared = rights[3] == 's';
    const char *path = strchr(at, '/');
    const char *name = strpbrk(at, "/[");
    if (path && name == path) {
        const char *base = strrchr(path, '/') + 1;
        if (starts(base, "vgpreload_"))
            return SAFETY_FILTERED; /* valgrind, which decides what a clone does */
        if (starts(path, "/SYSV") || starts(path, "/[aio]"))
            return SAFETY_SHARED; /* System V: the kernel counts attachments; AIO: the kernel writes to it */
        if ((starts(path, "/dev/") && !harmless_device(path)) || starts(path, "/sys/") || starts(path, "/proc/")
            || starts(path, "/dmabuf") || starts(path, "/drm") || starts(path, "/i915"))
            return SAFETY_DEVICE;
    } else if (is_shared && !path && !name) {
        return SAFETY_DEVICE; /* anon_inode:[...] and socket:[...] have a bracket, so this is something else */
    }
    if (strstr(at, "anon_inode:") || strstr(at, "socket:["))
        return SAFETY_DEVICE;
    if (!is_shared)
        return SAFETY_GOOD;
    if (shared->count == SAFETY_RANGES)
        return SAFETY_SHARED;
    shared->of[shared->count++] = (struct range){
        .start = start,
        .end = end,
        .protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0)
                      | (rights[2] == 'x' ? PROT_EXEC : 0),
    };
    return SAFETY_GOOD;
}

enum safety safety_of_mappings(struct ranges *shared)
{
    enum safety verdict;
    shared->count = 0;
    return read_lines("/proc/self/maps", check_mapping, shared, &verdict) ? verdict : SAFETY_UNKNOWN;
}

struct status {
    uint64_t resident_bytes, resident_most;
    unsigned seen;
};

static enum safety check_status(char *line, void *argument)
{
    struct status *status = argument;
    char *value = strchr(line, ':');
    if (!value)
        return SAFETY_GOOD;
    *value++ = '\0';
    unsigned long number = strtoul(value, NULL, 10);
    if (!strcmp(line, "TracerPid")) {
        status->seen |= 1;
        return number ? SAFETY_TRACED : SAFETY_GOOD;
    }
    if (!strcmp(line, "Seccomp")) {
        status->seen |= 2;
        return number ? SAFETY_FILTERED : SAFETY_GOOD;
    }
    if (!strcmp(line, "VmLck") || !strcmp(line, "VmPin")) {
        status->seen |= 4;
        return number ? SAFETY_LOCKED : SAFETY_GOOD;
    }
    if (!strcmp(line, "VmRSS")) {
        status->seen |= 8;
        status->resident_bytes = (uint64_t)number * 1024u;
        return status->resident_bytes > status->resident_most ? SAFETY_LARGE : SAFETY_GOOD;
    }
    return SAFETY_GOOD;
}

static enum safety check_descriptor(const char *target)
{
    if (starts(target, "anon_inode:"))
        return strstr(target, "[userfaultfd]") || strstr(target, "[io_uring]") || strstr(target, "[perf_event]")
                       || strstr(target, "kvm")
                   ? SAFETY_DESCRIPTORS
                   : SAFETY_GOOD;
    return starts(target, "/dev/") && !harmless_device(target) ? SAFETY_DEVICE : SAFETY_GOOD;
}

static enum safety safety_of_descriptors(void)
{
    struct entry {
        uint64_t inode;
        int64_t offset;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    int directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return SAFETY_UNKNOWN;
    enum safety verdict = SAFETY_GOOD;
    unsigned count = 0;
    long got;
    while (verdict == SAFETY_GOOD && (got = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) != 0) {
        if (got < 0) {
            verdict = SAFETY_UNKNOWN;
            break;
        }
        for (long at = 0; at < got && verdict == SAFETY_GOOD;) {
            const char *raw = buffer + at;
            unsigned short length;
            memcpy(&length, raw + offsetof(struct entry, length), sizeof length);
            const char *name = raw + offsetof(struct entry, name);
            char target[128];
            ssize_t bytes = name[0] == '.' ? 0 : readlinkat(directory, name, target, sizeof target - 1);
            if (bytes > 0) {
                target[bytes] = '\0';
                verdict = check_descriptor(target);
            }
            if (++count > DESCRIPTORS_MAX)
                verdict = SAFETY_DESCRIPTORS;
            at += length;
        }
    }
    close(directory);
    return verdict;
}

enum safety safety_of_process(uint64_t resident_most, uint64_t *resident_bytes)
{
    if (getauxval(AT_SECURE))
        return SAFETY_PRIVILEGED;
    struct status status = {.resident_most = resident_most};
    enum safety verdict;
    if (!read_lines("/proc/thread-self/status", check_status, &status, &verdict))
        return SAFETY_UNKNOWN;
    if (verdict != SAFETY_GOOD)
        return verdict;
    if (status.seen != 15)
        return SAFETY_UNKNOWN;
    *resident_bytes = status.resident_bytes;
    static struct ranges shared;
    verdict = safety_of_mappings(&shared);
    return verdict == SAFETY_GOOD ? safety_of_descriptors() : verdict;
}
