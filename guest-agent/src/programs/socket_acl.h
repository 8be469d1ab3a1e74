/* Keeps users out of the join socket for a while. An access control list on the socket makes the kernel refuse them. If
 * the agent refused them itself, the flood would cost its CPU time. */
#ifndef VSCAF_SOCKET_ACL_H
#define VSCAF_SOCKET_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOCKET_ACL_MAX 16u

struct socket_acl {
    struct {
        uid_t user;
        uint64_t until_ns;
    } users[SOCKET_ACL_MAX];
    size_t count;
};

/* Keeps a user out until that time. False if it cannot: the file system has no access control lists, or too many users
 * are kept out. */
bool socket_acl_deny(struct socket_acl *acl, const char *socket_path, uid_t user, uint64_t until_ns);

/* Lets users in again whose time is over. Returns when the next one's time is over, or UINT64_MAX. */
uint64_t socket_acl_expire(struct socket_acl *acl, const char *socket_path, uint64_t now_ns);

#endif
