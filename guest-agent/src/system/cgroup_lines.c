#include "system/cgroup_lines.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool cgroup_has_word(const char *list, const char *separators, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = list + strspn(list, separators); *at != '\0'; at += strspn(at, separators)) {
        size_t length = strcspn(at, separators);
        if (length == wanted && strncmp(at, word, length) == 0)
            return true;
        at += length;
    }
    return false;
}

/* mountinfo writes a blank or a backslash as a backslash and three octal digits. Undoes that. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

int cgroup_lines_open(struct cgroup_lines *lines, const char *proc, pid_t pid, const char *name)
{
    char path[PATH_MAX], number[16] = "self";
    *lines = (struct cgroup_lines){.file = NULL};
    if (pid > 0)
        snprintf(number, sizeof(number), "%d", (int)pid);
    if (snprintf(path, sizeof(path), "%s/%s/%s", proc, number, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    lines->file = fopen(path, "re");
    return lines->file != NULL ? 0 : -errno;
}

void cgroup_lines_close(struct cgroup_lines *lines)
{
    free(lines->line);
    if (lines->file != NULL)
        fclose(lines->file);
}

static bool next_line(struct cgroup_lines *lines)
{
    return lines->file != NULL && getline(&lines->line, &lines->size, lines->file) > 0;
}

/* "36 35 98:0 /root /mount/point rw,noatime optional... - type source super,options" */
static bool read_mount(char *line, struct cgroup_mount *mount)
{
    char *after = strstr(line, " - "), *rest = NULL;
    if (after == NULL)
        return false;
    *after = '\0';
    const char *type = strtok_r(after + 3, " \n", &rest), *source = strtok_r(NULL, " \n", &rest);
    mount->controllers = strtok_r(NULL, " \n", &rest);
    char *fields[5] = {strtok_r(line, " ", &rest)};
    for (int i = 1; i < 5 && fields[i - 1] != NULL; i++)
        fields[i] = strtok_r(NULL, " ", &rest);
    if (type == NULL || source == NULL || mount->controllers == NULL || fields[4] == NULL)
        return false;
    unescape(fields[3]);
    unescape(fields[4]);
    mount->root = fields[3];
    mount->point = fields[4];
    mount->version_2 = strcmp(type, "cgroup2") == 0;
    return mount->version_2 || strcmp(type, "cgroup") == 0;
}

bool cgroup_lines_mount(struct cgroup_lines *lines, struct cgroup_mount *mount)
{
    while (next_line(lines))
        if (read_mount(lines->line, mount))
            return true;
    return false;
}

/* "0::/path" for version 2, "4:cpu,cpuset:/path" for version 1; a path may have colons. */
bool cgroup_lines_membership(struct cgroup_lines *lines, struct cgroup_membership *membership)
{
    while (next_line(lines)) {
        char *controllers = strchr(lines->line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        *membership = (struct cgroup_membership){
            .version_2 = controllers[1] == '\0', .controllers = controllers + 1, .path = path};
        return true;
    }
    return false;
}
