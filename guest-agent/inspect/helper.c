#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"
#include "sandbox.h"

static bool write_all(int fd, const void *bytes, size_t size)
{
    for (const char *at = bytes; size > 0;) {
        ssize_t put = write(fd, at, size);
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

/* The child that reads. It has no rights when it looks at the first byte. */
static _Noreturn void read_object(const struct sealed_copy *copy, const uint64_t *also, size_t also_count, int out)
{
    struct inspect_result result;
    if (sandbox_enter() != 0 || inspect_object(copy->bytes, copy->size, also, also_count, &result) != 0)
        _exit(1);
    struct record *record = record_make(&result, copy->sha256, also, also_count);
    _exit(record != NULL && write_all(out, record, record_bytes(record)) ? 0 : 1);
}

static int64_t monotonic_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Reads up to `size` bytes until the end, for at most HELPER_WAIT_S. Returns how many, or -errno. */
static ssize_t read_until_end(int fd, char *bytes, size_t size)
{
    int64_t end_ms = monotonic_ms() + HELPER_WAIT_S * 1000;
    for (size_t used = 0;;) {
        struct pollfd input = {.fd = fd, .events = POLLIN};
        int64_t left_ms = end_ms - monotonic_ms();
        if (left_ms <= 0 || used == size)
            return used == size ? -EFBIG : -ETIMEDOUT;
        if (poll(&input, 1, (int)left_ms) <= 0)
            continue;
        ssize_t got = read(fd, bytes + used, size - used);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            return (ssize_t)used;
        used += got > 0 ? (size_t)got : 0;
    }
}

static int read_apart(const struct sealed_copy *copy, const uint64_t *also, size_t also_count, struct record **record)
{
    int pipe_fds[2], status;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return -errno;
    pid_t child = fork();
    if (child < 0) {
        status = -errno;
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        return status;
    }
    if (child == 0)
        read_object(copy, also, also_count, pipe_fds[1]);
    close(pipe_fds[1]);
    size_t most = RECORD_BYTES_MAX + 1;
    struct record *found = malloc(most);
    ssize_t got = found != NULL ? read_until_end(pipe_fds[0], (char *)found, most) : -ENOMEM;
    close(pipe_fds[0]);
    kill(child, SIGKILL); /* it has written all, or has had its time */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (got < 0 || !record_is_good(found, (size_t)got) ||
        memcmp(found->sha256, copy->sha256, RECORD_SHA256_BYTES) != 0) {
        free(found);
        return got < 0 ? (int)got : -EBADMSG;
    }
    struct record *smaller = realloc(found, (size_t)got);
    *record = smaller != NULL ? smaller : found;
    return 0;
}

static bool has_all(const struct record *record, const uint64_t *also, size_t also_count)
{
    for (size_t i = 0; i < also_count; i++)
        if (record_find(record, also[i]) == NULL)
            return false;
    return true;
}

int helper_record(const struct sealed_copy *copy, int cache, const uint64_t *also, size_t also_count, bool yields,
                  struct record **record)
{
    uint64_t *all = calloc(RECORD_ALSO_MAX + also_count, sizeof(*all));
    size_t count = 0;
    if (all == NULL)
        return -ENOMEM;
    *record = cache >= 0 ? cache_load(cache, copy->sha256) : NULL;
    if (*record != NULL && has_all(*record, also, also_count)) {
        free(all);
        return 0;
    }
    /* What others asked for stays in the record, up to a bound. Above it, the record is for this time only. */
    for (uint32_t i = 0; *record != NULL && i < (*record)->count && count < RECORD_ALSO_MAX; i++)
        if ((*record)->sections[i].asked)
            all[count++] = (*record)->sections[i].file_offset;
    for (size_t i = 0; i < also_count; i++)
        all[count++] = also[i];
    free(*record);
    *record = NULL;
    if (yields)
        sandbox_yield_cpu();
    int status = read_apart(copy, all, count, record);
    free(all);
    if (status == 0 && cache >= 0 && count <= RECORD_ALSO_MAX)
        cache_store(cache, *record); /* if it fails, it is read again another time */
    return status;
}

/* Finds the mapping that starts there. */
static int find_mapping(const char *proc, const char *pid, uint64_t start, uint64_t end, struct mapping *mapping)
{
    char path[PATH_MAX], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/%s/maps", proc, pid);
    FILE *file = fopen(path, "re");
    int status = file != NULL ? -ESTALE : -errno;
    while (status == -ESTALE && getline(&line, &size, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (mapping_parse(line, mapping) && mapping->start == start && mapping->end == end)
            status = 0;
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return status;
}

/* Opens the file for reading. Returns the descriptor or -errno. */
static int open_file(char *argv[], bool *direct)
{
    struct mapping mapping;
    char path[32];
    if (strcmp(argv[4], HELPER_BY_MAPPING) == 0) {
        int status = find_mapping(argv[0], argv[1], strtoull(argv[2], NULL, 16), strtoull(argv[3], NULL, 16), &mapping);
        return status == 0 ? mapped_file_open(argv[0], (pid_t)atoi(argv[1]), &mapping, O_RDONLY, direct) : status;
    }
    *direct = strcmp(argv[4], HELPER_GIVEN_DIRECT) == 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", HELPER_FILE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

static int answer_for(char *argv[], const uint64_t *also, size_t also_count, struct helper_answer *answer,
                      struct record **record, bool *copied)
{
    struct sealed_copy copy;
    struct file_identity after;
    bool direct = false;
    int fd = open_file(argv, &direct);
    if (fd < 0)
        return fd;
    answer->direct = direct;
    int status = file_identity_of(fd, &answer->identity);
    /* Beside two busy threads on one CPU, the lowest priority would take seconds to find a record in the cache. */
    if (answer->identity.size > HELPER_QUICK_BYTES)
        sandbox_yield_cpu();
    if (status == 0)
        status = sealed_copy_of(fd, &copy);
    if (status == 0 &&
        (file_identity_of(fd, &after) != 0 || !file_identity_equal(&answer->identity, &after))) {
        sealed_copy_free(&copy);
        status = -EAGAIN;
    }
    close(fd);
    if (status != 0)
        return status;
    /* Now only the copy is needed, so no file system's server can hold this up. The agent waits longer from here on. */
    if (!write_all(STDOUT_FILENO, &answer->magic, sizeof(answer->magic)))
        _exit(1);
    *copied = true;
    int cache = argv[5][0] != '\0' ? cache_open(argv[5]) : -1;
    status = helper_record(&copy, cache, also, also_count, true, record);
    sealed_copy_free(&copy);
    return status;
}

int helper_run(int argc, char *argv[])
{
    if (argc < 6)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    size_t also_count = (size_t)argc - 6;
    uint64_t *also = calloc(also_count + 1, sizeof(*also));
    if (also == NULL)
        return 1;
    for (size_t i = 0; i < also_count; i++)
        also[i] = strtoull(argv[6 + i], NULL, 16);
    struct record *record = NULL;
    struct helper_answer answer = {.magic = HELPER_MAGIC};
    bool copied = false;
    answer.status = answer_for(argv, also, also_count, &answer, &record, &copied);
    answer.record_bytes = answer.status == 0 ? record_bytes(record) : 0;
    bool told = (copied || write_all(STDOUT_FILENO, &answer.magic, sizeof(answer.magic))) &&
                write_all(STDOUT_FILENO, &answer.status, sizeof(answer) - offsetof(struct helper_answer, status)) &&
                (record == NULL || write_all(STDOUT_FILENO, record, record_bytes(record)));
    free(record);
    free(also);
    return told ? 0 : 1;
}
