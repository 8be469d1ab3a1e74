#include "system/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/clock.h"

#define NAME "vscaf-agent: "

static const char *const level_names[] = {[LOG_LEVEL_ERROR] = "error",
                                          [LOG_LEVEL_WARNING] = "warning",
                                          [LOG_LEVEL_NOTICE] = "notice",
                                          [LOG_LEVEL_INFO] = "info",
                                          [LOG_LEVEL_DEBUG] = "debug"};

/* One log for the process, because it has one stderr. */
static struct {
    enum log_level most;
    bool begun, journal;
    uint64_t window_ns; /* when the current minute began */
    uint32_t lines;     /* written in it */
    uint64_t left_out;  /* lines left out, and not yet reported */
} state = {.most = LOG_LEVEL_INFO};

/* JOURNAL_STREAM names the journal's socket by device and inode. stderr may have been redirected since. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    uintmax_t device, inode;
    struct stat status;
    return stream != NULL && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && (uintmax_t)status.st_dev == device &&
           (uintmax_t)status.st_ino == inode;
}

void log_begin(enum log_level most)
{
    state.most = most;
    state.begun = true;
    state.journal = stderr_is_journal();
    state.window_ns = monotonic_ns();
    state.lines = 0;
    state.left_out = 0;
}

bool log_level_read(const char *word, enum log_level *level)
{
    for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++)
        if (strcmp(word, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    return false;
}

bool log_enabled(enum log_level level)
{
    return level <= state.most;
}

static size_t write_start(char *line, size_t size, enum log_level level)
{
    time_t seconds = time(NULL);
    struct tm utc;
    if (state.begun ? state.journal : stderr_is_journal()) /* the journal adds the time and the name */
        return (size_t)snprintf(line, size, "<%d>", (int)level);
    if (!state.begun)
        return (size_t)snprintf(line, size, NAME);
    char stamp[32] = "";
    if (gmtime_r(&seconds, &utc) != NULL)
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ ", &utc);
    return (size_t)snprintf(line, size, "%s" NAME "%s: ", stamp, level_names[level]);
}

/* Writes one line. False: stderr did not take it. */
static bool write_line(enum log_level level, const char *format, va_list arguments)
{
    char line[1024];
    size_t start = write_start(line, sizeof(line), level);
    int more = vsnprintf(line + start, sizeof(line) - start - 1, format, arguments);
    if (more < 0)
        return true;
    size_t length = start + (size_t)more;
    if (length > sizeof(line) - 2)
        length = sizeof(line) - 2;
    for (size_t i = start; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[length++] = '\n';
    /* A full pipe, or a journal that hangs, must not block the loop. */
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (state.begun && (poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0))
        return false;
    /* An error cannot be reported: this is the log. */
    ssize_t done = write(STDERR_FILENO, line, length);
    (void)done;
    return true;
}

static bool write_message(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool write_message(enum log_level level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool taken = write_line(level, format, arguments);
    va_end(arguments);
    return taken;
}

void log_period(void)
{
    uint64_t now = monotonic_ns();
    if (!state.begun || now - state.window_ns < LOG_WINDOW_NS)
        return;
    state.window_ns = now;
    state.lines = 0;
    if (state.left_out > 0 &&
        write_message(LOG_LEVEL_WARNING, "%" PRIu64 " lines left out: more than %u in a minute, or standard error "
                      "did not take them", state.left_out, LOG_LINES_MAX))
        state.left_out = 0;
}

void log_at(enum log_level level, const char *format, ...)
{
    if (level > state.most)
        return;
    log_period();
    bool counted = state.begun && level > LOG_LEVEL_ERROR;
    if (counted && state.lines >= LOG_LINES_MAX) {
        state.left_out++;
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    bool taken = write_line(level, format, arguments);
    va_end(arguments);
    if (!taken)
        state.left_out++;
    else if (counted)
        state.lines++;
}
