#include "contain/contain_record.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_VERSION 2
#define RECORD_BYTES_MAX (16u << 20)

static_assert(PLACEMENT_MAX * (3 * CPU_SET_TEXT + 256) <= RECORD_BYTES_MAX, "a full record can be read");

static json_t *list_of(const struct cpu_set *set)
{
    char text[CPU_SET_TEXT];
    return cpu_set_format(set, text, sizeof(text)) ? json_string(text) : NULL;
}

static json_t *describe(const struct contained *contained)
{
    return json_pack("{s:i, s:I, s:o, s:b, s:o, s:o}", "pid", (int)contained->pid, "start",
                     (json_int_t)contained->start_ticks, "own", list_of(&contained->own), "free", (int)contained->free,
                     "set", list_of(&contained->set), "next", list_of(&contained->next));
}

static int write_part(FILE *file, const char *before, json_t *part)
{
    if (part == NULL)
        return -ENOMEM;
    errno = EIO;
    int status = fputs(before, file) != EOF && json_dumpf(part, file, JSON_COMPACT | JSON_ENCODE_ANY) == 0 ? 0 : -errno;
    json_decref(part);
    return status;
}

/* One process at a time: the JSON of all processes would need more memory than the rest of the agent. */
static int write_parts(FILE *file, const struct contain *contain)
{
    int status = write_part(file, "{\"v\":", json_integer(RECORD_VERSION));
    for (uint32_t i = 0; i < contain->count && status == 0; i++)
        status = write_part(file, i == 0 ? ",\"processes\":[" : ",", describe(contain->list[i]));
    if (status == 0 && (fputs("]}", file) == EOF || fflush(file) != 0))
        status = -errno;
    return status;
}

int contain_record_write(struct contain *contain)
{
    char path[PATH_MAX];
    if (contain->count == 0) {
        if (contain->recorded && unlink(contain->record) != 0 && errno != ENOENT)
            return -errno;
        contain->recorded = false;
        return 0;
    }
    if (snprintf(path, sizeof(path), "%s.new", contain->record) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    unlink(path); /* left by an agent that died during this function */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    int status = file != NULL ? write_parts(file, contain) : -errno;
    if (file != NULL && fclose(file) != 0 && status == 0)
        status = -errno;
    if (file == NULL && fd >= 0)
        close(fd);
    if (status == 0 && rename(path, contain->record) != 0)
        status = -errno;
    if (status != 0 && fd >= 0)
        unlink(path);
    contain->recorded = contain->recorded || status == 0;
    return status;
}

/* Takes one process of the record. Ignores one that is invalid. */
static void read_process(struct contain *contain, json_t *object)
{
    int pid = 0, free_own = 0;
    json_int_t start = 0;
    const char *own, *set, *next;
    struct contained found = {.pid = 0};
    if (json_unpack(object, "{s:i, s:I, s:s, s:b, s:s, s:s}", "pid", &pid, "start", &start, "own", &own, "free",
                    &free_own, "set", &set, "next", &next) != 0 ||
        pid <= 0 || start < 0 || !cpu_set_parse(own, &found.own) || cpu_set_count(&found.own) == 0 ||
        !cpu_set_parse(set, &found.set) || !cpu_set_parse(next, &found.next))
        return;
    struct contained *contained = contain_add(contain, (pid_t)pid);
    if (contained == NULL)
        return;
    found.pid = (pid_t)pid;
    found.start_ticks = (uint64_t)start;
    found.free = free_own != 0;
    *contained = found;
}

int contain_record_read(struct contain *contain)
{
    int fd = open(contain->record, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    contain->recorded = true;
    FILE *file = fdopen(fd, "r"); /* json_loadfd() would read each byte alone */
    if (file == NULL) {
        close(fd);
        return -ENOMEM;
    }
    struct stat status;
    json_error_t error;
    json_t *record = NULL, *processes = NULL, *object;
    int version = 0, result = 0;
    /* A user who can write the file could make the agent move threads of others. */
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 022) != 0 || status.st_size > RECORD_BYTES_MAX)
        result = -EPERM;
    else if ((record = json_loadf(file, 0, &error)) == NULL ||
             json_unpack(record, "{s:i, s:o}", "v", &version, "processes", &processes) != 0 ||
             version != RECORD_VERSION || !json_is_array(processes))
        result = -EINVAL;
    size_t at;
    if (result == 0)
        json_array_foreach(processes, at, object)
            read_process(contain, object);
    json_decref(record);
    fclose(file);
    return result;
}
