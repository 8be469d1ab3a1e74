/* Runs vscaf-inspect's helper, one at a time. Bounds its time. A helper that cannot be ended, because the kernel waits
 * for a file system's server, is left alone. */
#ifndef VSCAF_INSPECTION_H
#define VSCAF_INSPECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "helper.h"

#define INSPECTION_OPEN_NS UINT64_C(10000000000) /* a helper has this time to open the file and to copy it */
#define INSPECTION_NS UINT64_C(135000000000)     /* and this in total: HELPER_WAIT_S of it to read the copy */
#define INSPECTION_LEFT_MAX 8u /* helpers that do not end, */
#define INSPECTION_LEFT_ACCOUNT_MAX 2u /* of one account */
#define INSPECTION_ALSO_MAX 64u

struct inspection_request {
    pid_t pid;
    uint64_t account;
    uint64_t device;     /* of the file's file system; 0: not known */
    uint64_t start, end; /* of the mapping */
    int file;            /* the file (O_PATH), while the request is started; -1: the helper finds it by the mapping */
    bool direct;         /* look.h */
    uint64_t also[INSPECTION_ALSO_MAX];
    size_t also_count;
};

struct inspections {
    const char *proc;
    char program[4096]; /* vscaf-inspect; "": there is none */
    char cache[4096];   /* "": none */
    char group[4096];   /* the helper's control group; "": none */
    uint64_t cpu_us;    /* that the group had used at the last inspections_cpu_s() */
    bool cpu_due;       /* a helper has run since */

    bool running;
    struct inspection_request request;
    int output, process; /* a pipe and a pidfd; -1: none */
    uint64_t deadline_ns, read_ns;
    char *bytes; /* that have come */
    size_t used, size;

    struct {
        int process;
        uint64_t account, device;
    } left[INSPECTION_LEFT_MAX];
    uint32_t left_count;
};

/* Fills the struct. Finds vscaf-inspect beside this program. */
void inspections_open(struct inspections *inspections, const char *proc);
void inspections_close(struct inspections *inspections);

/* Whether one can be started for a file of that account's process. If a file system hangs, one helper of each account
 * may hang with it, and no other file system is held up by that. An account whose helpers hang at
 * INSPECTION_LEFT_ACCOUNT_MAX file systems gets no more. */
bool inspections_free(struct inspections *inspections, uint64_t account, uint64_t device);

/* Starts one. Returns 0 or -errno. */
int inspections_start(struct inspections *inspections, const struct inspection_request *request, uint64_t now_ns);

/* Reads what the helper has written. True: it has ended, and *answer is set, *record too if its status is 0 (for the
 * caller to free()). A helper that takes too long, or that says anything unexpected, gives the status -ETIMEDOUT or
 * -EBADMSG. */
bool inspections_take(struct inspections *inspections, uint64_t now_ns, struct helper_answer *answer,
                      struct record **record);

/* CPU seconds that helpers have used since the last call; 0 if they have no control group. */
double inspections_cpu_s(struct inspections *inspections);

/* Ends the running one: nobody needs it. */
void inspections_drop(struct inspections *inspections);

#endif
