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
#include "inspect/own_number.h"
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
    struct timeval timeout = {.tv_sec = ANSWER_WAIT_S};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0 ||
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
        struct ucred peer;
        path = own;
        fd = connect_to(own);
        if (fd >= 0 && !vscaf_peer_is_trusted(fd, &peer)) {
            log_line("process %d of user %u serves %s, which programs do not believe: give the agent's place with "
                     "--socket",
                     (int)peer.pid, (unsigned)peer.uid, own);
            close(fd);
            return -1;
        }
    }
    if (fd >= 0)
        return fd;
    log_line("no agent answers at %s: %s: start one, or give its place with --socket", path, strerror(-fd));
    return -1;
}

/* Whether the packet is the agent's refusal of a connection. */
static bool is_refusal(const char *packet, size_t length)
{
    struct vscaf_welcome welcome;
    if (length != sizeof(welcome))
        return false;
    memcpy(&welcome, packet, sizeof(welcome));
    return welcome.magic == VSCAF_PAGE_MAGIC && welcome.status == VSCAF_JOIN_FULL;
}

/* Adds the processes of one packet to `answer`. */
static bool add_packet(json_t **answer, const char *text, size_t length, bool *more)
{
    if (is_refusal(text, length)) {
        log_line("the agent refuses this user, who has connected too often: try again in some seconds");
        return false;
    }
    json_t *packet = json_loadb(text, length, 0, NULL);
    const char *type = json_string_value(json_object_get(packet, "type"));
    if (type != NULL && strcmp(type, "error") == 0) {
        char message[200];
        const char *reason = json_string_value(json_object_get(packet, "message"));
        utf8_printable(message, sizeof(message), reason != NULL ? reason : "");
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
    if (*answer == NULL) {
        *answer = packet;
        return true;
    }
    json_array_extend(json_object_get(*answer, "processes"), json_object_get(packet, "processes"));
    json_decref(packet);
    return true;
}

/* Sends one request and reads the complete answer. NULL after printing why there is none. */
static json_t *request_status(const char *given)
{
    struct status_request request = {.magic = STATUS_MAGIC, .version = STATUS_VERSION};
    json_t *answer = NULL;
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
            good = add_packet(&answer, packet, (size_t)got, &more);
            continue;
        }
        if (got < 0)
            log_line("the agent does not answer: %s: is it stopped?", strerror(errno));
        else if (answer == NULL)
            log_line("the agent closed without an answer: is it an older one, without --status?");
        else
            log_line("the agent's answer is not complete: try again");
        good = false;
    }
    if (fd >= 0)
        close(fd);
    free(packet);
    if (!good) {
        json_decref(answer);
        return NULL;
    }
    json_object_del(answer, "more");
    return answer;
}

static int integer_field(const json_t *object, const char *name)
{
    return (int)json_integer_value(json_object_get(object, name));
}

static double number_field(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* A string, made safe for the terminal: a program may have chosen it. */
static const char *string_field(const json_t *object, const char *name, char buffer[64])
{
    const char *text = json_string_value(json_object_get(object, name));
    utf8_printable(buffer, 64, text != NULL ? text : "-");
    return buffer;
}

static void print_process(const json_t *process)
{
    char name[64], malleable[64], state[64], missing[64], speedup[32] = "-", efficiency[16] = "-", weight[16] = "-";
    const json_t *known = json_object_get(process, "speedup");
    if (json_is_object(known)) {
        snprintf(speedup, sizeof(speedup), "%s%.2f@%d", json_is_false(json_object_get(known, "measured")) ? "~" : "",
                 number_field(known, "value"), integer_field(known, "p"));
        snprintf(efficiency, sizeof(efficiency), "%.2f", number_field(known, "efficiency"));
    }
    if (json_is_number(json_object_get(process, "weight")))
        snprintf(weight, sizeof(weight), "%.2f", number_field(process, "weight"));
    bool lacks = json_is_string(json_object_get(process, "missing"));
    printf("%-8d %-15s %7d %6d %6.2f %-9s %10s %5s %6s  %s%s%s\n", integer_field(process, "pid"),
           string_field(process, "name", name), integer_field(process, "threads"), integer_field(process, "team"),
           number_field(process, "cpus"), string_field(process, "malleable", malleable), speedup, efficiency, weight,
           string_field(process, "state", state), lacks ? ", needs " : "",
           lacks ? string_field(process, "missing", missing) : "");
}

/* Why it has its own number of threads. */
static void print_own_number(const json_t *process)
{
    char name[64], section[96], reason[64], detail[64];
    const json_t *own = json_object_get(process, "own");
    const char *text = json_string_value(json_object_get(own, "section"));
    if (text == NULL)
        return;
    utf8_printable(section, sizeof(section), text);
    string_field(own, "detail", detail);
    printf("%d %s: own number, because %s %s%s%s%s\n", integer_field(process, "pid"),
           string_field(process, "name", name), section[0] != '\0' ? section : "a section",
           own_number_text(string_field(own, "reason", reason)), detail[0] != '\0' ? " (" : "", detail,
           detail[0] != '\0' ? ")" : "");
}

static void print_table(const json_t *answer)
{
    char policy[64], mode[64], quota[48] = "", ordered[64] = "";
    const json_t *cpus = json_object_get(answer, "cpus"), *host = json_object_get(answer, "host"), *process;
    if (json_is_number(json_object_get(cpus, "quota")))
        snprintf(quota, sizeof(quota), ", quota %.2f", number_field(cpus, "quota"));
    if (json_is_true(json_object_get(host, "ordered")))
        snprintf(ordered, sizeof(ordered), ", the host gives %d", integer_field(host, "cpus"));
    printf("%s, %s: %d CPUs online, hands out %d%s%s, in chunks of %d; busy %.2f, background %.2f\n",
           string_field(answer, "mode", mode), string_field(answer, "policy", policy), integer_field(cpus, "online"),
           integer_field(cpus, "handed_out"), ordered, quota, integer_field(answer, "chunk"),
           number_field(cpus, "busy"), number_field(cpus, "background"));
    printf("%-8s %-15s %7s %6s %6s %-9s %10s %5s %6s  %s\n", "PID", "NAME", "THREADS", "TEAM", "CPUS", "MALLEABLE",
           "SPEEDUP", "EFF", "C", "STATE");
    printf("%-8s %-15s %7d %6s %6.2f %-9s %10s %5s %6s  %d of %d running\n", "all", "-",
           integer_field(cpus, "handed_out"), "-", number_field(cpus, "busy"), "-", "-", "-", "-",
           integer_field(answer, "running"), integer_field(answer, "joined"));
    size_t i;
    const json_t *processes = json_object_get(answer, "processes");
    json_array_foreach(processes, i, process) print_process(process);
    json_array_foreach(processes, i, process) print_own_number(process);
    if (json_array_size(processes) < (size_t)integer_field(answer, "joined"))
        printf("(%d of other users are not shown)\n",
               integer_field(answer, "joined") - (int)json_array_size(processes));
}

int status_show(const struct options *options)
{
    for (;;) {
        json_t *answer = request_status(options->socket);
        if (answer == NULL)
            return 1;
        if (options->json) {
            json_dumpf(answer, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
            putchar('\n');
        } else {
            print_table(answer);
        }
        json_decref(answer);
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
