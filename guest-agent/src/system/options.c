#include "system/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/log.h"
#include "vscaf/page.h"

#define STATUS_SECONDS_MIN 0.5 /* an agent answers each user only a few times a second */
#define STATUS_SECONDS_MAX 86400.0

/* One option of the command line. */
struct option_spec {
    const char *name, *value; /* value: its placeholder in the help; NULL: the option takes no value */
    const char *initial;      /* the default value; NULL: none */
    const char *shown;        /* the default in the help, if it is not `initial` */
    const char *help;
    size_t field; /* in struct options */
    /* Reads a value into its place. NULL: the option takes no value, and sets a bool. */
    bool (*read)(const struct option_spec *spec, const char *text, void *field);
    uint32_t least, most;          /* read_count */
    const char *zero;              /* read_count: the word that means 0; NULL: there is none */
    const char *const *enum_names; /* read_enum: the words of an enum, in its order, with NULL at the end */
    const char *valid_values;      /* for messages: the valid values; NULL: whole numbers from `least` to `most` */
};

static bool read_text(const struct option_spec *spec, const char *text, void *field)
{
    (void)spec;
    *(const char **)field = text;
    return true;
}

static bool read_count(const struct option_spec *spec, const char *text, void *field)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    bool zero = spec->zero != NULL && strcmp(text, spec->zero) == 0;
    if (!zero && (errno != 0 || end == text || *end != '\0' || number < (long)spec->least || number > (long)spec->most))
        return false;
    *(uint32_t *)field = zero ? 0 : (uint32_t)number;
    return true;
}

static bool read_enum(const struct option_spec *spec, const char *text, void *field)
{
    for (unsigned i = 0; spec->enum_names[i] != NULL; i++)
        if (strcmp(text, spec->enum_names[i]) == 0) {
            *(unsigned *)field = i; /* an enum is an unsigned here */
            return true;
        }
    return false;
}

static bool read_level(const struct option_spec *spec, const char *text, void *field)
{
    (void)spec;
    return log_level_read(text, field);
}

/* Reads a percentage, as parts of a million. */
static bool read_percent(const struct option_spec *spec, const char *text, void *field)
{
    (void)spec;
    char *end;
    errno = 0;
    double percent = strtod(text, &end);
    /* Written so that "nan" is out of range, too. */
    if (errno != 0 || end == text || *end != '\0' || !(percent >= 0.0 && percent <= 100.0))
        return false;
    *(uint32_t *)field = (uint32_t)ceil(percent * 1e4); /* 0 only for 0 */
    return true;
}

static const char *const policies[] = {
    [SPLIT_MAX_SPEEDUP] = "max-speedup", [SPLIT_EQUIPARTITION] = "equipartition", NULL};
static const char *const contain_methods[] = {[CONTAIN_AUTO] = "auto",
                                              [CONTAIN_NONE] = "none",
                                              NULL};
static const char *const park_methods[] = {
    [PARK_AUTO] = "auto", [PARK_OFFLINE] = "offline", [PARK_CPUSET] = "cpuset", NULL};

/* In the order of the help. */
static const struct option_spec option_specs[] = {
    {.name = "port",
     .value = "PATH",
     .shown = PORT_DEFAULT_PATH,
     .help = "port to the host: a character device, a terminal or a UNIX stream socket",
     .read = read_text,
     .field = offsetof(struct options, port)},
    {.name = "socket",
     .value = "PATH",
     .shown = "$VSCAF_SOCKET, or " VSCAF_SOCKET_DEFAULT,
     .help = "socket where programs join; if not root: vscaf/agent.sock in $XDG_RUNTIME_DIR",
     .read = read_text,
     .field = offsetof(struct options, socket)},
    {.name = "log-level",
     .value = "LEVEL",
     .initial = "notice",
     .help = "what is logged: error, warning, notice, info or debug",
     .read = read_level,
     .field = offsetof(struct options, log_level),
     .valid_values = "error, warning, notice, info or debug"},
    {.name = "check",
     .help = "print what this guest has and lacks, and exit with 1 if something needed is missing",
     .field = offsetof(struct options, check)},
    {.name = "sysfs",
     .value = "DIR",
     .initial = "/sys",
     .help = "directory that has devices/system/cpu",
     .read = read_text,
     .field = offsetof(struct options, sysfs)},
    {.name = "proc",
     .value = "DIR",
     .initial = "/proc",
     .help = "directory that has stat and the processes",
     .read = read_text,
     .field = offsetof(struct options, proc)},
    {.name = "standalone",
     .help = "without a host: split the CPUs of this machine or container among its programs, switch none",
     .field = offsetof(struct options, standalone)},
    {.name = "policy",
     .value = "NAME",
     .initial = "max-speedup",
     .help = "max-speedup or equipartition; SIGUSR1 changes to equipartition, SIGUSR2 to max-speedup",
     .read = read_enum,
     .field = offsetof(struct options, policy),
     .enum_names = policies,
     .valid_values = "max-speedup or equipartition"},
    {.name = "chunk",
     .value = "N",
     .initial = "auto",
     .help = "hand out CPUs N at a time; auto: the threads of a core if stand-alone, 1 in a guest",
     .read = read_count,
     .field = offsetof(struct options, chunk),
     .least = 1,
     .most = VSCAF_MAX_TEAM,
     .zero = "auto"},
    {.name = "max-threads",
     .value = "N",
     .help = "hand out N CPUs at most, in total (stand-alone default: $OMP_NUM_THREADS, or all)",
     .read = read_count,
     .field = offsetof(struct options, max_threads),
     .least = 1,
     .most = VSCAF_MAX_TEAM},
    {.name = "no-background",
     .help = "do not subtract the load of processes that never joined",
     .field = offsetof(struct options, no_background)},
    {.name = "status",
     .value = "[SECONDS]",
     .help = "print the state of the running agent, again every SECONDS, and exit",
     .field = offsetof(struct options, status)},
    {.name = "json", .help = "with --status: print JSON, one line each time", .field = offsetof(struct options, json)},
    {.name = "period-ms",
     .value = "N",
     .initial = "250",
     .help = "time between two measurements, 20 to 60000",
     .read = read_count,
     .field = offsetof(struct options, period_ms),
     .least = 20,
     .most = 60000},
    {.name = "learn-budget",
     .value = "PERCENT",
     .initial = "1",
     .help = "part of a program's CPU time that learning its speedup may cost; 0: learn nothing",
     .read = read_percent,
     .field = offsetof(struct options, learn_budget_ppm),
     .valid_values = "a percentage from 0 to 100"},
    {.name = "per-user",
     .value = "N",
     .initial = "64",
     .help = "most programs of one user that may join, 1 to 256; no limit for root and the agent's own user",
     .read = read_count,
     .field = offsetof(struct options, per_user),
     .least = 1,
     .most = CLIENTS_MAX},
    {.name = "contain",
     .value = "HOW",
     .initial = "auto",
     .help = "keep programs with their own number of threads to their share of the CPUs: auto, or none",
     .read = read_enum,
     .field = offsetof(struct options, contain),
     .enum_names = contain_methods,
     .valid_values = "auto or none"},
    {.name = "park",
     .value = "WAY",
     .initial = "auto",
     .help = "keep work off surplus CPUs: offline, cpuset, or auto (cpuset at once, offline after 10 s)",
     .read = read_enum,
     .field = offsetof(struct options, park),
     .enum_names = park_methods,
     .valid_values = "one of auto, offline, cpuset"},
    {.name = "help", .help = "print this and exit", .field = offsetof(struct options, help)},
    {.name = "version", .help = "print the version and exit", .field = offsetof(struct options, version)},
};

enum { OPTION_SPECS = sizeof(option_specs) / sizeof(*option_specs) };

static const struct option_spec *spec_named(const char *name)
{
    const struct option_spec *spec = option_specs;
    while (strcmp(spec->name, name) != 0)
        spec++;
    return spec;
}

static void print_help(void)
{
    printf("Usage: vscaf-agent [OPTION]...\n"
           "Splits this guest's CPUs among its OpenMP programs, and obeys the vscaf daemon on the host.\n"
           "With --standalone: splits the CPUs of a machine or container, without a host. It needs no root then.\n"
           "\n");
    for (const struct option_spec *spec = option_specs; spec < option_specs + OPTION_SPECS; spec++) {
        char left[40];
        const char *initial = spec->shown != NULL ? spec->shown : spec->initial;
        snprintf(left, sizeof(left), "--%s%s%s", spec->name, spec->value != NULL ? " " : "",
                 spec->value != NULL ? spec->value : "");
        printf("  %-22s  %s", left, spec->help);
        printf(initial != NULL ? " (default: %s)\n" : "\n", initial);
    }
}

const char *policy_name(enum split_policy policy)
{
    return policies[policy == SPLIT_EQUIPARTITION ? SPLIT_EQUIPARTITION : SPLIT_MAX_SPEEDUP];
}

/* Takes one option. Returns false after printing what is wrong with its value. */
static bool apply_option(struct options *options, const struct option_spec *spec, const char *text)
{
    void *field = (char *)options + spec->field;
    if (spec->read == NULL) {
        *(bool *)field = true;
        return true;
    }
    if (spec->read(spec, text, field))
        return true;
    if (spec->valid_values != NULL)
        log_line("--%s %s: give %s", spec->name, text, spec->valid_values);
    else
        log_line("--%s %s: give a whole number from %u to %u%s%s", spec->name, text, spec->least, spec->most,
                 spec->zero != NULL ? ", or " : "", spec->zero != NULL ? spec->zero : "");
    return false;
}

/* OMP_NUM_THREADS bounds the CPUs, as in scafd: the first number of its list. */
static void read_threads_of_environment(struct options *options)
{
    const char *text = getenv("OMP_NUM_THREADS");
    if (text == NULL || options->max_threads != 0)
        return;
    char first[16];
    size_t length = strcspn(text, ", ");
    if (length >= sizeof(first))
        return;
    memcpy(first, text, length);
    first[length] = '\0';
    if (read_count(spec_named("max-threads"), first, &options->max_threads))
        log_line("handing out %u CPUs at most, because of OMP_NUM_THREADS: unset it, or give --max-threads",
                 options->max_threads);
}

static bool read_seconds(const char *text, double *seconds)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(number >= STATUS_SECONDS_MIN && number <= STATUS_SECONDS_MAX))
        return false;
    *seconds = number;
    return true;
}

/* Checks the options together, and the arguments after them. Returns false after printing what is wrong. */
static bool check_combination(struct options *options, int argc, char *argv[])
{
    if (options->status && optind < argc) {
        if (!read_seconds(argv[optind], &options->status_seconds)) {
            log_line("--status %s: give seconds from %g to %g", argv[optind], STATUS_SECONDS_MIN,
                     STATUS_SECONDS_MAX);
            return false;
        }
        optind++;
    }
    if (optind < argc) {
        log_line("%s: the agent takes no arguments: see --help", argv[optind]);
        return false;
    }
    if (options->standalone && options->port != NULL) {
        log_line("--port %s: contradicts --standalone: give only one of them", options->port);
        return false;
    }
    if (options->json && !options->status) {
        log_line("--json: works only with --status");
        return false;
    }
    return true;
}

int options_read(struct options *options, int argc, char *argv[])
{
    struct option known[OPTION_SPECS + 1] = {0};
    *options = (struct options){0};
    for (int i = 0; i < OPTION_SPECS; i++) {
        known[i] = (struct option){option_specs[i].name,
                                   option_specs[i].read != NULL ? required_argument : no_argument, NULL, i + 256};
        if (option_specs[i].initial != NULL && !apply_option(options, &option_specs[i], option_specs[i].initial))
            return 2;
    }
    opterr = 0;
    int got;
    while ((got = getopt_long(argc, argv, ":", known, NULL)) != -1) {
        if (got < 256) {
            if (got == ':')
                log_line("%s: needs a value: see --help", argv[optind - 1]);
            else
                log_line("%s: no such option: see --help", argv[optind - 1]);
            return 2;
        }
        if (!apply_option(options, &option_specs[got - 256], optarg))
            return 2;
        if (options->help) {
            print_help();
            return 0;
        }
        if (options->version) {
            printf("vscaf-agent %s\n", VSCAF_VERSION);
            return 0;
        }
    }
    if (!check_combination(options, argc, argv))
        return 2;
    if (options->standalone && !options->status)
        read_threads_of_environment(options);
    return -1;
}
