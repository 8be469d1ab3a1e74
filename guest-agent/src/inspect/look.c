#include "inspect/look.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/providers.h"

enum job_state { JOB_RUNS, JOB_ENDED, JOB_LEFT };

struct look_job {
    char proc[PATH_MAX];
    pid_t pid;
    int event; /* a copy: the loop may close its own while this hangs */
    struct look *look;
    _Atomic int state; /* enum job_state. Who changes it second frees the job */
};

static _Atomic uint32_t looks_running;

static void identify(const struct look_job *job, const struct mapping *mapping, struct look_object *object)
{
    int fd = mapped_file_open(job->proc, job->pid, mapping, O_PATH, &object->direct);
    if (fd < 0)
        return;
    object->identified = file_identity_of(fd, &object->identity) == 0;
    object->provider = object->identified && object->identity.root_only && provider_named(mapping->path);
    close(fd);
}

static struct look *read_mappings(const struct look_job *job)
{
    char path[PATH_MAX + 32], *line = NULL;
    size_t size = 0;
    struct mapping *mapping = malloc(sizeof(*mapping));
    struct look *look = malloc(sizeof(*look) + LOOK_OBJECTS_MAX * sizeof(struct look_object));
    snprintf(path, sizeof(path), "%s/%d/maps", job->proc, (int)job->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || look == NULL || mapping == NULL) {
        free(look);
        look = NULL;
    } else {
        *look = (struct look){.complete = true};
    }
    while (look != NULL && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (!mapping_parse(line, mapping)) {
            look->complete = false;
            continue;
        }
        if (!mapping->executable || mapping->inode == 0)
            continue;
        if (look->count == LOOK_OBJECTS_MAX) {
            look->complete = false;
            break;
        }
        struct look_object *object = &look->objects[look->count++];
        *object = (struct look_object){.start = mapping->start,
                                       .end = mapping->end,
                                       .offset = mapping->offset,
                                       .writable = mapping->writable,
                                       .in_memory = strncmp(mapping->path, "/memfd:", 7) == 0};
        identify(job, mapping, object);
    }
    free(line);
    free(mapping);
    if (file != NULL)
        fclose(file);
    struct look *smaller = look != NULL ? realloc(look, sizeof(*look) + look->count * sizeof(*look->objects)) : NULL;
    return smaller != NULL ? smaller : look;
}

static void free_job(struct look_job *job)
{
    close(job->event);
    free(job->look);
    free(job);
}

static void *run(void *context)
{
    struct look_job *job = context;
    uint64_t one = 1;
    int event = job->event;
    job->look = read_mappings(job);
    /* Release: who sees the end sees the result. Acquire: who frees the job sees that the other side is done. */
    int runs = JOB_RUNS;
    if (!atomic_compare_exchange_strong_explicit(&job->state, &runs, JOB_ENDED, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        free_job(job);
    } else {
        /* The job may be gone now. Its descriptor was taken over from it by this function. */
        ssize_t put = write(event, &one, sizeof(one));
        (void)put;
        close(event);
    }
    atomic_fetch_sub_explicit(&looks_running, 1, memory_order_relaxed); /* a count alone */
    return NULL;
}

struct look_job *look_start(const char *proc, pid_t pid, int event)
{
    if (pid <= 0 || atomic_load_explicit(&looks_running, memory_order_relaxed) >= LOOKS_MAX)
        return NULL;
    struct look_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    pthread_attr_t attributes;
    pthread_t thread;
    job->pid = pid;
    job->event = fcntl(event, F_DUPFD_CLOEXEC, 0);
    bool good = job->event >= 0 && snprintf(job->proc, sizeof(job->proc), "%s", proc) < (int)sizeof(job->proc) &&
                pthread_attr_init(&attributes) == 0;
    if (good) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, 128 * 1024);
        atomic_fetch_add_explicit(&looks_running, 1, memory_order_relaxed);
        good = pthread_create(&thread, &attributes, run, job) == 0;
        if (!good)
            atomic_fetch_sub_explicit(&looks_running, 1, memory_order_relaxed);
        pthread_attr_destroy(&attributes);
    }
    if (good)
        return job;
    if (job->event >= 0)
        close(job->event);
    free(job);
    return NULL;
}

bool look_ended(struct look_job *job, struct look **look)
{
    if (atomic_load_explicit(&job->state, memory_order_acquire) != JOB_ENDED)
        return false;
    *look = job->look;
    free(job);
    return true;
}

void look_leave(struct look_job *job)
{
    int runs = JOB_RUNS;
    if (atomic_compare_exchange_strong_explicit(&job->state, &runs, JOB_LEFT, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    free(job->look);
    free(job);
}
