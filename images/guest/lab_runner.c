/* Runs commands in a guest for the tests and the demo: `lab-runner PORT`, where PORT is the device of a virtio-serial
 * port.
 *
 * Each message is one line, in both directions. Bytes are sent as hexadecimal digits ("-" means none), so any output is
 * safe.
 *   host:  run ID HEX      start `sh -c` with the command HEX; its output and errors come back together
 *          kill ID SIGNAL  send a signal to the command's process group
 *          clock ID        ask for CLOCK_MONOTONIC
 *   guest: out ID HEX      a piece of output
 *          exit ID STATUS  the command has ended (128 + signal if a signal ended it); no `out` of it follows
 *          clock ID NS     CLOCK_MONOTONIC in nanoseconds
 *          error ID TEXT   the request failed
 * If the host closes its side, commands go on, and their output waits for the host.
 */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS_MAX 64
#define LINE_MAX_BYTES 131072
#define PIECE_BYTES 4096
#define HOST_ABSENT_POLL_MS 50 /* a port without a host is always "ready": wait this long before the next try */

struct command {
    uint64_t id;
    pid_t pid; /* 0: free */
    int pid_fd;
    int output_fd;
};

static struct command commands[COMMANDS_MAX];
static int port = -1;

static void nap(void)
{
    poll(NULL, 0, HOST_ABSENT_POLL_MS);
}

/* Writes all bytes; waits for the host without limit. */
static void send_bytes(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(port, bytes, length);

        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = port, .events = POLLOUT};

            poll(&ready, 1, HOST_ABSENT_POLL_MS);
            if (!(ready.revents & POLLOUT))
                nap();
        } else if (written < 0 && errno != EINTR) {
            nap(); /* the host is away */
        }
    }
}

static void send_line(const char *format, uint64_t id, const char *text)
{
    char line[512];
    int length = snprintf(line, sizeof line, format, id, text);

    send_bytes(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static void send_output(uint64_t id, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    static char line[2 * PIECE_BYTES + 64];
    size_t end = (size_t)snprintf(line, 64, "out %" PRIu64 " ", id);

    for (size_t i = 0; i < length; i++) {
        line[end++] = digits[bytes[i] >> 4];
        line[end++] = digits[bytes[i] & 15];
    }
    line[end++] = '\n';
    send_bytes(line, end);
}

static int digit(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    if (character >= 'a' && character <= 'f')
        return character - 'a' + 10;
    return -1;
}

/* Turns digits into bytes in place, with a zero at the end. Returns false if they are not hexadecimal. */
static bool decode(char *text)
{
    size_t length = strlen(text);

    if (strcmp(text, "-") == 0)
        length = 0;
    if (length % 2 != 0)
        return false;
    for (size_t i = 0; i < length; i += 2) {
        int high = digit(text[i]);
        int low = digit(text[i + 1]);

        if (high < 0 || low < 0)
            return false;
        text[i / 2] = (char)(high << 4 | low);
    }
    text[length / 2] = '\0';
    return true;
}

static struct command *find(uint64_t id)
{
    for (int i = 0; i < COMMANDS_MAX; i++)
        if (commands[i].pid != 0 && commands[i].id == id)
            return &commands[i];
    return NULL;
}

static void child(const char *text, int output)
{
    int null = open("/dev/null", O_RDONLY);

    setsid();
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    _exit(127);
}

/* Returns NULL, or the error. */
static const char *start(uint64_t id, const char *text)
{
    struct command *command = NULL;
    int ends[2];

    for (int i = 0; i < COMMANDS_MAX && command == NULL; i++)
        if (commands[i].pid == 0)
            command = &commands[i];
    if (command == NULL)
        return "too many commands at once: wait for some to end";
    if (find(id) != NULL)
        return "this id is in use: take another";
    if (pipe2(ends, O_CLOEXEC) != 0)
        return strerror(errno);

    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return strerror(errno);
    }
    if (pid == 0)
        child(text, ends[1]);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *command = (struct command){.id = id, .pid = pid, .output_fd = ends[0]};
    command->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return NULL;
}

/* Sends one piece of output. Returns false if there is none now. */
static bool pass_output(struct command *command)
{
    unsigned char piece[PIECE_BYTES];
    ssize_t length = command->output_fd < 0 ? 0 : read(command->output_fd, piece, sizeof piece);

    if (length > 0) {
        send_output(command->id, piece, (size_t)length);
        return true;
    }
    if (length == 0 && command->output_fd >= 0) {
        close(command->output_fd);
        command->output_fd = -1;
    }
    return false;
}

/* Sends the last output and the status of a command whose process has ended. */
static void finish(struct command *command)
{
    int status = 0;
    char text[16];

    /* Its background processes may go on printing. Only what is in the pipe now is sent (64 KiB at most). */
    for (int pieces = 0; pieces < 17 && pass_output(command); pieces++)
        ;
    waitpid(command->pid, &status, 0);
    snprintf(text, sizeof text, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if (command->output_fd >= 0)
        close(command->output_fd);
    close(command->pid_fd);
    send_line("exit %" PRIu64 " %s\n", command->id, text);
    command->pid = 0;
}

static void obey(char *line)
{
    char word[8];
    uint64_t id;
    int rest = 0;
    char number[32];

    if (sscanf(line, "%7s %" SCNu64 " %n", word, &id, &rest) < 2 || rest == 0) {
        send_line("error %" PRIu64 " %s\n", 0, "not a request");
    } else if (strcmp(word, "run") == 0) {
        const char *wrong = decode(line + rest) ? start(id, line + rest) : "the command is not hexadecimal";

        if (wrong != NULL)
            send_line("error %" PRIu64 " %s\n", id, wrong);
    } else if (strcmp(word, "kill") == 0) {
        struct command *command = find(id);

        /* It is no error if the command has just ended: its exit message will follow. */
        if (command != NULL)
            kill(-command->pid, atoi(line + rest));
    } else if (strcmp(word, "clock") == 0) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(number, sizeof number, "%" PRId64, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
        send_line("clock %" PRIu64 " %s\n", id, number);
    } else {
        send_line("error %" PRIu64 " %s\n", id, "unknown request");
    }
}

/* Reads from the host and obeys each complete line. A line that is too long is dropped up to its end. */
static void read_port(void)
{
    static char line[LINE_MAX_BYTES + 1];
    static size_t length;
    static bool dropping;
    char piece[PIECE_BYTES];
    ssize_t got = read(port, piece, sizeof piece);

    if (got == 0)
        nap(); /* no host */
    for (ssize_t i = 0; i < got; i++) {
        if (piece[i] == '\n') {
            line[length] = '\0';
            if (!dropping)
                obey(line);
            else
                send_line("error %" PRIu64 " %s\n", 0, "the line is too long");
            length = 0;
            dropping = false;
        } else if (length < LINE_MAX_BYTES) {
            line[length++] = piece[i];
        } else {
            dropping = true;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: lab-runner PORT\n");
        return 2;
    }
    port = open(argv[1], O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (port < 0) {
        fprintf(stderr, "lab-runner: %s: %s: give the domain the channel org.vscaf.lab.0\n", argv[1], strerror(errno));
        return 1;
    }
    for (;;) {
        struct pollfd ready[1 + 2 * COMMANDS_MAX];

        ready[0] = (struct pollfd){.fd = port, .events = POLLIN};
        for (int i = 0; i < COMMANDS_MAX; i++) {
            bool used = commands[i].pid != 0;

            ready[1 + 2 * i] = (struct pollfd){.fd = used ? commands[i].output_fd : -1, .events = POLLIN};
            ready[2 + 2 * i] = (struct pollfd){.fd = used ? commands[i].pid_fd : -1, .events = POLLIN};
        }
        if (poll(ready, 1 + 2 * COMMANDS_MAX, -1) < 0)
            continue;
        for (int i = 0; i < COMMANDS_MAX; i++) {
            if (ready[1 + 2 * i].revents != 0)
                pass_output(&commands[i]);
            if (ready[2 + 2 * i].revents != 0)
                finish(&commands[i]);
        }
        if (ready[0].revents & POLLIN)
            read_port();
        else if (ready[0].revents != 0)
            nap();
    }
}
