#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "contain/placement.h"

#define MOST 6

static struct cpu_set set_of(uint32_t bits)
{
    struct cpu_set set = {0};
    set.words[0] = bits;
    return set;
}

static uint32_t bits_of(const struct cpu_set *set)
{
    for (size_t i = 1; i < CPUS_MAX / 64; i++)
        assert_int_equal(set->words[i], 0);
    return (uint32_t)set->words[0];
}

static struct placement_part part(uint32_t cpus, uint32_t permitted, uint32_t before)
{
    return (struct placement_part){.cpus = cpus, .permitted = set_of(permitted), .set = set_of(before)};
}

static void make(struct placement_part parts[], size_t count, uint32_t usable, const uint16_t *core)
{
    struct cpu_set set = set_of(usable);
    placement_make(parts, count, &set, core);
}

static uint32_t ones(uint32_t bits)
{
    return (uint32_t)__builtin_popcount(bits);
}

static uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

static void test_examples(void **state)
{
    (void)state;
    struct placement_part two[] = {part(1, ~0u, 0), part(2, ~0u, 0)};
    make(two, 2, 0xf, NULL);
    assert_int_equal(bits_of(&two[0].set), 1);
    assert_int_equal(bits_of(&two[1].set), 6);

    /* A demand of 0 counts as 1. A part with no usable CPU gets none. */
    struct placement_part odd[] = {part(0, ~0u, 0), part(1, 8, 8)};
    make(odd, 2, 3, NULL);
    assert_int_equal(bits_of(&odd[0].set), 1);
    assert_int_equal(bits_of(&odd[1].set), 0);

    /* The second part can only have the CPU of the first, so the first moves. */
    struct placement_part chain[] = {part(1, 3, 1), part(1, 1, 0)};
    make(chain, 2, 3, NULL);
    assert_int_equal(bits_of(&chain[0].set), 2);
    assert_int_equal(bits_of(&chain[1].set), 1);

    /* A CPU is lost: only the part on it moves. */
    struct placement_part loss[] = {part(1, ~0u, 1), part(1, ~0u, 8), part(1, ~0u, 4)};
    make(loss, 3, 7, NULL);
    assert_int_equal(bits_of(&loss[0].set), 1);
    assert_int_equal(bits_of(&loss[1].set), 2);
    assert_int_equal(bits_of(&loss[2].set), 4);

    /* More parts than CPUs: they are spread evenly, and a second run changes nothing. */
    struct placement_part many[] = {part(1, ~0u, 0), part(1, ~0u, 0), part(1, ~0u, 0), part(1, ~0u, 0)};
    make(many, 4, 3, NULL);
    uint32_t first[4], on_zero = 0;
    for (int i = 0; i < 4; i++) {
        first[i] = bits_of(&many[i].set);
        on_zero += first[i] & 1;
    }
    assert_int_equal(on_zero, 2);
    make(many, 4, 3, NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bits_of(&many[i].set), first[i]);
}

/* Three cores: once siblings have neighbouring CPU numbers, once their numbers are three apart. */
static void test_cores(void **state)
{
    (void)state;
    uint16_t pairs[CPUS_MAX], apart[CPUS_MAX];
    for (uint16_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        pairs[cpu] = cpu / 2;
        apart[cpu] = cpu % 3;
    }
    struct placement_part parts[] = {part(1, ~0u, 0), part(2, ~0u, 0), part(2, ~0u, 0)};
    make(parts, 3, 0x3f, pairs);
    assert_int_equal(bits_of(&parts[0].set), 0x01);
    assert_int_equal(bits_of(&parts[1].set), 0x0c);
    assert_int_equal(bits_of(&parts[2].set), 0x30);
    struct placement_part others[] = {part(2, ~0u, 0), part(4, ~0u, 0)};
    make(others, 2, 0x3f, apart);
    assert_int_equal(bits_of(&others[0].set), 0x09);
    assert_int_equal(bits_of(&others[1].set), 0x36);
    /* The part gives up the CPU that shares a core with no other of its CPUs. */
    struct placement_part fewer[] = {part(2, ~0u, 0x0e)};
    make(fewer, 1, 0x3f, pairs);
    assert_int_equal(bits_of(&fewer[0].set), 0x0c);
}

/* The most CPUs that can each be given to one part alone, found by trying all ways. */
static uint32_t best_cover(const uint32_t allowed[], uint32_t target[], size_t count, uint32_t cpu)
{
    if (cpu == MOST)
        return 0;
    uint32_t best = best_cover(allowed, target, count, cpu + 1);
    for (size_t i = 0; i < count; i++) {
        if (target[i] == 0 || !(allowed[i] >> cpu & 1))
            continue;
        target[i]--;
        uint32_t cover = 1 + best_cover(allowed, target, count, cpu + 1);
        target[i]++;
        best = cover > best ? cover : best;
    }
    return best;
}

static uint32_t most_on_one(const uint32_t sets[], size_t count)
{
    uint32_t most = 0;
    for (uint32_t cpu = 0; cpu < MOST; cpu++) {
        uint32_t on = 0;
        for (size_t i = 0; i < count; i++)
            on += sets[i] >> cpu & 1;
        most = on > most ? on : most;
    }
    return most;
}

static void test_properties(void **state)
{
    (void)state;
    uint64_t seed = 20261121;
    uint16_t pairs[CPUS_MAX];
    for (uint16_t cpu = 0; cpu < CPUS_MAX; cpu++)
        pairs[cpu] = cpu / 2;
    for (int round = 0; round < 6000; round++) {
        struct placement_part parts[4];
        uint32_t allowed[4], target[4], before[4], usable = random_below(&seed, 1u << MOST);
        size_t count = random_below(&seed, 5);
        const uint16_t *core = round % 2 ? pairs : NULL;
        bool settled = true;
        uint32_t held = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t permitted = random_below(&seed, 3) ? ~0u : random_below(&seed, 1u << MOST);
            before[i] = random_below(&seed, 2) ? random_below(&seed, 1u << MOST) : 0;
            parts[i] = part(random_below(&seed, MOST + 1), permitted, before[i]);
            allowed[i] = permitted & usable;
            target[i] = parts[i].cpus > 0 ? parts[i].cpus : 1;
            target[i] = target[i] < ones(allowed[i]) ? target[i] : ones(allowed[i]);
            settled = settled && (before[i] & ~allowed[i]) == 0 && ones(before[i]) == target[i] && !(held & before[i]);
            held |= before[i];
        }
        make(parts, count, usable, core);
        uint32_t cover = 0, gained = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t now = bits_of(&parts[i].set);
            assert_int_equal(now & ~allowed[i], 0);
            assert_int_equal(ones(now), target[i]);
            cover |= now;
            gained += ones(now & ~before[i]);
            if (settled) /* nothing is wrong, so no part moves */
                assert_int_equal(now, before[i]);
        }
        assert_int_equal(ones(cover), best_cover(allowed, target, count, 0));
        if (count == 1) { /* a single part only gains the CPUs that it lacks */
            uint32_t kept = ones(before[0] & allowed[0]);
            assert_int_equal(gained, target[0] > kept ? target[0] - kept : 0);
        }
        uint32_t again[4];
        for (size_t i = 0; i < count; i++)
            again[i] = bits_of(&parts[i].set);
        for (size_t i = 0; i < count; i++)
            parts[i].permitted = set_of(allowed[i]);
        make(parts, count, usable, core);
        bool moved = false;
        for (size_t i = 0; i < count; i++)
            moved = moved || bits_of(&parts[i].set) != again[i];
        uint32_t later[4];
        for (size_t i = 0; i < count; i++)
            later[i] = bits_of(&parts[i].set);
        if (moved) /* a second run moves parts only to share CPUs more evenly */
            assert_true(most_on_one(later, count) < most_on_one(again, count));
    }
}

static void test_large(void **state)
{
    (void)state;
    static struct placement_part parts[PLACEMENT_MAX];
    struct cpu_set all;
    memset(&all, 0xff, sizeof(all));
    for (uint32_t i = 0; i < PLACEMENT_MAX; i++)
        parts[i] = (struct placement_part){.cpus = CPUS_MAX / PLACEMENT_MAX, .permitted = all};
    placement_make(parts, PLACEMENT_MAX, &all, NULL);
    struct cpu_set cover = {0};
    for (uint32_t i = 0; i < PLACEMENT_MAX; i++)
        for (size_t word = 0; word < CPUS_MAX / 64; word++) {
            assert_int_equal(cover.words[word] & parts[i].set.words[word], 0);
            cover.words[word] |= parts[i].set.words[word];
        }
    assert_true(cpu_set_equal(&cover, &all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
