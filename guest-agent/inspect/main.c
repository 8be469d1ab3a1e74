/* vscaf-inspect: says of each parallel section of a program whether its team may have another size, and why not. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "helper.h"

static const char *const verdict_texts[] = {[VSCAF_VERDICT_NONE] = "unknown",
                                            [VSCAF_VERDICT_FREE] = "free",
                                            [VSCAF_VERDICT_UP_TO] = "up to the number that it was told",
                                            [VSCAF_VERDICT_OWN] = "own number"};
static const char *const verdict_words[] = {[VSCAF_VERDICT_NONE] = "none",
                                            [VSCAF_VERDICT_FREE] = "free",
                                            [VSCAF_VERDICT_UP_TO] = "up_to",
                                            [VSCAF_VERDICT_OWN] = "own"};

/* Puts a text between quotes. A record's texts have printable ASCII only; the names of files are any bytes. */
static void put_json_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte < 0x20 || byte >= 0x7f)
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

static void show_json(const char *path, const struct record *record)
{
    printf("{\"program\":");
    put_json_text(path);
    printf(",\"readable\":%s,\"sha256\":\"", record->readable ? "true" : "false");
    for (size_t i = 0; i < RECORD_SHA256_BYTES; i++)
        printf("%02x", record->sha256[i]);
    printf("\",\"sections\":[");
    for (uint32_t i = 0; i < record->count; i++) {
        const struct record_section *section = &record->sections[i];
        enum vscaf_reason reason = vscaf_reason_of(section->verdict);
        printf("%s{\"name\":", i > 0 ? "," : "");
        put_json_text(section->name);
        printf(",\"offset\":%" PRIu64 ",\"address\":%" PRIu64 ",\"verdict\":\"%s\",\"reason\":", section->file_offset,
               section->address, verdict_words[vscaf_verdict_of(section->verdict)]);
        put_json_text(reason != VSCAF_REASON_NONE ? inspect_reason_text(reason) : "");
        printf(",\"at\":%" PRIu64 ",\"detail\":", section->at);
        put_json_text(section->detail);
        printf("}");
    }
    printf("]}\n");
}

static void show(const char *path, const struct record *record)
{
    if (!record->readable) {
        printf("%s: no ELF file for a processor that vscaf-inspect knows\n", path);
        return;
    }
    printf("%s: %u section%s\n", path, record->count, record->count == 1 ? "" : "s");
    for (uint32_t i = 0; i < record->count; i++) {
        const struct record_section *section = &record->sections[i];
        enum vscaf_reason reason = vscaf_reason_of(section->verdict);
        char offset[32];
        snprintf(offset, sizeof(offset), "+0x%" PRIx64, section->file_offset);
        printf("  %s: %s", section->name[0] != '\0' ? section->name : offset,
               verdict_texts[vscaf_verdict_of(section->verdict)]);
        if (reason != VSCAF_REASON_NONE)
            printf(": %s", inspect_reason_text(reason));
        if (section->detail[0] != '\0')
            printf(" (%s)", section->detail);
        if (section->at != 0)
            printf(" at 0x%" PRIx64, section->at);
        putchar('\n');
    }
}

static int inspect_file(const char *path, int cache, bool json, bool quiet)
{
    struct sealed_copy copy;
    struct record *record = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int status = fd >= 0 ? sealed_copy_of(fd, &copy) : -errno;
    if (fd >= 0)
        close(fd);
    if (status == 0) {
        status = helper_record(&copy, cache, NULL, 0, false, &record);
        sealed_copy_free(&copy);
    }
    if (status != 0) {
        fprintf(stderr, "vscaf-inspect: %s: %s\n", path,
                status == -EAGAIN ? "it changed while it was read: try again" : strerror(-status));
        return 1;
    }
    if (json)
        show_json(path, record);
    else if (!quiet)
        show(path, record);
    free(record);
    return 0;
}

int main(int argc, char *argv[])
{
    static const struct option known[] = {{"json", no_argument, NULL, 'j'},
                                          {"cache", required_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    if (argc > 1 && strcmp(argv[1], "--helper") == 0) /* not for people: the agent starts it */
        return helper_run(argc - 2, argv + 2);
    bool json = false;
    const char *directory = NULL;
    for (int got; (got = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (got) {
        case 'j': json = true; break;
        case 'c': directory = optarg; break;
        case 'v': printf("vscaf-inspect %s\n", VSCAF_VERSION); return 0;
        case 'h':
            printf("Usage: vscaf-inspect [OPTION]... PROGRAM...\n"
                   "Says of each parallel section of these programs and libraries whether vscaf may change the size of "
                   "its team, and if not, why.\n"
                   "\n"
                   "  --json             print JSON, one line for each file\n"
                   "  --cache DIRECTORY  print nothing, and put the verdicts there for the agent (/var/cache/vscaf)\n"
                   "  --help             print this and exit\n"
                   "  --version          print the version and exit\n");
            return 0;
        default: return 2;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "vscaf-inspect: give a program: see --help\n");
        return 2;
    }
    int cache = directory != NULL ? cache_open(directory) : -1;
    if (directory != NULL && cache < 0) {
        fprintf(stderr, "vscaf-inspect: %s: %s\n", directory,
                cache == -EPERM ? "other users can write there: take their right away" : strerror(-cache));
        return 1;
    }
    int status = 0;
    for (; optind < argc; optind++)
        status |= inspect_file(argv[optind], cache, json, directory != NULL);
    return fflush(stdout) == 0 ? status : 1;
}
