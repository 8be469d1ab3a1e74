/* Lines of maps; records, good and broken; the cache. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache.h"
#include "inspect/inspection.h"
#include "inspect/providers.h"
#include "mapped_file.h"
#include "record.h"

static void lines_of_maps(void **state)
{
    (void)state;
    struct mapping mapping;
    assert_true(mapping_parse("55a0f000-55a10000 r-xp 00001000 08:21 1837 /usr/bin/a program", &mapping));
    assert_int_equal(mapping.start, 0x55a0f000);
    assert_int_equal(mapping.end, 0x55a10000);
    assert_int_equal(mapping.offset, 0x1000);
    assert_int_equal(mapping.device_major, 8);
    assert_int_equal(mapping.device_minor, 0x21);
    assert_int_equal(mapping.inode, 1837);
    assert_true(mapping.executable && !mapping.writable);
    assert_string_equal(mapping.path, "/usr/bin/a program");
    assert_true(mapping_parse("7f0000000000-7f0000001000 rwxp 00000000 00:00 0", &mapping));
    assert_true(mapping.executable && mapping.writable);
    assert_string_equal(mapping.path, "");
    assert_false(mapping_parse("", &mapping));
    assert_false(mapping_parse("1000-1000 r-xp 0 0:0 0", &mapping));
    assert_false(mapping_parse("1000-2000 rx 0 0:0 0", &mapping));
    assert_false(mapping_parse("1000-2000 r-xp 0 0:0", &mapping));
    char line[PATH_MAX + 100] = "1000-2000 r-xp 0 0:0 1 /";
    memset(line + strlen(line), 'x', PATH_MAX);
    assert_false(mapping_parse(line, &mapping));
}

static void names_of_providers(void **state)
{
    (void)state;
    assert_true(provider_named("/lib/x86_64-linux-gnu/libc.so.6"));
    assert_true(provider_named("/lib/libstdc++.so.6.0.30"));
    assert_true(provider_named("libm-2.31.so"));
    assert_true(provider_named("/opt/vscaf/libvscaf-gomp.so"));
    assert_false(provider_named("/lib/libcrypto.so.3"));
    assert_false(provider_named("/lib/libc.sox"));
    assert_false(provider_named("/home/libc.so/program"));
    assert_false(provider_named("/lib/libgomp-a34b3233.so.1.0.0"));
}

static void put_usage(const char *directory, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cpu.stat", directory);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* What helpers used is told once, and the last of it after their end. */
static void cpu_time_of_helpers(void **state)
{
    (void)state;
    struct inspections inspections = {.running = true, .cpu_due = true};
    char *directory = mkdtemp(strcpy(inspections.group, "/tmp/test-group-XXXXXX"));
    assert_non_null(directory);
    put_usage(directory, "usage_usec 1500000\nuser_usec 1500000\n");
    assert_true(inspections_cpu_s(&inspections) == 1.5);
    assert_true(inspections_cpu_s(&inspections) == 0.0);
    put_usage(directory, "usage_usec 1750000\n");
    inspections.running = false;
    assert_true(inspections_cpu_s(&inspections) == 0.25);
    put_usage(directory, "usage_usec 9000000\n"); /* no helper has run since: it is not read */
    assert_true(inspections_cpu_s(&inspections) == 0.0);
    inspections.running = inspections.cpu_due = true;
    put_usage(directory, "usage_usec 1\n"); /* another group of that name */
    assert_true(inspections_cpu_s(&inspections) == 0.0);
    put_usage(directory, "");
    assert_true(inspections_cpu_s(&inspections) == 0.0);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/cpu.stat", directory);
    unlink(path);
    assert_true(inspections_cpu_s(&inspections) == 0.0);
    rmdir(directory);
}

static struct record *made(void)
{
    static const uint8_t sha256[RECORD_SHA256_BYTES] = {0xab, 0x01};
    static const uint64_t asked[] = {300};
    struct inspect_section sections[] = {
        {.file_offset = 100, .name = "one", .detail = "", .verdict = VSCAF_VERDICT_FREE},
        {.file_offset = 200,
         .name = "a\xff\nb",
         .detail = "sin",
         .verdict = vscaf_verdict_word(VSCAF_VERDICT_OWN, VSCAF_REASON_UNKNOWN_CALL)},
        {.file_offset = 300, .name = "", .detail = "", .verdict = VSCAF_VERDICT_UP_TO}};
    struct inspect_result result = {.readable = true, .count = 3, .sections = sections};
    result.defines.words[1] = 4;
    return record_make(&result, sha256, asked, 1);
}

static void a_record_has_what_was_found(void **state)
{
    (void)state;
    struct record *record = made();
    assert_true(record_is_good(record, record_bytes(record)));
    assert_null(record_find(record, 99));
    assert_null(record_find(record, 301));
    assert_int_equal(record_find(record, 100)->verdict, VSCAF_VERDICT_FREE);
    assert_int_equal(record_find(record, 100)->asked, 0);
    assert_string_equal(record_find(record, 200)->name, "a??b");
    assert_string_equal(record_find(record, 200)->detail, "sin");
    assert_int_equal(record_find(record, 300)->asked, 1);
    free(record);
}

/* Each change makes it broken. */
static void broken_records_are_refused(void **state)
{
    (void)state;
    for (int change = 0; change < 16; change++) {
        struct record *record = made();
        size_t size = record_bytes(record);
        switch (change) {
        case 0: size--; break;
        case 1: size = 3; break;
        case 2: record->magic++; break;
        case 3: record->rules++; break;
        case 4: record->section_bytes++; break;
        case 5: record->readable = 2; break;
        case 6: record->count = 2; break;
        case 7: record->count = UINT32_MAX; break;
        case 8: record->sections[1].file_offset = 100; break;
        case 9: record->sections[0].verdict = VSCAF_VERDICT_NONE; break;
        case 10: record->sections[0].verdict = 4; break;
        case 11: record->sections[0].verdict |= 1u << 8; break; /* free, with a reason */
        case 12: record->sections[1].verdict = VSCAF_VERDICT_OWN; break;
        case 13: record->sections[1].verdict = VSCAF_VERDICT_OWN | VSCAF_REASON_COUNT << 8; break;
        case 14: memset(record->sections[2].name, 'x', sizeof(record->sections[2].name)); break;
        case 15: record->sections[2].detail[0] = '\n'; break;
        }
        assert_false(record_is_good(record, size));
        free(record);
    }
}

static void the_cache_gives_back_good_records_only(void **state)
{
    (void)state;
    char directory[] = "/tmp/vscaf-records-XXXXXX", name[200];
    assert_non_null(mkdtemp(directory));
    int cache = cache_open(directory);
    assert_true(cache >= 0);
    struct record *record = made();
    assert_null(cache_load(cache, record->sha256));
    assert_int_equal(cache_store(cache, record), 0);
    struct record *loaded = cache_load(cache, record->sha256);
    assert_non_null(loaded);
    assert_memory_equal(loaded, record, record_bytes(record));
    free(loaded);

    /* The record of other bytes, under this name. */
    record->sha256[0]++;
    snprintf(name, sizeof(name), "%s/ab01%060d.%u", directory, 0, VSCAF_RULES_VERSION);
    int fd = open(name, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, record, record_bytes(record)), record_bytes(record));
    record->sha256[0]--;
    assert_null(cache_load(cache, record->sha256));
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_null(cache_load(cache, record->sha256));
    close(fd);

    /* What is old goes when another one comes. */
    assert_int_equal(cache_store(cache, record), 0);
    assert_int_equal(utimensat(AT_FDCWD, name, (struct timespec[]){{1000, 0}, {1000, 0}}, 0), 0);
    record->sha256[0]++;
    assert_int_equal(cache_store(cache, record), 0);
    assert_int_equal(access(name, F_OK), -1);
    memcpy(name + strlen(directory), "/ac", 3);
    assert_int_equal(unlink(name), 0);
    free(record);
    close(cache);

    assert_int_equal(chmod(directory, 0777), 0);
    assert_true(cache_open(directory) < 0); /* others could put verdicts there */
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_maps),
        cmocka_unit_test(names_of_providers), cmocka_unit_test(cpu_time_of_helpers),
        cmocka_unit_test(a_record_has_what_was_found),
        cmocka_unit_test(broken_records_are_refused),
        cmocka_unit_test(the_cache_gives_back_good_records_only),
    };
    return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
