/* The log: one line an event, to stderr. */
#ifndef VSCAF_LOG_H
#define VSCAF_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* As syslog counts, so that they are the journal's priorities as well. */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* Lines in one minute, whoever causes them. Errors are not counted: after one the agent ends. */
#define LOG_LINES_MOST 60u
#define LOG_WINDOW_NS UINT64_C(60000000000)

/* Begins the log of a running agent: lines above the level are left out, and the others begin with the time. Before,
 * they come as "vscaf-agent: TEXT". Where stderr is the journal (JOURNAL_STREAM says so), each has its priority. */
void log_begin(enum log_level most);

/* False: there is no such level. */
bool log_level_read(const char *word, enum log_level *level);

/* Whether lines of that level are written. */
bool log_wants(enum log_level level);

/* Writes a line, in one write and without blocking: what stderr does not take at once is left out, and how many lines
 * were is said later. Control characters become question marks. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says how many lines were left out, when it is time. */
void log_period(void);

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_line(...) log_warning(__VA_ARGS__)

#endif
