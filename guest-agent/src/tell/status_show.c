#include "tell/status_show.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "host/wire.h"
#include "programs/status_request.h"
#include "system/log.h"
#include "system/utf8.h"
#include "tell/status.h"
#include "vscaf/page.h"
#include "vscaf/socket_path.h"

#define ANSWER_WAIT_S 5

/* Returns a connected socket, or -errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = ANSWER_WAIT_S};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    return fd;
}

/* Looks for the agent as programs do. Returns a connected socket, or -1 after printing the reason. */
static int find_agent(const char *given)
{
    const char *named = secure_getenv("VSCAF_SOCKET");
    char own[VSCAF_SOCKET_PATH_BYTES];
    if (given == NULL && named != NULL && named[0] != '\0')
        given = named;
    const char *path = given != NULL ? given : VSCAF_SOCKET_DEFAULT;
    int fd = connect_to(path);
    if (fd < 0 && given == NULL && vscaf_socket_path_of_user(own)) {
        path = own;
        fd = connect_to(own);
    }
    if (fd >= 0)
        return fd;
    log_line("no agent answers at %s: %s: start one, or give its place with --socket", path, strerror(-fd));
    return -1;
}

/* Whether the packet is the agent's refusal of a connection. */
static bool turned_away(const char *packet, size_t length)
{
    struct vscaf_welcome welcome;
    if (length != sizeof(welcome))
        return false;
    memcpy(&welcome, packet, sizeof(welcome));
    return welcome.magic == VSCAF_PAGE_MAGIC && welcome.status == VSCAF_JOIN_FULL;
}

/* Adds the processes of one packet to the answer `whole`. */
static bool take_packet(json_t **whole, const char *text, size_t length, bool *more)
{
    if (turned_away(text, length)) {
        log_line("the agent refuses this user, who has connected too often: try again in some seconds");
        return false;
    }
    json_t *packet = json_loadb(text, length, 0, NULL);
    const char *type = json_string_value(json_object_get(packet, "type"));
    if (type != NULL && strcmp(type, "error") == 0) {
        char message[200];
        const char *said = json_string_value(json_object_get(packet, "message"));
        utf8_printable(message, sizeof(message), said != NULL ? said : "");
        log_line("the agent says: %s", message);
        json_decref(packet);
        return false;
    }
    if (type == NULL || strcmp(type, "status") != 0 || !json_is_array(json_object_get(packet, "processes"))) {
        log_line("the process that answers is no vscaf-agent, or of another version: give the agent's place with "
                 "--socket");
        json_decref(packet);
        return false;
    }
    *more = json_is_true(json_object_get(packet, "more"));
    if (*whole == NULL) {
        *whole = packet;
        return true;
    }
    json_array_extend(json_object_get(*whole, "processes"), json_object_get(packet, "processes"));
    json_decref(packet);
    return true;
}

/* Sends one request and reads the complete answer. NULL after printing why there is none. */
static json_t *ask(const char *given)
{
    struct status_request request = {.magic = STATUS_MAGIC, .version = STATUS_VERSION};
    json_t *whole = NULL;
    char *packet = malloc(STATUS_PACKET_BYTES);
    int fd = packet != NULL ? find_agent(given) : -1;
    /* An agent that refuses this user sends its answer and closes, without reading the request. So read the answer even
       if the request could not be sent. recv() reports that close once (ECONNRESET), and then returns the answer. */
    bool good = fd >= 0, sent = good && send(fd, &request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request);
    if (good && !sent && errno != EPIPE && errno != ECONNRESET) {
        log_line("the agent cannot be asked: %s", strerror(errno));
        good = false;
    }
    for (bool more = true, reset = false; good && more;) {
        ssize_t got = recv(fd, packet, STATUS_PACKET_BYTES, 0);
        if (got < 0 && errno == ECONNRESET && !reset) {
            reset = true;
            continue;
        }
        if (got > 0) {
            good = take_packet(&whole, packet, (size_t)got, &more);
            continue;
        }
        if (got < 0)
            log_line("the agent does not answer: %s: is it stopped?", strerror(errno));
        else if (whole == NULL)
            log_line("the agent closed without an answer: is it an older one, without --status?");
        else
            log_line("the agent's answer is not complete: try again");
        good = false;
    }
    if (fd >= 0)
        close(fd);
    free(packet);
    if (!good) {
        json_decref(whole);
        return NULL;
    }
    json_object_del(whole, "more");
    return whole;
}

static int whole_number(const json_t *object, const char *name)
{
    return (int)json_integer_value(json_object_get(object, name));
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* A string, made safe for the terminal: a program may have chosen it. */
static const char *word(const json_t *object, const char *name, char buffer[64])
{
    const char *text = json_string_value(json_object_get(object, name));
    utf8_printable(buffer, 64, text != NULL ? text : "-");
    return buffer;
}

static void print_process(const json_t *process)
{
    char name[64], malleable[64], state[64], speedup[32] = "-", efficiency[16] = "-", weight[16] = "-";
    const json_t *known = json_object_get(process, "speedup");
    if (json_is_object(known)) {
        snprintf(speedup, sizeof(speedup), "%.2f@%d", number(known, "value"), whole_number(known, "p"));
        snprintf(efficiency, sizeof(efficiency), "%.2f", number(known, "efficiency"));
    }
    if (json_is_number(json_object_get(process, "weight")))
        snprintf(weight, sizeof(weight), "%.2f", number(process, "weight"));
    printf("%-8d %-15s %7d %6d %6.2f %-9s %10s %5s %6s  %s\n", whole_number(process, "pid"),
           word(process, "name", name), whole_number(process, "threads"), whole_number(process, "team"),
           number(process, "cpus"), word(process, "malleable", malleable), speedup, efficiency, weight,
           word(process, "state", state));
}

static void print_table(const json_t *whole)
{
    char policy[64], mode[64], quota[48] = "", ordered[64] = "";
    const json_t *cpus = json_object_get(whole, "cpus"), *host = json_object_get(whole, "host"), *process;
    if (json_is_number(json_object_get(cpus, "quota")))
        snprintf(quota, sizeof(quota), ", quota %.2f", number(cpus, "quota"));
    if (json_is_true(json_object_get(host, "ordered")))
        snprintf(ordered, sizeof(ordered), ", the host gives %d", whole_number(host, "cpus"));
    printf("%s, %s: %d CPUs online, hands out %d%s%s, in chunks of %d; busy %.2f, background %.2f\n",
           word(whole, "mode", mode), word(whole, "policy", policy), whole_number(cpus, "online"),
           whole_number(cpus, "handed_out"), ordered, quota, whole_number(whole, "chunk"), number(cpus, "busy"),
           number(cpus, "background"));
    printf("%-8s %-15s %7s %6s %6s %-9s %10s %5s %6s  %s\n", "PID", "NAME", "THREADS", "TEAM", "CPUS", "MALLEABLE",
           "SPEEDUP", "EFF", "C", "STATE");
    printf("%-8s %-15s %7d %6s %6.2f %-9s %10s %5s %6s  %d of %d running\n", "all", "-",
           whole_number(cpus, "handed_out"), "-", number(cpus, "busy"), "-", "-", "-", "-",
           whole_number(whole, "running"), whole_number(whole, "joined"));
    size_t i;
    const json_t *processes = json_object_get(whole, "processes");
    json_array_foreach(processes, i, process) print_process(process);
    if (json_array_size(processes) < (size_t)whole_number(whole, "joined"))
        printf("(%d of other users are not shown)\n",
               whole_number(whole, "joined") - (int)json_array_size(processes));
}

int status_show(const struct options *options)
{
    for (;;) {
        json_t *whole = ask(options->socket);
        if (whole == NULL)
            return 1;
        if (options->json) {
            json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
            putchar('\n');
        } else {
            print_table(whole);
        }
        json_decref(whole);
        if (options->status_seconds > 0.0 && !options->json)
            putchar('\n');
        if (fflush(stdout) != 0) {
            log_line("cannot print: %s", strerror(errno));
            return 1;
        }
        if (options->status_seconds <= 0.0)
            return 0;
        struct timespec pause = {(time_t)options->status_seconds,
                                 (long)(fmod(options->status_seconds, 1.0) * 1e9)};
        nanosleep(&pause, NULL);
    }
}
