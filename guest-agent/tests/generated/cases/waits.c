/* Threads that wait for each other. A team that is too small hangs. */
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include "case.h"

#undef ROUNDS
#define ROUNDS 100

static inline int get(int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static inline void set(int *flag, int value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

WRONG_IF_FREE(sections)
{
    for (int round = 0; round < ROUNDS; round++) {
        int ready = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            while (!get(&ready))
                sched_yield();
#pragma omp section
            set(&ready, 1);
        }
    }
    return 0;
}

WRONG_IF_FREE(sections_that_spin)
{
    for (int round = 0; round < ROUNDS / 10; round++) {
        static volatile int ready;
        ready = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            while (!ready)
                ;
#pragma omp section
            ready = 1;
        }
    }
    return 0;
}

WRONG_IF_FREE(first_waits_for_second)
{
    for (int round = 0; round < ROUNDS; round++) {
        int flag = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1)
                set(&flag, 1);
            if (omp_get_thread_num() == 0)
                while (!get(&flag))
                    sched_yield();
        }
    }
    return 0;
}

WRONG_IF_FREE(ring)
{
    int n = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
        int flags[64] = {1};
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            while (!get(&flags[t]))
                sched_yield();
            set(&flags[t + 1], 1);
            while (t == 0 && !get(&flags[n]))
                sched_yield();
        }
    }
    return 0;
}

WRONG_IF_FREE(hand_barrier)
{
    int n = omp_get_max_threads(), arrived = 0, phase = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int before = get(&phase);
            if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == n) {
                arrived = 0;
                set(&phase, before + 1);
            } else {
                while (get(&phase) == before)
                    sched_yield();
            }
        }
    }
    return phase != ROUNDS;
}

CASE(hand_barrier_of_the_team)
{
    int arrived = 0, phase = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel
        {
            int n = omp_get_num_threads(), before = get(&phase);
            if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == n) {
                arrived = 0;
                set(&phase, before + 1);
            } else {
                while (get(&phase) == before)
                    sched_yield();
            }
        }
    }
    return phase != ROUNDS;
}

CASE(pipeline_of_the_team)
{
    static long a[9][N + 1];
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int flags[64] = {0};
        memset(a, 0, sizeof a);
        a[0][0] = 1;
#pragma omp parallel
        {
            int n = omp_get_num_threads(), t = omp_get_thread_num();
            for (int k = 1; k < 9; k++) {
                while (t > 0 && get(&flags[t - 1]) < k)
                    sched_yield();
                for (int i = t * N / n + 1; i <= (t + 1) * N / n; i++)
                    a[k][i] = a[k][i - 1] + a[k - 1][i] + 1;
                set(&flags[t], k);
            }
        }
        wrong += a[1][N] != N || a[2][N] != (long)N * (N + 3) / 2;
    }
    return wrong;
}

WRONG_IF_FREE(pthread_barrier)
{
    pthread_barrier_t barrier;
    int serial = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)omp_get_max_threads());
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
    }
    pthread_barrier_destroy(&barrier);
    return serial != ROUNDS;
}

WRONG_IF_FREE(semaphore)
{
    sem_t there;
    sem_init(&there, 0, 0);
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1)
                sem_post(&there);
            if (omp_get_thread_num() == 0)
                while (sem_wait(&there) != 0)
                    ;
        }
    }
    return 0;
}

WRONG_IF_FREE(condition)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
    int n = omp_get_max_threads(), here = 0;
    for (int round = 1; round <= ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            pthread_mutex_lock(&mutex);
            if (++here == n * round)
                pthread_cond_broadcast(&all_here);
            while (here < n * round)
                pthread_cond_wait(&all_here, &mutex);
            pthread_mutex_unlock(&mutex);
        }
    }
    return here != n * ROUNDS;
}

WRONG_IF_FREE(pipe_between_threads)
{
    int ends[2], wrong = 0;
    if (pipe(ends) != 0)
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        char got = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1 && write(ends[1], "x", 1) != 1)
                abort();
            if (omp_get_thread_num() == 0 && read(ends[0], &got, 1) != 1)
                abort();
        }
        wrong += got != 'x';
    }
    close(ends[0]);
    close(ends[1]);
    return wrong;
}

WRONG_IF_FREE(futex)
{
    for (int round = 0; round < ROUNDS; round++) {
        int word = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1) {
                set(&word, 1);
                syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
            }
            if (omp_get_thread_num() == 0)
                while (!get(&word))
                    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        }
    }
    return 0;
}

WRONG_IF_FREE(waits_for_all)
{
    int n = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
        int arrived = 0;
#pragma omp parallel /* own */
        {
#pragma omp atomic
            arrived++;
#pragma omp master
            {
                int seen = 0;
                while (seen < n) {
#pragma omp atomic read
                    seen = arrived;
                    sched_yield();
                }
            }
        }
    }
    return 0;
}

WRONG_IF_FREE(earlier_iteration_waits_for_later)
{
    for (int round = 0; round < ROUNDS; round++) {
        int flags[2] = {0, 0};
#pragma omp parallel for schedule(static, 1) /* own */
        for (int i = 0; i < 2; i++) {
            set(&flags[i], 1);
            while (!get(&flags[1 - i]))
                sched_yield();
        }
    }
    return 0;
}

CASE(later_iteration_waits_for_earlier)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int flags[33] = {1}, order = 0;
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < 32; i++) {
            while (!get(&flags[i]))
                sched_yield();
            order = order * 3 % 1000 + i;
            set(&flags[i + 1], 1);
        }
        int expected = 0;
        for (int i = 0; i < 32; i++)
            expected = expected * 3 % 1000 + i;
        wrong += order != expected;
    }
    return wrong;
}

WRONG_IF_FREE(producer_and_consumer)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int slots[16], filled = 0, sum = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            for (int i = 0; t == 0 && i < 16; i++) {
                slots[i] = i;
                set(&filled, i + 1);
            }
            for (int i = 0; t == 1 && i < 16; i++) {
                while (get(&filled) <= i)
                    sched_yield();
                sum += slots[i];
            }
        }
        wrong += sum != 120;
    }
    return wrong;
}

WRONG_IF_FREE(two_chat)
{
    for (int round = 0; round < ROUNDS; round++) {
        int turn = 0;
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            for (int k = t; t < 2 && k < 10; k += 2) {
                while (get(&turn) != k)
                    sched_yield();
                set(&turn, k + 1);
            }
        }
    }
    return 0;
}

WRONG_IF_FREE(waits_by_task_yield)
{
    for (int round = 0; round < ROUNDS; round++) {
        int flag = 0;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1)
                set(&flag, 1);
            if (omp_get_thread_num() == 0)
                while (!get(&flag)) {
#pragma omp taskyield
                }
        }
    }
    return 0;
}

WRONG_IF_FREE(each_waits_for_the_next)
{
    int n = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
        int here[64] = {0};
#pragma omp parallel /* own */
        {
            int t = omp_get_thread_num();
            set(&here[t], 1);
            while (!get(&here[(t + 1) % n]))
                sched_yield();
        }
    }
    return 0;
}

WRONG_IF_FREE(a_limit_of_tries)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS / 10; round++) {
        int flag = 0, late = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            {
                for (int k = 0; !get(&flag) && k < 2000; k++)
                    usleep(100);
                late = !get(&flag);
            }
#pragma omp section
            set(&flag, 1);
        }
        wrong += late;
    }
    return wrong;
}

WRONG_IF_FREE(one_of_several_places)
{
    static volatile int slots[4];
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int got = 0;
        for (int k = 0; k < 4; k++)
            slots[k] = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            {
                int k = 0;
                while (!slots[k]) {
                    k = (k + 1) % 4;
                    sched_yield();
                }
                got = k;
            }
#pragma omp section
            slots[2] = 1;
        }
        wrong += got != 2;
    }
    return wrong;
}

struct node {
    struct node *volatile next;
    volatile int state;
};
static struct node ring_of_nodes[2];

WRONG_IF_FREE(round_a_ring_of_nodes)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 2; k++) {
            ring_of_nodes[k].next = &ring_of_nodes[1 - k];
            ring_of_nodes[k].state = 0;
        }
#pragma omp parallel sections /* own */
        {
#pragma omp section
            {
                struct node *p = &ring_of_nodes[0];
                while (!p->state)
                    p = p->next;
            }
#pragma omp section
            ring_of_nodes[1].state = 1;
        }
    }
    return 0;
}

WRONG_IF_FREE(sum_of_flags)
{
    static volatile int flag;
    for (int round = 0; round < ROUNDS; round++) {
        flag = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            {
                int seen = 0;
                while (seen < 3)
                    seen += flag;
            }
#pragma omp section
            flag = 1;
        }
    }
    return 0;
}

WRONG_IF_FREE(until_a_branch_has_seen_it)
{
    static volatile int flag;
    for (int round = 0; round < ROUNDS; round++) {
        flag = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            {
                volatile int got = 0;
                while (!got)
                    if (flag)
                        got = 1;
            }
#pragma omp section
            flag = 1;
        }
    }
    return 0;
}

WRONG_IF_FREE(slots_as_a_barrier)
{
    for (int round = 0; round < ROUNDS; round++) {
        static volatile int here[4];
        for (int k = 0; k < 4; k++)
            here[k] = 0;
#pragma omp parallel for schedule(static, 1) /* own */
        for (int i = 0; i < 4; i++) {
            here[i] = 1;
            int k = 0;
            while (k < 4)
                if (here[k])
                    k++;
        }
    }
    return 0;
}

static char word[8];
static volatile int none;

WRONG_IF_FREE(compared_by_a_function)
{
    for (int round = 0; round < ROUNDS; round++) {
        memset(word, 0, sizeof word);
#pragma omp parallel sections /* own */
        {
#pragma omp section
            while (memcmp(word, "ab", (size_t)(2 + none)) != 0)
                sched_yield();
#pragma omp section
            {
                word[1] = 'b';
                word[0] = 'a';
            }
        }
    }
    return 0;
}

WRONG_IF_FREE(floating_point_flag)
{
    static volatile double ready;
    for (int round = 0; round < ROUNDS; round++) {
        ready = 0;
#pragma omp parallel sections /* own */
        {
#pragma omp section
            while (ready == 0)
                sched_yield();
#pragma omp section
            ready = 1;
        }
    }
    return 0;
}

WRONG_IF_FREE(for_ever_in_a_small_team)
{
    int told = omp_get_max_threads();
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            int n = omp_get_num_threads();
            while (n < told)
                __asm__ volatile("" : : : "memory");
        }
    }
    return 0;
}

/* What ends these loops is what they do themselves. */
CASE(loops_that_end_by_themselves)
{
    static int table[64], list[N];
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 64; k++)
            table[k] = k * 3;
#pragma omp parallel for
        for (int i = 0; i < N; i++) {
            int digits = 0, k = 0;
            for (int v = table[i % 64] + 1; v > 0; v /= 10)
                digits++;
            while (table[k] < i % 64)
                k++;
            list[i] = digits > 0 && table[k] >= i % 64;
        }
        for (int i = 0; i < N; i++)
            wrong += !list[i];
    }
    return wrong;
}

WRONG_IF_FREE(lock_that_another_opens)
{
    sem_t lock;
    sem_init(&lock, 0, 1);
    for (int round = 0; round < ROUNDS; round++) {
        while (sem_wait(&lock) != 0)
            ;
#pragma omp parallel /* own */
        {
            if (omp_get_thread_num() == 1)
                sem_post(&lock);
            if (omp_get_thread_num() == 0) {
                while (sem_wait(&lock) != 0)
                    ;
                sem_post(&lock);
            }
        }
    }
    return 0;
}
