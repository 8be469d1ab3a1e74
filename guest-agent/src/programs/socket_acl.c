#include "programs/socket_acl.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

#define LIST "system.posix_acl_access"
#define OPEN (ACL_READ | ACL_WRITE)

static struct posix_acl_xattr_entry entry(uint16_t tag, uint16_t may, uint32_t id)
{
    return (struct posix_acl_xattr_entry){tag, may, id};
}

/* The attribute is little-endian, as are x86-64 and aarch64. */
static bool write_list(const struct socket_acl *acl, const char *path)
{
    if (acl->count == 0)
        return removexattr(path, LIST) == 0;
    struct {
        struct posix_acl_xattr_header header;
        struct posix_acl_xattr_entry entries[SOCKET_ACL_MAX + 4];
    } list = {.header = {POSIX_ACL_XATTR_VERSION}};
    size_t count = 0;
    list.entries[count++] = entry(ACL_USER_OBJ, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    for (size_t i = 0; i < acl->count; i++)
        list.entries[count++] = entry(ACL_USER, 0, acl->users[i].user);
    list.entries[count++] = entry(ACL_GROUP_OBJ, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    list.entries[count++] = entry(ACL_MASK, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    list.entries[count++] = entry(ACL_OTHER, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    return setxattr(path, LIST, &list, sizeof(list.header) + count * sizeof(*list.entries), 0) == 0;
}

bool socket_acl_deny(struct socket_acl *acl, const char *socket_path, uid_t user, uint64_t until_ns)
{
    size_t at = 0;
    while (at < acl->count && acl->users[at].user != user)
        at++;
    if (at == SOCKET_ACL_MAX)
        return false;
    acl->users[at].until_ns = until_ns;
    if (at < acl->count)
        return true; /* the new connection was already waiting when the list was written */
    acl->users[at].user = user;
    acl->count++;
    if (write_list(acl, socket_path))
        return true;
    acl->count--;
    return false;
}

uint64_t socket_acl_expire(struct socket_acl *acl, const char *socket_path, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    size_t kept = 0, before = acl->count;
    for (size_t i = 0; i < before; i++) {
        if (acl->users[i].until_ns <= now_ns)
            continue;
        if (acl->users[i].until_ns < next_ns)
            next_ns = acl->users[i].until_ns;
        acl->users[kept++] = acl->users[i];
    }
    acl->count = kept;
    if (kept < before)
        write_list(acl, socket_path);
    return next_ns;
}
