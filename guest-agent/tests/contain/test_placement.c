#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contain/placement.h"

static const uint16_t ORDER[] = {0, 4, 1, 5, 2, 6, 3, 7}; /* four cores of two threads */

static struct placement_part part(uint32_t cpus, uint64_t permitted, uint64_t before)
{
    return (struct placement_part){.cpus = cpus, .permitted = {.words = {permitted}}, .set = {.words = {before}}};
}

static void check(struct placement_part parts[], size_t count, uint32_t cpus, const uint64_t sets[])
{
    placement_make(parts, count, ORDER, cpus);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(parts[i].set.words[0], sets[i]);
}

static void test_apart_and_by_cores(void **state)
{
    (void)state;
    struct placement_part parts[] = {part(2, 0xff, 0), part(4, 0xff, 0), part(0, 0xff, 0)};
    check(parts, 3, 8, (const uint64_t[]){0x11, 0x66, 0x08});
}

/* Nobody moves when others come, go or shrink. */
static void test_stays(void **state)
{
    (void)state;
    struct placement_part parts[] = {part(2, 0xff, 0), part(2, 0xff, 0xc0), part(1, 0xff, 0x22)};
    check(parts, 3, 8, (const uint64_t[]){0x11, 0xc0, 0x02});
    check(parts, 3, 8, (const uint64_t[]){0x11, 0xc0, 0x02});
}

/* A part that may use few CPUs chooses first, whatever its place. */
static void test_narrow_parts_first(void **state)
{
    (void)state;
    struct placement_part parts[] = {part(1, 0xff, 0x01), part(1, 0x01, 0)};
    check(parts, 2, 8, (const uint64_t[]){0x10, 0x01});
}

/* CPUs that have to be shared are those with the fewest parts. */
static void test_more_parts_than_cpus(void **state)
{
    (void)state;
    struct placement_part parts[] = {part(1, 0xff, 0), part(1, 0xff, 0), part(1, 0xff, 0), part(1, 0xff, 0)};
    check(parts, 4, 2, (const uint64_t[]){0x01, 0x10, 0x01, 0x10});
    check(parts, 4, 2, (const uint64_t[]){0x01, 0x10, 0x01, 0x10});
}

static void test_none_that_it_may_use(void **state)
{
    (void)state;
    struct placement_part parts[] = {part(2, 0x80, 0x80), part(3, 0xff, 0)};
    check(parts, 2, 2, (const uint64_t[]){0, 0x11});
}

/* Whatever the parts are: each gets as many as it should or may, all usable; none shares while a CPU that it may use is
 * free; and a second run changes nothing. */
static void test_any_parts(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        struct placement_part parts[6], again[6];
        uint32_t cpus = 1 + (uint32_t)rand() % 8, count = 1 + (uint32_t)rand() % 6;
        uint64_t usable = 0, taken = 0;
        for (uint32_t i = 0; i < cpus; i++)
            usable |= UINT64_C(1) << ORDER[i];
        for (uint32_t i = 0; i < count; i++)
            parts[i] = part((uint32_t)rand() % 5, rand() % 3 > 0 ? 0xff : (uint64_t)rand() % 256, (uint64_t)rand() % 256);
        placement_make(parts, count, ORDER, cpus);
        memcpy(again, parts, sizeof(parts));
        for (uint32_t i = 0; i < count; i++) {
            uint64_t may = parts[i].permitted.words[0] & usable, set = parts[i].set.words[0];
            int wanted = parts[i].cpus > 0 ? (int)parts[i].cpus : 1, most = __builtin_popcountll(may);
            assert_int_equal(__builtin_popcountll(set), wanted < most ? wanted : most);
            assert_int_equal(set & ~may, 0);
            taken |= set;
        }
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = 0; j < i; j++)
                if ((parts[i].set.words[0] & parts[j].set.words[0]) != 0) /* then one of them had no free CPU */
                    assert_true((parts[i].permitted.words[0] & usable & ~taken) == 0 ||
                                (parts[j].permitted.words[0] & usable & ~taken) == 0);
        placement_make(again, count, ORDER, cpus);
        if (__builtin_popcountll(taken) == (int)cpus || count == 1)
            continue;
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(again[i].set.words[0], parts[i].set.words[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apart_and_by_cores), cmocka_unit_test(test_stays),
        cmocka_unit_test(test_narrow_parts_first), cmocka_unit_test(test_more_parts_than_cpus),
        cmocka_unit_test(test_none_that_it_may_use), cmocka_unit_test(test_any_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
