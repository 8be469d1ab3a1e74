/* Users who may not connect to the join socket for a while. An access control list on the socket makes the kernel
 * refuse them. If the agent refused them itself, it would pay for the flood. */
#ifndef VSCAF_SOCKET_ACL_H
#define VSCAF_SOCKET_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOCKET_ACL_MOST 16u

struct socket_acl {
    struct {
        uid_t user;
        uint64_t until_ns;
    } users[SOCKET_ACL_MOST];
    size_t count;
};

/* False where it cannot be done: its file system has no access control lists, or too many are barred. */
bool socket_acl_bar(struct socket_acl *acl, const char *socket_path, uid_t user, uint64_t until_ns);

/* Lets those in again whose time is over. Returns when the next one's is, or UINT64_MAX. */
uint64_t socket_acl_lift(struct socket_acl *acl, const char *socket_path, uint64_t now_ns);

#endif
