/* The agent's answer to `vscaf-agent --status`.
 *
 * The asker connects to the join socket (SOCK_SEQPACKET) and sends one struct status_request instead of a join. It gets
 * packets of JSON text, at most STATUS_PACKET_BYTES each and each an object with "v" and "type": either one of type
 * "error" with a "message", or some of type "status", of which the first says what is true of all processes, each has
 * some "processes", and the last alone has "more": false. Then the agent closes. README.md lists the fields.
 *
 * Root and the agent's own user see every process, others their own. */
#ifndef VSCAF_STATUS_H
#define VSCAF_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "system/token_bucket.h"

#define STATUS_PACKET_BYTES 65536u
#define STATUS_PACKET_PROCESSES 40u /* the longest description of one has 1,500 bytes */
#define STATUS_USERS 32u            /* who have asked of late */
#define STATUS_TOKENS 8.0           /* a user may ask so often at once, */
#define STATUS_TOKENS_PER_S 4.0     /* and so often for long */
#define STATUS_TRUSTED_TIMES 10.0   /* who may see everything: so many times as often */

/* Who asked how often. Begin with all bytes zero. */
struct status {
    struct status_user {
        uid_t user;
        struct token_bucket requests; /* then_ns 0: the place is free */
    } users[STATUS_USERS];
};

/* Answers (client->asked) and drops the connection. Never blocks: what the socket does not take is not sent. */
void status_answer(struct status *status, struct agent *agent, struct client *client, uint64_t now_ns);

#endif
