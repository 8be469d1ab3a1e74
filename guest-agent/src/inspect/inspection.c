#include "inspect/inspection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system/files.h"

#define OUTPUT_MAX (sizeof(struct helper_answer) + RECORD_BYTES_MAX)

/* A control group below the agent's own, if there is version 2 and the agent may make groups. The helper's work is
 * counted apart, and yields to the agent's own where the cpu controller is on. */
static void make_group(struct inspections *inspections)
{
    char text[4096], path[5000];
    if (snprintf(path, sizeof(path), "%s/self/cgroup", inspections->proc) >= (int)sizeof(path) ||
        file_read(path, text, sizeof(text)) != 0)
        return;
    char *own = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (own == NULL)
        return;
    own = strstr(own, "::") + 2;
    own[strcspn(own, "\n")] = '\0';
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < 2 && strcmp(own, "/") != 0; i++) {
        if (snprintf(path, sizeof(path), "%s%s/cgroup.procs", roots[i], own) >= (int)sizeof(path) ||
            access(path, W_OK) != 0)
            continue;
        int length = snprintf(inspections->group, sizeof(inspections->group), "%s%s/inspect", roots[i], own);
        if (length >= (int)sizeof(inspections->group) ||
            (mkdir(inspections->group, 0755) != 0 && errno != EEXIST)) {
            inspections->group[0] = '\0';
            continue;
        }
        snprintf(path, sizeof(path), "%s/cpu.idle", inspections->group);
        file_write(path, "1"); /* there is no such file without the cpu controller */
        return;
    }
}

static void find_cache(struct inspections *inspections)
{
    const char *given = getenv("CACHE_DIRECTORY"), *home = getenv("HOME"), *own = getenv("XDG_CACHE_HOME");
    size_t size = sizeof(inspections->cache);
    int length;
    if (given != NULL && given[0] == '/') /* systemd's CacheDirectory= */
        length = snprintf(inspections->cache, size, "%s", given);
    else if (geteuid() == 0)
        length = snprintf(inspections->cache, size, "/var/cache/vscaf");
    else if (own != NULL && own[0] == '/')
        length = snprintf(inspections->cache, size, "%s/vscaf", own);
    else
        length = home != NULL && home[0] == '/' ? snprintf(inspections->cache, size, "%s/.cache/vscaf", home) : 0;
    if (length <= 0 || length >= (int)size)
        inspections->cache[0] = '\0';
}

void inspections_open(struct inspections *inspections, const char *proc)
{
    *inspections = (struct inspections){.proc = proc, .output = -1, .process = -1};
    char *program = inspections->program;
    ssize_t length = readlink("/proc/self/exe", program, sizeof(inspections->program) - sizeof("vscaf-inspect"));
    char *name = NULL;
    if (length > 0) {
        program[length] = '\0';
        name = strrchr(program, '/');
    }
    if (name != NULL)
        strcpy(name + 1, "vscaf-inspect");
    if (name == NULL || access(program, X_OK) != 0)
        program[0] = '\0';
    find_cache(inspections);
    make_group(inspections);
    inspections->cpu_due = true; /* of a group that an earlier agent made */
    inspections_cpu_s(inspections);
}

static bool has_ended(int process)
{
    struct pollfd end = {.fd = process, .events = POLLIN};
    return poll(&end, 1, 0) > 0;
}

/* Forgets the helper. If it has not ended, it is ended. */
static void end(struct inspections *inspections)
{
    if (!has_ended(inspections->process)) {
        syscall(SYS_pidfd_send_signal, inspections->process, SIGKILL, NULL, 0);
        if (inspections->left_count < INSPECTION_LEFT_MAX) {
            inspections->left[inspections->left_count].process = inspections->process;
            inspections->left[inspections->left_count].account = inspections->request.account;
            inspections->left[inspections->left_count++].device = inspections->request.device;
            inspections->process = -1;
        }
    }
    if (inspections->process >= 0)
        close(inspections->process);
    if (inspections->output >= 0)
        close(inspections->output);
    free(inspections->bytes);
    inspections->bytes = NULL;
    inspections->used = inspections->size = 0;
    inspections->output = inspections->process = -1;
    inspections->running = false;
}

double inspections_cpu_s(struct inspections *inspections)
{
    char path[5000], text[4096];
    uint64_t cpu_us, before_us = inspections->cpu_us;
    if (!inspections->cpu_due || inspections->group[0] == '\0')
        return 0.0;
    snprintf(path, sizeof(path), "%s/cpu.stat", inspections->group);
    if (file_read(path, text, sizeof(text)) != 0 || sscanf(text, "usage_usec %" SCNu64, &cpu_us) != 1)
        return 0.0;
    inspections->cpu_us = cpu_us;
    inspections->cpu_due = inspections->running;
    return cpu_us > before_us ? (double)(cpu_us - before_us) / 1e6 : 0.0;
}

void inspections_drop(struct inspections *inspections)
{
    if (inspections->running)
        end(inspections);
}

void inspections_close(struct inspections *inspections)
{
    inspections_drop(inspections);
    for (uint32_t i = 0; i < inspections->left_count; i++)
        close(inspections->left[i].process);
    inspections->left_count = 0;
    if (inspections->group[0] != '\0')
        rmdir(inspections->group);
}

bool inspections_free(struct inspections *inspections, uint64_t account, uint64_t device)
{
    bool allowed = !inspections->running && inspections->program[0] != '\0';
    uint32_t own = 0;
    for (uint32_t i = inspections->left_count; i-- > 0;) {
        if (has_ended(inspections->left[i].process)) {
            close(inspections->left[i].process);
            inspections->left[i] = inspections->left[--inspections->left_count];
        } else if (inspections->left[i].account == account) {
            own++;
            allowed = allowed && inspections->left[i].device != device;
        }
    }
    return allowed && own < INSPECTION_LEFT_ACCOUNT_MAX && inspections->left_count < INSPECTION_LEFT_MAX;
}

/* The child, between clone and exec. It allocates nothing: another thread may have held a lock. */
static _Noreturn void become_helper(const char *program, char *arguments[], int output, int group, int file)
{
    static char *const environment[] = {NULL};
    sigset_t none;
    if (group >= 0) {
        ssize_t put = write(group, "0", 1);
        (void)put; /* it works outside of the group, too */
    }
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int kept = file >= 0 ? fcntl(file, F_DUPFD, HELPER_FILE) : -1;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL); /* the helper waits for its child */
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(output, STDOUT_FILENO) >= 0 && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(nothing, STDERR_FILENO) >= 0) {
        if (kept >= 0 && (kept == HELPER_FILE || dup2(kept, HELPER_FILE) >= 0))
            close_range(HELPER_FILE + 1, ~0u, 0);
        else
            close_range(STDERR_FILENO + 1, ~0u, 0);
        execve(program, arguments, environment);
    }
    _exit(127);
}

int inspections_start(struct inspections *inspections, const struct inspection_request *request, uint64_t now_ns)
{
    char numbers[INSPECTION_ALSO_MAX + 3][24], *arguments[INSPECTION_ALSO_MAX + 9], path[5000];
    size_t count = 0, number = 0;
    int pipe_fds[2], process = -1, group = -1;
    arguments[count++] = inspections->program;
    arguments[count++] = (char *)"--helper";
    arguments[count++] = (char *)(uintptr_t)inspections->proc;
    snprintf(numbers[number], sizeof(numbers[0]), "%d", (int)request->pid);
    arguments[count++] = numbers[number++];
    snprintf(numbers[number], sizeof(numbers[0]), "%" PRIx64, request->start);
    arguments[count++] = numbers[number++];
    snprintf(numbers[number], sizeof(numbers[0]), "%" PRIx64, request->end);
    arguments[count++] = numbers[number++];
    arguments[count++] = (char *)(request->file < 0 ? HELPER_BY_MAPPING
                                  : request->direct ? HELPER_GIVEN_DIRECT
                                                    : HELPER_GIVEN);
    arguments[count++] = inspections->cache;
    for (size_t i = 0; i < request->also_count && i < INSPECTION_ALSO_MAX; i++) {
        snprintf(numbers[number], sizeof(numbers[0]), "%" PRIx64, request->also[i]);
        arguments[count++] = numbers[number++];
    }
    arguments[count] = NULL;
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        return -errno;
    if (inspections->group[0] != '\0') {
        snprintf(path, sizeof(path), "%s/cgroup.procs", inspections->group);
        group = open(path, O_WRONLY | O_CLOEXEC);
    }
    /* Not clone3: systemd's RestrictNamespaces= refuses it. */
    long child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &process, NULL, NULL);
    if (child == 0)
        become_helper(inspections->program, arguments, pipe_fds[1], group, request->file);
    int status = child < 0 ? -errno : 0;
    if (group >= 0)
        close(group);
    close(pipe_fds[1]);
    if (status != 0 || fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK) != 0) {
        close(pipe_fds[0]);
        return status;
    }
    inspections->running = inspections->cpu_due = true;
    inspections->request = *request;
    inspections->output = pipe_fds[0];
    inspections->process = process;
    inspections->deadline_ns = now_ns + INSPECTION_OPEN_NS;
    inspections->read_ns = now_ns + INSPECTION_NS;
    return 0;
}

/* Reads what is there. Returns 1 at the end, 0 if more may come, or -EBADMSG. */
static int read_some(struct inspections *inspections)
{
    for (;;) {
        if (inspections->used == inspections->size) {
            size_t size = inspections->size > 0 ? 4 * inspections->size : 16384;
            char *bytes = inspections->size <= OUTPUT_MAX ? realloc(inspections->bytes, size) : NULL;
            if (bytes == NULL)
                return -EBADMSG;
            inspections->bytes = bytes;
            inspections->size = size;
        }
        ssize_t got = read(inspections->output, inspections->bytes + inspections->used,
                           inspections->size - inspections->used);
        if (got == 0)
            return 1;
        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -EBADMSG;
        inspections->used += (size_t)got;
        inspections->deadline_ns = inspections->read_ns; /* its first bytes say that it has its copy */
    }
}

static int parse(const struct inspections *inspections, struct helper_answer *answer, struct record **record)
{
    size_t size = inspections->used - sizeof(*answer);
    if (inspections->used < sizeof(*answer))
        return -EBADMSG;
    memcpy(answer, inspections->bytes, sizeof(*answer));
    if (answer->magic != HELPER_MAGIC || answer->status > 0 || answer->record_bytes != size ||
        (answer->status == 0) != (size > 0))
        return -EBADMSG;
    if (answer->status != 0)
        return answer->status;
    struct record *found = malloc(size);
    if (found == NULL)
        return -ENOMEM;
    memcpy(found, inspections->bytes + sizeof(*answer), size);
    if (record_is_good(found, size)) {
        *record = found;
        return 0;
    }
    free(found);
    return -EBADMSG;
}

bool inspections_take(struct inspections *inspections, uint64_t now_ns, struct helper_answer *answer,
                      struct record **record)
{
    *record = NULL;
    if (!inspections->running)
        return false;
    int status = read_some(inspections);
    if (status == 0 && now_ns < inspections->deadline_ns)
        return false;
    *answer = (struct helper_answer){0};
    answer->status = status == 0 ? -ETIMEDOUT : status < 0 ? status : parse(inspections, answer, record);
    end(inspections);
    return true;
}
