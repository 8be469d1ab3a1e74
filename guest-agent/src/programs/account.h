/* The account of a process. Limits count by account, not by user id: a user with subordinate ids has thousands of user
 * ids. Rules: docs/guest-security.md. */
#ifndef VSCAF_ACCOUNT_H
#define VSCAF_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A user id or, with ACCOUNT_NAMESPACE set, the inode number of a user namespace. */
typedef uint64_t account_t;
#define ACCOUNT_NAMESPACE (UINT64_C(1) << 63)

/* The account of a process with that user id:
 * - in this user namespace: the user;
 * - in a namespace below this one: the user who made the outermost namespace between here and there (for a rootless
 *   container, its user). If that is root, who makes containers for others: the namespace itself;
 * - if the namespace is not known (the process is gone, has no number here, or /proc hides it): the user id as it is
 *   seen here. Ids without a mapping are all seen as one, the overflow id 65534. */
account_t account_of(const char *proc, pid_t pid, uid_t user);

/* Writes it for messages: "user 1000", "user namespace 4026532448". */
void account_name(account_t account, char *text, size_t size);

#endif
