/* One line to stderr. */
#ifndef VSCAF_LOG_H
#define VSCAF_LOG_H

/* Writes "vscaf-agent: " and the message, with its line end, in one write. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
