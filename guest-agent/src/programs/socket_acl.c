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

/* x86-64 is little-endian, as the attribute is. */
static bool write_list(const struct barred *barred, const char *path)
{
    if (barred->count == 0)
        return removexattr(path, LIST) == 0;
    struct {
        struct posix_acl_xattr_header header;
        struct posix_acl_xattr_entry entries[BARRED_MOST + 4];
    } list = {.header = {POSIX_ACL_XATTR_VERSION}};
    size_t count = 0;
    list.entries[count++] = entry(ACL_USER_OBJ, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    for (size_t i = 0; i < barred->count; i++)
        list.entries[count++] = entry(ACL_USER, 0, barred->users[i].user);
    list.entries[count++] = entry(ACL_GROUP_OBJ, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    list.entries[count++] = entry(ACL_MASK, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    list.entries[count++] = entry(ACL_OTHER, OPEN, (uint32_t)ACL_UNDEFINED_ID);
    return setxattr(path, LIST, &list, sizeof(list.header) + count * sizeof(*list.entries), 0) == 0;
}

bool barred_add(struct barred *barred, const char *socket_path, uid_t user, uint64_t until_ns)
{
    size_t at = 0;
    while (at < barred->count && barred->users[at].user != user)
        at++;
    if (at == BARRED_MOST)
        return false;
    barred->users[at].until_ns = until_ns;
    if (at < barred->count)
        return true; /* what comes now was waiting before */
    barred->users[at].user = user;
    barred->count++;
    if (write_list(barred, socket_path))
        return true;
    barred->count--;
    return false;
}

uint64_t barred_lift(struct barred *barred, const char *socket_path, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    size_t kept = 0, before = barred->count;
    for (size_t i = 0; i < before; i++) {
        if (barred->users[i].until_ns <= now_ns)
            continue;
        if (barred->users[i].until_ns < next_ns)
            next_ns = barred->users[i].until_ns;
        barred->users[kept++] = barred->users[i];
    }
    barred->count = kept;
    if (kept < before)
        write_list(barred, socket_path);
    return next_ns;
}
