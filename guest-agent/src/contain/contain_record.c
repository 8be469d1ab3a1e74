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

#define RECORD_VERSION 1
#define RECORD_BYTES_MAX (16u << 20)

/* [4294967295,"LIST"], for each thread; two paths, in which each byte may need a backslash; and the other members. */
static_assert(sizeof("[4294967295,\"\"],") - 1 <= THREAD_MASKS_BYTES_EACH &&
                  PLACEMENT_MAX * (THREAD_MASKS_BYTES_MAX + CPU_SET_TEXT + 2 * 2 * PATH_MAX + 256) <= RECORD_BYTES_MAX,
              "a full record can be read");

static json_t *describe(const struct contained *contained)
{
    const struct thread_masks *masks = &contained->masks;
    json_t *object = json_pack("{s:i, s:I, s:s, s:b}", "pid", (int)contained->pid, "start",
                               (json_int_t)contained->start_ticks, "common",
                               masks->common != NULL ? masks->common : "", "free", (int)masks->common_free);
    json_t *threads = json_array();
    for (uint32_t i = 0; i < masks->others_count; i++)
        json_array_append_new(threads, json_pack("[i, s]", (int)masks->others[i].tid, masks->others[i].list));
    json_object_set_new(object, "threads", threads);
    if (contained->group.path != NULL) {
        json_object_set_new(object, "group", json_string(contained->group.path));
        json_object_set_new(object, "home", json_string(contained->group.origin));
        json_object_set_new(object, "enabled", json_boolean(contained->group.enabled_in_origin));
    }
    return object;
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
    if (status == 0)
        status = write_part(file, ",\"root\":", json_string(contain->cpuset ? contain->tree.root : ""));
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

static bool mask_list(const char *list)
{
    struct cpu_set set;
    return list != NULL && cpu_set_parse(list, &set) && cpu_set_count(&set) > 0;
}

/* Takes one process of the record. Ignores one that is invalid. */
static void read_process(struct contain *contain, json_t *object, bool same_tree)
{
    int pid = 0, free_common = 0, enabled = 0;
    json_int_t start = 0;
    const char *common = NULL, *path = NULL, *origin = NULL;
    json_t *threads = NULL;
    if (json_unpack(object, "{s:i, s:I, s:s, s:b, s:o, s?s, s?s, s?b}", "pid", &pid, "start", &start, "common", &common,
                    "free", &free_common, "threads", &threads, "group", &path, "home", &origin, "enabled",
                    &enabled) != 0 ||
        pid <= 0 || start < 0 || !mask_list(common) || !json_is_array(threads) ||
        (path != NULL && (origin == NULL || !same_tree || !contain_group_is_own_path(path))))
        return;
    struct contained *contained = contained_add(contain, (pid_t)pid);
    if (contained == NULL)
        return;
    contained->start_ticks = (uint64_t)start;
    contained->masks.common = strdup(common);
    contained->masks.common_free = free_common != 0;
    size_t at;
    json_t *thread;
    json_array_foreach(threads, at, thread)
    {
        int tid;
        const char *list;
        if (json_unpack(thread, "[i, s]", &tid, &list) == 0 && tid > 0 && mask_list(list))
            thread_masks_add(&contained->masks, (pid_t)tid, list);
    }
    if (path == NULL)
        return;
    contained->group =
        (struct contain_group){.origin = strdup(origin), .path = strdup(path), .enabled_in_origin = enabled != 0};
    if (contained->group.origin == NULL || contained->group.path == NULL)
        contain_group_free(&contained->group);
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
    const char *root = NULL;
    /* A user who can write the file could make the agent move threads of others. */
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 022) != 0 || status.st_size > RECORD_BYTES_MAX)
        result = -EPERM;
    else if ((record = json_loadf(file, 0, &error)) == NULL ||
             json_unpack(record, "{s:i, s:s, s:o}", "v", &version, "root", &root, "processes", &processes) != 0 ||
             version != RECORD_VERSION || !json_is_array(processes))
        result = -EINVAL;
    size_t at;
    if (result == 0)
        json_array_foreach(processes, at, object)
            read_process(contain, object, contain->cpuset && strcmp(root, contain->tree.root) == 0);
    json_decref(record);
    fclose(file);
    return result;
}
