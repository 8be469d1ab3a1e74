#include "programs/account.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 33 /* the kernel's limit for nested user namespaces */

static bool inode_of(int fd, ino_t *inode)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return false;
    *inode = status.st_ino;
    return true;
}

/* Returns the outermost namespace below this process's own that contains (or is) the namespace `fd`. Closes `fd`,
 * unless it returns it. -1: `fd` is this process's own namespace, or is not below it. */
static int outermost_below(int fd)
{
    ino_t own, at;
    int self = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    bool known = self >= 0 && inode_of(self, &own) && inode_of(fd, &at) && at != own;
    if (self >= 0)
        close(self);
    for (int depth = 0; known && depth < DEPTH_MAX; depth++) {
        int parent = ioctl(fd, NS_GET_PARENT);
        if (parent < 0 || !inode_of(parent, &at)) {
            if (parent >= 0)
                close(parent);
            break;
        }
        if (at == own) {
            close(parent);
            return fd;
        }
        close(fd);
        fd = parent;
    }
    close(fd);
    return -1;
}

account_t account_of(const char *proc, pid_t pid, uid_t user)
{
    char path[PATH_MAX];
    if (pid <= 0 || snprintf(path, sizeof(path), "%s/%d/ns/user", proc, (int)pid) >= (int)sizeof(path))
        return user;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        fd = outermost_below(fd);
    if (fd < 0)
        return user;
    uid_t owner = 0;
    ino_t inode = 0;
    account_t account = user;
    if (ioctl(fd, NS_GET_OWNER_UID, &owner) == 0 && owner != 0)
        account = owner;
    else if (inode_of(fd, &inode))
        account = ACCOUNT_NAMESPACE | inode;
    close(fd);
    return account;
}

void account_name(account_t account, char *text, size_t size)
{
    if (account & ACCOUNT_NAMESPACE)
        snprintf(text, size, "user namespace %" PRIu64, account & ~ACCOUNT_NAMESPACE);
    else
        snprintf(text, size, "user %" PRIu64, account);
}
