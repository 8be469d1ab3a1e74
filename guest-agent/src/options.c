#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "port.h"
#include "vscaf/page.h"

#define PERIOD_LEAST_MS 20
#define PERIOD_MOST_MS 60000

/* One option: how it is called, what stands for its value in the help, its default there, and what it does. */
struct option_text {
    const char *name, *value, *initial, *help;
};

enum {
    OPTION_PORT,
    OPTION_SOCKET,
    OPTION_LOG_LEVEL,
    OPTION_CHECK,
    OPTION_SYSFS,
    OPTION_PROC,
    OPTION_NO_HOST,
    OPTION_PERIOD,
    OPTION_LEARN_BUDGET,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT
};

static const struct option_text texts[OPTION_COUNT] = {
    [OPTION_PORT] = {"port", "PATH", PORT_DEFAULT_PATH,
                     "port to the host: a character device, a terminal or a UNIX stream socket"},
    [OPTION_SOCKET] = {"socket", "PATH", VSCAF_SOCKET_DEFAULT, "socket that programs join at"},
    [OPTION_LOG_LEVEL] = {"log-level", "LEVEL", "notice", "what is logged: error, warning, notice, info or debug"},
    [OPTION_CHECK] = {"check", NULL, NULL,
                      "say what this guest has and lacks, and exit with 1 where something is needed"},
    [OPTION_SYSFS] = {"sysfs", "DIR", "/sys", "where devices/system/cpu is"},
    [OPTION_PROC] = {"proc", "DIR", "/proc", "where stat and the processes are"},
    [OPTION_NO_HOST] = {"no-host", NULL, NULL, "use no port: split the online CPUs among the programs, switch none"},
    [OPTION_PERIOD] = {"period-ms", "N", "250", "time between two measurements, 20 to 60000"},
    [OPTION_LEARN_BUDGET] = {"learn-budget", "PERCENT", "1",
                             "of a program's CPU time, that learning its speedup may cost; 0: learn nothing"},
    [OPTION_HELP] = {"help", NULL, NULL, "print this and exit"},
    [OPTION_VERSION] = {"version", NULL, NULL, "print the version and exit"},
};

static void print_help(void)
{
    printf("Usage: vscaf-agent [OPTION]...\n"
           "Splits this guest's CPUs among its OpenMP programs, and acts for the vscaf daemon on the host.\n\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        char left[40];
        snprintf(left, sizeof(left), "--%s%s%s", texts[i].name, texts[i].value != NULL ? " " : "",
                 texts[i].value != NULL ? texts[i].value : "");
        printf("  %-22s  %s", left, texts[i].help);
        printf(texts[i].initial != NULL ? " (default: %s)\n" : "\n", texts[i].initial);
    }
}

static bool read_period(const char *text, uint32_t *period_ms)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < PERIOD_LEAST_MS || number > PERIOD_MOST_MS)
        return false;
    *period_ms = (uint32_t)number;
    return true;
}

static bool read_budget(const char *text, uint32_t *budget_ppm)
{
    char *end;
    errno = 0;
    double percent = strtod(text, &end);
    /* Not a number: neither. */
    if (errno != 0 || end == text || *end != '\0' || !(percent >= 0.0 && percent <= 100.0))
        return false;
    *budget_ppm = (uint32_t)ceil(percent * 1e4); /* 0 only for 0 */
    return true;
}

int options_read(struct options *options, int argc, char *argv[])
{
    struct option known[OPTION_COUNT + 1] = {0};
    for (int i = 0; i < OPTION_COUNT; i++)
        known[i] =
            (struct option){texts[i].name, texts[i].value != NULL ? required_argument : no_argument, NULL, i + 256};
    *options = (struct options){.socket = texts[OPTION_SOCKET].initial,
                                .sysfs = texts[OPTION_SYSFS].initial,
                                .proc = texts[OPTION_PROC].initial};
    if (!read_period(texts[OPTION_PERIOD].initial, &options->period_ms) ||
        !read_budget(texts[OPTION_LEARN_BUDGET].initial, &options->learn_budget_ppm))
        return 2;
    if (!log_level_read(texts[OPTION_LOG_LEVEL].initial, &options->log_level))
        return 2;
    opterr = 0;
    int got;
    while ((got = getopt_long(argc, argv, ":", known, NULL)) != -1) {
        switch (got - 256) {
        case OPTION_PORT: options->port = optarg; break;
        case OPTION_SOCKET: options->socket = optarg; break;
        case OPTION_LOG_LEVEL:
            if (!log_level_read(optarg, &options->log_level)) {
                log_line("--log-level %s: give error, warning, notice, info or debug", optarg);
                return 2;
            }
            break;
        case OPTION_CHECK: options->check = true; break;
        case OPTION_SYSFS: options->sysfs = optarg; break;
        case OPTION_PROC: options->proc = optarg; break;
        case OPTION_NO_HOST: options->no_host = true; break;
        case OPTION_PERIOD:
            if (!read_period(optarg, &options->period_ms)) {
                log_line("--period-ms %s: give a whole number from %d to %d", optarg, PERIOD_LEAST_MS, PERIOD_MOST_MS);
                return 2;
            }
            break;
        case OPTION_LEARN_BUDGET:
            if (!read_budget(optarg, &options->learn_budget_ppm)) {
                log_line("--learn-budget %s: give a percentage from 0 to 100", optarg);
                return 2;
            }
            break;
        case OPTION_HELP: print_help(); return 0;
        case OPTION_VERSION: printf("vscaf-agent %s\n", VSCAF_VERSION); return 0;
        default:
            if (got == ':')
                log_line("%s: needs a value: see --help", argv[optind - 1]);
            else
                log_line("%s: no such option: see --help", argv[optind - 1]);
            return 2;
        }
    }
    if (optind < argc) {
        log_line("%s: no arguments are taken: see --help", argv[optind]);
        return 2;
    }
    if (options->no_host && options->port != NULL) {
        log_line("--port %s: contradicts --no-host: give one of them", options->port);
        return 2;
    }
    return -1;
}
