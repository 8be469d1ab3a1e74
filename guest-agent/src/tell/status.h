/* The agent's answer to `vscaf-agent --status`.
 *
 * The asker connects to the join socket (SOCK_SEQPACKET) and sends one struct status_request instead of a join. The
 * answer is packets of JSON text, at most STATUS_PACKET_BYTES each. Each is an object with "v" and "type". Either there
 * is one packet of type "error" with a "message", or some of type "status". The first of these has the fields about all
 * processes. Each has some "processes", and only the last has "more": false. Then the agent closes the connection.
 * guest-agent/README.md lists the fields.
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
#define STATUS_PACKET_PROCESSES 32u /* the longest description of one has 1,900 bytes */
#define STATUS_USERS 32u            /* users whose requests are counted at the same time */
#define STATUS_TOKENS 8.0           /* requests of one user at once */
#define STATUS_TOKENS_PER_S 4.0     /* requests of one user a second, over time */
#define STATUS_TRUSTED_TIMES 10.0   /* root and the agent's own user may ask this many times as often */

/* The requests of each user. The caller fills the struct with zero bytes first. */
struct status {
    struct status_user {
        uid_t user;
        struct token_bucket requests; /* updated_ns 0: a free place */
    } users[STATUS_USERS];
};

/* Answers the request (client->status_version) and drops the connection. Never blocks: a packet that the socket does
 * not take is not sent. */
void status_answer(struct status *status, struct agent *agent, struct client *client, uint64_t now_ns);

#endif
