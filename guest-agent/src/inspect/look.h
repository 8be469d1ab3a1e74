/* Looks at the code that a process has mapped. A look that runs has a thread of its own: a hostile process can make
 * reading its mappings block for ever, and so can a file system whose server hangs. The loop waits for neither. */
#ifndef VSCAF_LOOK_H
#define VSCAF_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mapped_file.h"

#define LOOK_OBJECTS_MAX 512u
#define LOOKS_MAX 16u /* at the same time; those that hang count too */

/* One executable mapping of a file. */
struct look_object {
    uint64_t start, end, offset;
    bool writable;
    bool in_memory;  /* of a memfd: its process can change it at any time */
    bool identified; /* `identity` is known */
    bool direct;     /* by PROC/PID/map_files */
    bool provider;   /* its name is one of providers.h, and root alone can write it */
    int file;        /* the file (O_PATH), for the first that is no provider, so that a short program can be read when
                      * it has ended; -1: not kept */
    struct file_identity identity;
};

/* The result. */
struct look {
    bool complete; /* it has all mappings */
    uint64_t arguments_hash; /* of the process's command line */
    uint32_t count;
    struct look_object objects[]; /* sorted by address */
};

struct look_job;

/* Starts a look. `event`: an eventfd that is raised when it has ended. NULL: no thread could be made, or LOOKS_MAX run. */
struct look_job *look_start(const char *proc, pid_t pid, int event);

/* Whether it has ended. Then *look is the result, for the caller to look_free(), or NULL; and the job is gone. */
bool look_ended(struct look_job *job, struct look **look);

void look_close_file(struct look_object *object);

/* `look` may be NULL. */
void look_free(struct look *look);

/* Nobody waits for it any more. It frees itself when it ends. */
void look_leave(struct look_job *job);

#endif
