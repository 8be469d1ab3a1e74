#include "system/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/log.h"
#include "vscaf/page.h"

#define PERIOD_LEAST_MS 20
#define PERIOD_MOST_MS 60000
#define STATUS_SECONDS_LEAST 0.5 /* an agent answers each user a few times a second at most */
#define STATUS_SECONDS_MOST 86400.0

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
    OPTION_STANDALONE,
    OPTION_POLICY,
    OPTION_CHUNK,
    OPTION_MAX_THREADS,
    OPTION_NO_BACKGROUND,
    OPTION_STATUS,
    OPTION_JSON,
    OPTION_PERIOD,
    OPTION_LEARN_BUDGET,
    OPTION_PER_USER,
    OPTION_CONTAIN,
    OPTION_PARK,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT
};

static const struct option_text texts[OPTION_COUNT] = {
    [OPTION_PORT] = {"port", "PATH", PORT_DEFAULT_PATH,
                     "port to the host: a character device, a terminal or a UNIX stream socket"},
    [OPTION_SOCKET] = {"socket", "PATH", "$VSCAF_SOCKET, or " VSCAF_SOCKET_DEFAULT,
                       "socket that programs join at; not root: vscaf/agent.sock in $XDG_RUNTIME_DIR"},
    [OPTION_LOG_LEVEL] = {"log-level", "LEVEL", "notice", "what is logged: error, warning, notice, info or debug"},
    [OPTION_CHECK] = {"check", NULL, NULL,
                      "say what this guest has and lacks, and exit with 1 where something is needed"},
    [OPTION_SYSFS] = {"sysfs", "DIR", "/sys", "where devices/system/cpu is"},
    [OPTION_PROC] = {"proc", "DIR", "/proc", "where stat and the processes are"},
    [OPTION_STANDALONE] = {"standalone", NULL, NULL,
                           "there is no host: split this machine's or container's CPUs among its programs, "
                           "switch none"},
    [OPTION_POLICY] = {"policy", "NAME", "max-speedup",
                       "max-speedup or equipartition; SIGUSR1 changes to equipartition, SIGUSR2 to max-speedup"},
    [OPTION_CHUNK] = {"chunk", "N", "auto",
                      "hand out CPUs N at a time; auto: stand-alone a core's threads, in a guest 1"},
    [OPTION_MAX_THREADS] = {"max-threads", "N", NULL,
                            "hand out N CPUs at most, together (stand-alone default: $OMP_NUM_THREADS, or all)"},
    [OPTION_NO_BACKGROUND] = {"no-background", NULL, NULL,
                              "do not subtract the load of processes that never joined"},
    [OPTION_STATUS] = {"status", "[SECONDS]", NULL,
                       "print what the running agent hands out and knows, again every SECONDS, and exit"},
    [OPTION_JSON] = {"json", NULL, NULL, "with --status: JSON, a line each time"},
    [OPTION_PERIOD] = {"period-ms", "N", "250", "time between two measurements, 20 to 60000"},
    [OPTION_LEARN_BUDGET] = {"learn-budget", "PERCENT", "1",
                             "of a program's CPU time, that learning its speedup may cost; 0: learn nothing"},
    [OPTION_PER_USER] = {"per-user", "N", "64",
                         "programs of one user that may join, 1 to 256; root's and the agent's own user's are not "
                         "counted"},
    [OPTION_CONTAIN] = {"contain", "HOW", "auto",
                        "keep rigid programs to their share: cpuset, affinity, auto (cpuset where it can), none"},
    [OPTION_PARK] = {"park", "WAY", "auto",
                     "keep work off surplus CPUs: offline, cpuset, or auto: cpuset at once, offline when for long"},
    [OPTION_HELP] = {"help", NULL, NULL, "print this and exit"},
    [OPTION_VERSION] = {"version", NULL, NULL, "print the version and exit"},
};

static void print_help(void)
{
    printf("Usage: vscaf-agent [OPTION]...\n"
           "Splits this guest's CPUs among its OpenMP programs, and acts for the vscaf daemon on the host.\n"
           "With --standalone: splits a machine's or a container's CPUs, without a host. It need not be root then.\n"
           "\n");
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

/* A whole number from 1 to `most`. */
static bool read_count(const char *text, uint32_t most, uint32_t *count)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > (long)most)
        return false;
    *count = (uint32_t)number;
    return true;
}

const char *policy_name(enum split_policy policy)
{
    return policy == SPLIT_EQUIPARTITION ? "equipartition" : "max-speedup";
}

static bool read_policy(const char *text, enum split_policy *policy)
{
    for (*policy = SPLIT_MAX_SPEEDUP; *policy <= SPLIT_EQUIPARTITION; (*policy)++)
        if (strcmp(text, policy_name(*policy)) == 0)
            return true;
    return false;
}

/* scafd's way to say how many CPUs there are: the first number of the list. */
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
    if (read_count(first, VSCAF_MAX_TEAM, &options->max_threads))
        log_line("handing out %u CPUs at most, because of OMP_NUM_THREADS: unset it, or say --max-threads",
                 options->max_threads);
}

static bool read_seconds(const char *text, double *seconds)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(number >= STATUS_SECONDS_LEAST && number <= STATUS_SECONDS_MOST))
        return false;
    *seconds = number;
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

static bool read_contain(const char *text, enum contain_way *way)
{
    static const char *const words[] = {[CONTAIN_AUTO] = "auto",
                                        [CONTAIN_CPUSET] = "cpuset",
                                        [CONTAIN_AFFINITY] = "affinity",
                                        [CONTAIN_NONE] = "none"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(text, words[i]) == 0) {
            *way = (enum contain_way)i;
            return true;
        }
    return false;
}

static bool read_park(const char *text, enum park_way *park)
{
    static const char *const words[] = {[PARK_AUTO] = "auto", [PARK_OFFLINE] = "offline", [PARK_CPUSET] = "cpuset"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(text, words[i]) == 0) {
            *park = (enum park_way)i;
            return true;
        }
    return false;
}

int options_read(struct options *options, int argc, char *argv[])
{
    struct option known[OPTION_COUNT + 1] = {0};
    for (int i = 0; i < OPTION_COUNT; i++)
        known[i] = (struct option){
            texts[i].name, texts[i].value == NULL || texts[i].value[0] == '[' ? no_argument : required_argument, NULL,
            i + 256};
    *options = (struct options){.sysfs = texts[OPTION_SYSFS].initial,
                                .proc = texts[OPTION_PROC].initial};
    if (!read_period(texts[OPTION_PERIOD].initial, &options->period_ms) ||
        !read_count(texts[OPTION_PER_USER].initial, CLIENTS_MOST, &options->per_user) ||
        !read_budget(texts[OPTION_LEARN_BUDGET].initial, &options->learn_budget_ppm) ||
        !read_park(texts[OPTION_PARK].initial, &options->park))
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
        case OPTION_STANDALONE: options->standalone = true; break;
        case OPTION_POLICY:
            if (!read_policy(optarg, &options->policy)) {
                log_line("--policy %s: give max-speedup or equipartition", optarg);
                return 2;
            }
            break;
        case OPTION_CHUNK:
            options->chunk = 0;
            if (strcmp(optarg, "auto") != 0 && !read_count(optarg, VSCAF_MAX_TEAM, &options->chunk)) {
                log_line("--chunk %s: give a whole number from 1 to %u, or auto", optarg, VSCAF_MAX_TEAM);
                return 2;
            }
            break;
        case OPTION_MAX_THREADS:
            if (!read_count(optarg, VSCAF_MAX_TEAM, &options->max_threads)) {
                log_line("--max-threads %s: give a whole number from 1 to %u", optarg, VSCAF_MAX_TEAM);
                return 2;
            }
            break;
        case OPTION_NO_BACKGROUND: options->no_background = true; break;
        case OPTION_STATUS: options->status = true; break;
        case OPTION_JSON: options->json = true; break;
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
        case OPTION_PER_USER:
            if (!read_count(optarg, CLIENTS_MOST, &options->per_user)) {
                log_line("--per-user %s: give a whole number from 1 to %u", optarg, CLIENTS_MOST);
                return 2;
            }
            break;
        case OPTION_CONTAIN:
            if (!read_contain(optarg, &options->contain)) {
                log_line("--contain %s: give auto, cpuset, affinity or none", optarg);
                return 2;
            }
            break;
        case OPTION_PARK:
            if (!read_park(optarg, &options->park)) {
                log_line("--park %s: give one of auto, offline, cpuset", optarg);
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
    if (options->status && optind < argc) {
        if (!read_seconds(argv[optind], &options->status_seconds)) {
            log_line("--status %s: give seconds from %g to %g", argv[optind], STATUS_SECONDS_LEAST,
                     STATUS_SECONDS_MOST);
            return 2;
        }
        optind++;
    }
    if (optind < argc) {
        log_line("%s: no arguments are taken: see --help", argv[optind]);
        return 2;
    }
    if (options->standalone && options->port != NULL) {
        log_line("--port %s: contradicts --standalone: give one of them", options->port);
        return 2;
    }
    if (options->json && !options->status) {
        log_line("--json: is for --status alone");
        return 2;
    }
    if (options->standalone && !options->status)
        read_threads_of_environment(options);
    return -1;
}
