/* Reads lines, and prints for each how the agent parses it: "bad", "version N", "hello" and the words of the
 * capabilities that it knows, "error", or "allocate SEQUENCE CPUS LIMIT COMPETITION DEADLINE". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/wire.h"

static void say(const struct wire_message *message)
{
    const struct wire_allocate *order = &message->allocate;
    switch (message->type) {
    case WIRE_BAD: puts("bad"); break;
    case WIRE_OTHER_VERSION: printf("version %" PRId64 "\n", message->version); break;
    case WIRE_HELLO:
        printf("hello%s%s%s%s\n", message->capabilities & WIRE_CAN_OFFLINE ? " offline" : "",
               message->capabilities & WIRE_CAN_PARK ? " park" : "",
               message->capabilities & WIRE_CAN_QUIET ? " quiet" : "",
               message->capabilities & WIRE_CAN_SPARSE ? " sparse" : "");
        break;
    case WIRE_ERROR: puts("error"); break;
    case WIRE_ALLOCATE:
        printf("allocate %" PRId64 " %" PRIu32 " %" PRIu32 " %d %" PRIu32 "\n", order->sequence, order->cpus,
               order->limit, order->competition, order->deadline_ms);
        break;
    }
    fflush(stdout);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) > 0) {
        struct wire_message message;
        if (line[length - 1] == '\n')
            length--;
        wire_parse(line, (size_t)length, &message);
        say(&message);
    }
    free(line);
    return 0;
}
