#include "programs/socket_path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "system/log.h"
#include "vscaf/page.h"

/* Makes the directory, and checks that it is private: in /tmp, for example, any user may make directories. */
static bool make_private(const char *directory)
{
    struct stat status;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        log_error("%s: %s: set $XDG_RUNTIME_DIR, or give another place with --socket", directory,
                 strerror(errno));
        return false;
    }
    if (lstat(directory, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077) != 0) {
        log_error("%s: is no directory that only this user can access: remove it, or give another place with --socket",
                  directory);
        return false;
    }
    return true;
}

const char *socket_path_of_agent(const char *given, char own[VSCAF_SOCKET_PATH_BYTES])
{
    if (given != NULL)
        return given;
    const char *named = secure_getenv("VSCAF_SOCKET");
    if (named != NULL && named[0] != '\0')
        return named;
    return vscaf_socket_path_of_user(own) ? own : VSCAF_SOCKET_DEFAULT;
}

const char *socket_path_to_listen(const char *given, char own[VSCAF_SOCKET_PATH_BYTES])
{
    const char *path = socket_path_of_agent(given, own);
    if (path != own)
        return path;
    char directory[VSCAF_SOCKET_PATH_BYTES];
    strcpy(directory, own);
    *strrchr(directory, '/') = '\0';
    if (!make_private(directory))
        return NULL;
    if (access(VSCAF_SOCKET_DEFAULT, F_OK) == 0)
        log_line("an agent of the whole system has %s: programs join that one, unless VSCAF_SOCKET=%s is in their "
                 "environment",
                 VSCAF_SOCKET_DEFAULT, own);
    return own;
}
