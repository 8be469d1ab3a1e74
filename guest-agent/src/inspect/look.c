#include "inspect/look.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/providers.h"
#include "system/hash.h"

enum job_state { JOB_RUNS, JOB_ENDED, JOB_LEFT };

struct look_job {
    char proc[PATH_MAX];
    pid_t pid;
    int event; /* a copy: the loop may close its own while this hangs */
    struct look *look;
    _Atomic int state; /* enum job_state. Who changes it second frees the job */
};

static _Atomic uint32_t looks_running;

/* One thread that has ended a look waits for the next one: to make a thread takes 50 us of a program's start. More would
 * keep memory. The mutex protects both members. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool waits;            /* a thread does, and no job is here for it yet */
    struct look_job *next; /* for it; NULL: none */
} idle = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void look_close_file(struct look_object *object)
{
    if (object->file >= 0)
        close(object->file);
    object->file = -1;
}

void look_free(struct look *look)
{
    for (uint32_t i = 0; look != NULL && i < look->count; i++)
        look_close_file(&look->objects[i]);
    free(look);
}

static void identify(const struct look_job *job, const struct mapping *mapping, struct look_object *object,
                     bool *file_kept)
{
    int fd = mapped_file_open(job->proc, job->pid, mapping, O_PATH, &object->direct);
    if (fd < 0)
        return;
    object->identified = file_identity_of(fd, &object->identity) == 0;
    object->provider = object->identified && object->identity.root_only && provider_named(mapping->path);
    if (object->identified && !object->provider && !*file_kept) {
        *file_kept = true;
        object->file = fd;
    } else {
        close(fd);
    }
}

/* Whether a line of PROC/PID/maps is of memory that is not executable: most are. */
static bool is_data(const char *line)
{
    const char *rights = strchr(line, ' ');
    return rights != NULL && strnlen(rights, 4) == 4 && rights[3] == '-';
}

static uint64_t hash_arguments(const struct look_job *job)
{
    char path[PATH_MAX + 32], text[4096] = "";
    snprintf(path, sizeof(path), "%s/%d/cmdline", job->proc, (int)job->pid);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, sizeof(text), file) : 0;
    if (file != NULL)
        fclose(file);
    uint64_t hash = length;
    for (size_t i = 0; i < length; i++)
        hash = hash_mix(hash, (unsigned char)text[i]);
    return hash;
}

static struct look *read_mappings(const struct look_job *job)
{
    char path[PATH_MAX + 32], buffer[16384], *line = NULL;
    size_t size = 0;
    bool file_kept = false;
    struct mapping *mapping = malloc(sizeof(*mapping));
    struct look *look = malloc(sizeof(*look) + LOOK_OBJECTS_MAX * sizeof(struct look_object));
    snprintf(path, sizeof(path), "%s/%d/maps", job->proc, (int)job->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || look == NULL || mapping == NULL) {
        free(look);
        look = NULL;
    } else {
        *look = (struct look){.complete = true, .arguments_hash = hash_arguments(job)};
        setvbuf(file, buffer, _IOFBF, sizeof(buffer)); /* of 1 KiB else */
    }
    while (look != NULL && getline(&line, &size, file) > 0) {
        if (is_data(line))
            continue;
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
                                       .in_memory = strncmp(mapping->path, "/memfd:", 7) == 0,
                                       .file = -1};
        identify(job, mapping, object, &file_kept);
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
    look_free(job->look);
    free(job);
}

static void run(struct look_job *job)
{
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
}

/* A thread for looks. It ends if another one waits already. */
static void *serve(void *context)
{
    for (struct look_job *job = context; job != NULL;) {
        run(job);
        job = NULL;
        pthread_mutex_lock(&idle.mutex);
        if (!idle.waits && idle.next == NULL) {
            idle.waits = true;
            while (idle.next == NULL)
                pthread_cond_wait(&idle.changed, &idle.mutex);
            job = idle.next;
            idle.next = NULL;
        }
        pthread_mutex_unlock(&idle.mutex);
    }
    return NULL;
}

/* Gives the job to the thread that waits. False: none does. */
static bool give_to_idle(struct look_job *job)
{
    pthread_mutex_lock(&idle.mutex);
    bool given = idle.waits;
    if (given) {
        idle.waits = false;
        idle.next = job;
        pthread_cond_signal(&idle.changed);
    }
    pthread_mutex_unlock(&idle.mutex);
    return given;
}

static bool give_to_new_thread(struct look_job *job)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    bool made = pthread_create(&thread, &attributes, serve, job) == 0;
    pthread_attr_destroy(&attributes);
    return made;
}

struct look_job *look_start(const char *proc, pid_t pid, int event)
{
    if (pid <= 0 || atomic_load_explicit(&looks_running, memory_order_relaxed) >= LOOKS_MAX)
        return NULL;
    struct look_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    job->pid = pid;
    job->event = fcntl(event, F_DUPFD_CLOEXEC, 0);
    if (job->event >= 0 && snprintf(job->proc, sizeof(job->proc), "%s", proc) < (int)sizeof(job->proc)) {
        atomic_fetch_add_explicit(&looks_running, 1, memory_order_relaxed);
        if (give_to_idle(job) || give_to_new_thread(job))
            return job;
        atomic_fetch_sub_explicit(&looks_running, 1, memory_order_relaxed);
    }
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
    look_free(job->look);
    free(job);
}
