/* Thread-private data that one section leaves for another. */
#include <sys/syscall.h>

#include "case.h"

static __thread int kept[32];

WRONG_IF_FREE(array_written_once)
{
    int wrong = 0;
#pragma omp parallel /* own */
    for (int k = 0; k < 32; k++)
        kept[k] = k + 1;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        for (int k = 0; k < 32; k++)
            wrong += kept[k] != k + 1;
    }
    return wrong;
}

static __thread int half[32];

WRONG_IF_FREE(scratch_half_written)
{
    int wrong = 0;
#pragma omp parallel /* own */
    for (int k = 0; k < 32; k++)
        half[k] = 7;
    for (int round = 0; round < 8 * ROUNDS; round++) {
#pragma omp parallel for reduction(+ : wrong) /* own */
        for (int i = 0; i < N; i++) {
            int sum = 0;
            for (int k = 0; k < 16; k++)
                half[k] = i;
            for (int k = 0; k < 32; k++)
                sum += half[k];
            wrong += sum != 16 * i + 16 * 7;
        }
    }
    return wrong;
}

static __thread int some[32];
static volatile int how_much = 16;

WRONG_IF_FREE(scratch_written_up_to_a_variable)
{
    int wrong = 0;
#pragma omp parallel /* own */
    for (int k = 0; k < 32; k++)
        some[k] = 7;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            int sum = 0, bound = how_much;
            for (int k = 0; k < bound; k++)
                some[k] = round;
            for (int k = 0; k < 32; k++)
                sum += some[k];
            wrong += sum != 16 * round + 16 * 7;
        }
    }
    return wrong;
}

static __thread int sometimes;

WRONG_IF_FREE(written_under_a_condition)
{
    int wrong = 0, last = 5;
#pragma omp parallel /* own */
    sometimes = 5;
    for (int round = 0; round < ROUNDS; round++) {
        last = round % 3 ? last : round;
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            if (round % 3 == 0)
                sometimes = round;
            wrong += sometimes != last;
        }
    }
    return wrong;
}

static __thread int written_after;

WRONG_IF_FREE(read_before_it_is_written)
{
    int wrong = 0;
#pragma omp parallel /* own */
    written_after = -1;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            wrong += written_after != round - 1;
            written_after = round;
        }
    }
    return wrong;
}

static long sum;
#pragma omp threadprivate(sum)

WRONG_IF_FREE(sums_combined_later)
{
    long total = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for /* own */
        for (int i = 0; i < N; i++)
            sum += i;
    }
#pragma omp parallel reduction(+ : total) /* own */
    total += sum;
    return total != (long)ROUNDS * N * (N - 1) / 2;
}

static int copied;
#pragma omp threadprivate(copied)

WRONG_IF_FREE(copied_in_then_read_later)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        copied = round;
#pragma omp parallel copyin(copied) reduction(+ : wrong) /* own */
        wrong += copied != round;
#pragma omp parallel reduction(+ : wrong) /* own */
        wrong += copied != round;
    }
    return wrong;
}

static __thread int marked;

WRONG_IF_FREE(thread_data_of_the_master)
{
    int wrong = 0;
    int *of_master = &marked;
    __asm__ volatile("" : : "r"(&of_master) : "memory");
    for (int round = 0; round < ROUNDS; round++) {
        int other = 0;
#pragma omp parallel /* own */
        if (&marked != of_master)
            other = 1;
        wrong += other != (threads > 1);
    }
    return wrong;
}

static __thread int number = -1;

WRONG_IF_FREE(number_kept)
{
    int n = threads, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            if (number < 0)
                number = omp_get_thread_num();
            for (int i = number; i < N; i += n)
                done[i]++;
        }
        wrong += undone();
    }
    return wrong;
}

static __thread int begin, end;

WRONG_IF_FREE(share_kept)
{
    int wrong = 0;
#pragma omp parallel /* own */
    {
        int t = omp_get_thread_num(), n = omp_get_num_threads();
        begin = t * N / n;
        end = (t + 1) * N / n;
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        for (int i = begin; i < end; i++)
            done[i]++;
        wrong += undone();
    }
    return wrong;
}

static __thread int identity;

WRONG_IF_FREE(identity_by_counter)
{
    int known = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        if (!identity)
            identity = __atomic_add_fetch(&known, 1, __ATOMIC_RELAXED);
    }
    return known != threads;
}

static __thread unsigned seed;

WRONG_IF_FREE(random_numbers)
{
    unsigned long total = 0, expected = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : total) /* own */
        {
            if (!seed)
                seed = 1u + (unsigned)omp_get_thread_num();
            seed = seed * 1103515245u + 12345u;
            total += seed >> 16;
        }
    }
    for (int t = 0; t < threads; t++) {
        unsigned state = 1u + (unsigned)t;
        for (int round = 0; round < ROUNDS; round++) {
            state = state * 1103515245u + 12345u;
            expected += state >> 16;
        }
    }
    return total != expected;
}

static __thread long *first_touched;

WRONG_IF_FREE(memory_of_the_thread)
{
    long total = 0;
#pragma omp parallel /* own */
    first_touched = (long *)calloc(16, sizeof *first_touched);
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for /* own */
        for (int i = 0; i < N; i++)
            if (first_touched)
                first_touched[i % 16] += i;
    }
#pragma omp parallel reduction(+ : total) /* own */
    for (int k = 0; first_touched && k < 16; k++)
        total += first_touched[k];
    return total != (long)ROUNDS * N * (N - 1) / 2;
}

static pthread_key_t key;

WRONG_IF_FREE(key_of_pthreads)
{
    int wrong = 0;
    pthread_key_create(&key, NULL);
#pragma omp parallel /* own */
    pthread_setspecific(key, &wrong);
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        wrong += pthread_getspecific(key) == NULL;
    }
    return wrong;
}

static __thread long published;

WRONG_IF_FREE(address_published)
{
    static long *where[64];
    long total = 0;
#pragma omp parallel /* own */
    where[omp_get_thread_num()] = &published;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        published++;
    }
    for (int t = 0; t < threads; t++)
        total += *where[t];
    return total != (long)ROUNDS * threads;
}

WRONG_IF_FREE(self_of_pthreads)
{
    static pthread_t self[64];
    int wrong = 0, known = 0;
#pragma omp parallel /* own */
    {
        self[omp_get_thread_num()] = pthread_self();
#pragma omp atomic
        known++;
    }
    for (int round = 0; round < ROUNDS; round++) {
        int seen = 0;
#pragma omp parallel reduction(+ : seen) /* own */
        for (int t = 0; t < known; t++)
            seen += pthread_equal(self[t], pthread_self()) != 0;
        wrong += seen != known;
    }
    return wrong;
}

WRONG_IF_FREE(number_of_the_kernel)
{
    static long ids[64];
    int used = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            long id = syscall(SYS_gettid);
#pragma omp critical
            {
                int at = 0;
                while (at < used && ids[at] != id)
                    at++;
                if (at == used && used < 64)
                    ids[used++] = id;
            }
        }
    }
    return used != threads;
}

WRONG_IF_FREE(address_of_a_local)
{
    static uintptr_t stacks[64];
    int wrong = 0, known = 0;
#pragma omp parallel /* own */
    {
        char local;
#pragma omp critical
        stacks[known++] = (uintptr_t)&local >> 16;
    }
    for (int round = 0; round < ROUNDS; round++) {
        int seen = 0;
#pragma omp parallel reduction(+ : seen) /* own */
        {
            char local;
            for (int t = 0; t < known; t++)
                if (((uintptr_t)&local >> 16) - stacks[t] + 1 <= 2) {
                    seen++;
                    break;
                }
        }
        wrong += seen != known;
    }
    return wrong;
}

/* In the library. */
void library_begin(void);
int library_step(int i);
extern __thread int library_data;

WRONG_IF_FREE(data_of_a_library)
{
    int wrong = 0;
#pragma omp parallel /* own */
    library_begin();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for reduction(+ : wrong) /* own */
        for (int i = 0; i < N; i++)
            wrong += library_step(i) != i % 100 + 1;
    }
    return wrong;
}

WRONG_IF_FREE(variable_of_a_library)
{
    long total = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for /* own */
        for (int i = 0; i < N; i++)
            library_data++;
    }
#pragma omp parallel reduction(+ : total) /* own */
    total += library_data;
    return total != (long)ROUNDS * N;
}

/* Which CPU it is changes at any time: a correct program only takes it as a hint. */
CASE(counters_by_processor)
{
    static long counters[64];
    long total = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for
        for (int i = 0; i < N; i++)
            __atomic_fetch_add(&counters[sched_getcpu() & 63], 1, __ATOMIC_RELAXED);
    }
    for (int k = 0; k < 64; k++)
        total += counters[k];
    return total != (long)ROUNDS * N;
}

static __thread int scratch[32];

CASE(scratch_written_first)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for reduction(+ : wrong)
        for (int i = 0; i < N; i++) {
            int found = 0;
            for (int k = 0; k < 32; k++)
                scratch[k] = i + k;
            for (int k = 0; k < 32; k++)
                found += scratch[k];
            wrong += found != 32 * i + 496;
        }
    }
    return wrong;
}
