/* The lines between host and agent (guest-agent/wire/README.md). Parses the host's lines, and writes the agent's lines
 * except reports (wire_report.h). No I/O. */
#ifndef VSCAF_WIRE_H
#define VSCAF_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpus/cpus.h"

#define WIRE_VERSION 1
#define WIRE_LINE_BYTES 65536u /* most bytes of a line, including its end */
#define WIRE_STRING_MAX 1024u  /* most characters of a string */
#define WIRE_VERSIONS_MAX 16u  /* most versions that a hello may list */
#define WIRE_PROCESSES_MAX 512u /* most processes of a report */
#define WIRE_CAPABILITIES_MAX 64u /* most capabilities that a hello may list */

/* What an agent or a host can do, for its hello: bits here, words on the wire. */
enum wire_capability {
    WIRE_CAN_OFFLINE = 1, /* "offline": CPUs can be put on- and offline */
    WIRE_CAN_PARK = 2,    /* "park": CPUs that are online can be kept free of work */
    WIRE_CAN_QUIET = 4,   /* "quiet": an idle agent sends no reports until something changes; the host expects none */
    WIRE_CAN_SPARSE = 8,  /* "sparse": a report that repeats the last one comes once a second; the host expects that */
};

enum wire_type {
    WIRE_BAD,           /* not a message: count it and ignore it */
    WIRE_OTHER_VERSION, /* a message of another version: answer with an error and drop it */
    WIRE_HELLO,
    WIRE_ALLOCATE,
    WIRE_ERROR,
};

struct wire_allocate {
    int64_t sequence;
    uint32_t cpus;  /* 0: rest; never above CPUS_MAX */
    uint32_t limit; /* 1 to CPUS_MAX */
    uint32_t deadline_ms;
    bool competition;
};

/* A parsed line from the host. */
struct wire_message {
    enum wire_type type;
    struct wire_allocate allocate; /* WIRE_ALLOCATE */
    unsigned capabilities;         /* WIRE_HELLO: what the host can do, as enum wire_capability */
    int64_t version;               /* WIRE_OTHER_VERSION: its version */
    bool answerable;               /* WIRE_OTHER_VERSION: not an error; an error must not be answered with an error */
    char text[200];                /* WIRE_BAD: why, WIRE_HELLO: the daemon, WIRE_ERROR: its message. Printable */
};

/* Parses one line without its end. Clamps numbers that are too large, and refuses negative ones. */
void wire_parse(const char *line, size_t length, struct wire_message *message);

/* Whether a line that is no message ends in a hello; parses it. If a host dies within a line and comes back at once, the
 * port does not notice. Its hello is then joined to the rest of the old line. The hello must not be lost. */
bool wire_ends_in_hello(const char *line, size_t length, struct wire_message *hello);

/* Each returns a line with its end, at most WIRE_LINE_BYTES, for the caller to free(). NULL: no memory. */
char *wire_write_hello(const char *agent, const char *boot_id, const struct cpus *cpus, unsigned capabilities);
char *wire_write_ack(int64_t sequence, const struct cpu_set *online, bool sections_ended);
char *wire_write_error(const char *text);

#endif
