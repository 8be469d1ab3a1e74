/* The log: one line an event, to stderr. */
#ifndef VSCAF_LOG_H
#define VSCAF_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers are those of syslog, which are the journal's priorities, too. */
enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7,
};

/* Most lines in one minute, for all causes together. Errors are not counted, because the agent ends after one. */
#define LOG_LINES_MAX 60u
#define LOG_WINDOW_NS UINT64_C(60000000000)

/* Begins the log of a running agent. Lines above the level are left out. The others begin with the time or, if stderr
 * is the journal (JOURNAL_STREAM), with their priority. Before this call a line is "vscaf-agent: TEXT". */
void log_begin(enum log_level most);

/* Returns false if there is no such level. */
bool log_level_read(const char *word, enum log_level *level);

bool log_enabled(enum log_level level);

/* Writes a line, in one write and without blocking. A line that stderr does not take at once is left out, and counted
 * for log_period(). Control characters become question marks. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Once a minute: logs how many lines were left out. */
void log_period(void);

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_at(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_at(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_line(...) log_warning(__VA_ARGS__)

#endif
