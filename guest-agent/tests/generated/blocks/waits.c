//// Threads that wait for others, and work that exactly one of them does.
//// kind ring own
@from_number@
u64 @name@(unsigned round)
{
    static int flags[66];
    int n = @number@();
    u64 h = round;
    for (int t = 0; t <= n; t++)
        flags[t] = 0;
    flags[0] = 1;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        while (!__atomic_load_n(&flags[t], __ATOMIC_ACQUIRE))
            @PAUSE@;
        h = mix(h, (u64)t);
        __atomic_store_n(&flags[t + 1], 1, __ATOMIC_RELEASE);
        if (t == 0)
            while (!__atomic_load_n(&flags[n], __ATOMIC_ACQUIRE))
                @PAUSE@;
    }
    return h;
}
//// kind pipeline any
static u64 @name@_a[8][@N@];
static int @name@_done[66];
u64 @name@(unsigned round)
{
    u64 h = 0;
    memset(@name@_done, 0, sizeof @name@_done);
#pragma omp parallel
    {
        int n = omp_get_num_threads(), t = omp_get_thread_num();
        for (int k = 1; k < 8; k++) {
            if (t > 0)
                while (__atomic_load_n(&@name@_done[t - 1], __ATOMIC_ACQUIRE) < k)
                    @PAUSE@;
            for (int i = t * @N@ / n; i < (t + 1) * @N@ / n; i++)
                @name@_a[k][i] = @name@_a[k - 1][i] + (i ? @name@_a[k][i - 1] : round);
            __atomic_store_n(&@name@_done[t], k, __ATOMIC_RELEASE);
        }
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[7][i]);
    return h;
}
//// kind waiting_sections own
u64 @name@(unsigned round)
{
    int ready = 0;
    u64 a = 0, b = 0;
#pragma omp parallel sections
    {
#pragma omp section
        {
            while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
                @PAUSE@;
            a = round;
        }
#pragma omp section
        {
            b = round * 3u;
            __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
        }
    }
    return mix(a, b);
}
//// kind hand_barrier own
@from_number@
u64 @name@(unsigned round)
{
    static int arrived, phase;
    static u64 a[64];
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num(), before = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
        a[t] = round + (u64)t;
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == n) {
            arrived = 0;
            __atomic_store_n(&phase, before + 1, __ATOMIC_RELEASE);
        } else {
            while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == before)
                @PAUSE@;
        }
#pragma omp atomic
        h += a[(t + 1) % n];
    }
    return h;
}
//// kind hand_barrier_in_region any
u64 @name@(unsigned round)
{
    static int arrived, phase;
    u64 h = 0;
    int done = 0;
#pragma omp parallel
    {
        int n = omp_get_num_threads(), before = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
#pragma omp for nowait
        for (int i = 0; i < @N@; i++)
            __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
        if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == n) {
            arrived = 0;
            __atomic_store_n(&phase, before + 1, __ATOMIC_RELEASE);
        } else {
            while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == before)
                @PAUSE@;
        }
#pragma omp single
        h = (u64)done + round;
    }
    return h;
}
//// kind last_arrival own
@from_number@
u64 @name@(unsigned round)
{
    static int arrived;
    static u64 total;
    int n = @number@();
    u64 sum = 0;
    arrived = 0;
#pragma omp parallel
    {
        __atomic_fetch_add(&sum, 1, __ATOMIC_ACQ_REL);
        if (__atomic_fetch_add(&arrived, 1, __ATOMIC_ACQ_REL) == n - 1)
            total += sum * round;
    }
    return total;
}
//// kind last_thread free
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num(), n = omp_get_num_threads();
        if (t == @(n - 1@@0@@n / 2)@)
            h += round;
    }
    return h;
}
//// kind first_and_last own
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        if (t == 0)
            __atomic_fetch_add(&h, round, __ATOMIC_RELAXED);
        if (t == 1)
            __atomic_fetch_add(&h, 1000003, __ATOMIC_RELAXED);
    }
    return h;
}
//// kind producer own
u64 @name@(unsigned round)
{
    static u64 slot[16];
    static int filled;
    u64 h = 0;
    filled = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        if (t == 0) {
            for (int i = 0; i < 16; i++) {
                slot[i] = round + (u64)i;
                __atomic_store_n(&filled, i + 1, __ATOMIC_RELEASE);
            }
        } else if (t == 1) {
            for (int i = 0; i < 16; i++) {
                while (__atomic_load_n(&filled, __ATOMIC_ACQUIRE) <= i)
                    @PAUSE@;
                h = mix(h, slot[i]);
            }
        }
    }
    return h;
}
//// kind waits_for_thread_1 own
u64 @name@(unsigned round)
{
    volatile int flag = 0;
    u64 h = 0;
#pragma omp parallel shared(flag)
    {
        if (omp_get_thread_num() == 1) {
#pragma omp @(flush@@atomic write)@
            flag = 1;
        }
        if (omp_get_thread_num() == 0) {
            while (!flag)
                @PAUSE@;
            h = round;
        }
    }
    return h;
}
//// kind pthread_barrier own
@from_number@
u64 @name@(unsigned round)
{
    static pthread_barrier_t barrier;
    static int made;
    u64 h = 0;
    if (!made++)
        pthread_barrier_init(&barrier, NULL, (unsigned)@number@());
#pragma omp parallel
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        h += round;
    return h;
}
//// kind semaphore own
u64 @name@(unsigned round)
{
    static sem_t there, back;
    static int made;
    u64 h = 0;
    if (!made++) {
        sem_init(&there, 0, 0);
        sem_init(&back, 0, 0);
    }
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        if (t == 0) {
            sem_post(&there);
            while (sem_wait(&back) != 0)
                ;
            h += round;
        } else if (t == 1) {
            while (sem_wait(&there) != 0)
                ;
            sem_post(&back);
        }
    }
    return h;
}
//// kind all_arrive own
@from_number@
u64 @name@(unsigned round)
{
    int n = @number@(), arrived = 0;
    u64 h = 0;
#pragma omp parallel
    {
#pragma omp atomic
        arrived++;
#pragma omp master
        {
            int seen = 0;
            while (seen < n) {
#pragma omp atomic read
                seen = arrived;
                @PAUSE@;
            }
            h = round;
        }
    }
    return h;
}
