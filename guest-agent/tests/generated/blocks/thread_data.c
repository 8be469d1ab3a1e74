//// Thread-private data. `persists`: it must stay from one region to the next, so no other region may have another size.
//// kind data_scratch any
static __thread u64 @name@_s[@K@ + 8];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h) @SCHEDULE@
    for (int i = 0; i < @N@ / 4; i++) {
        for (int k = 0; k < @K@ + 8; k++)
            @name@_s[k] = (u64)(i * k) + round;
        for (int k = 0; k < @K@ + 8; k++)
            h += @name@_s[k] ^ (u64)k;
    }
    return h;
}
//// kind data_scratch_threadprivate any
static u64 @name@_s[@K@ + 8];
#pragma omp threadprivate(@name@_s)
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel reduction(+ : h)
    {
#pragma omp for
        for (int i = 0; i < @N@ / 4; i++) {
            memset(@name@_s, 0, sizeof @name@_s);
            for (int k = 0; k < 32; k++)
                @name@_s[(i * k) % (@K@ + 8)] += round;
            for (int k = 0; k < @K@ + 8; k++)
                h += @name@_s[k] * (u64)k;
        }
    }
    return h;
}
//// kind data_partly_written own persists
static __thread u64 @name@_s[32];
u64 @name@(unsigned round)
{
    static int made;
    u64 h = 0;
    if (!made++) {
#pragma omp parallel
        for (int k = 0; k < 32; k++)
            @name@_s[k] = (u64)k + 5;
    }
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < @N@ / 4; i++) {
        for (int k = 0; k < 32 - @K@; k++)
            @name@_s[k] = (u64)(i + k) + round;
        for (int k = 0; k < 32; k++)
            h += @name@_s[k];
    }
    return h;
}
//// kind data_written_if own persists
static __thread u64 @name@_s;
u64 @name@(unsigned round)
{
    static int made;
    u64 h = 0;
    if (!made++) {
#pragma omp parallel
        @name@_s = 77;
    }
#pragma omp parallel reduction(+ : h)
    {
        if (round % 3 == 0)
            @name@_s = round;
        h += @name@_s;
    }
    return h;
}
//// kind data_accumulated own persists
static __thread u64 @name@_s;
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for @(schedule(static)@@schedule(dynamic, 7))@
    for (int i = 0; i < @N@; i++)
        @name@_s += (u64)i ^ round;
#pragma omp parallel
    {
#pragma omp @(atomic@@critical)@
        h += @name@_s;
        @(@name@_s = 0;@@)@
    }
    return h;
}
//// kind data_threadprivate_sum own persists
static u64 @name@_s;
#pragma omp threadprivate(@name@_s)
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < @N@; i++)
            @name@_s += (u64)i + round;
    }
#pragma omp parallel reduction(+ : h)
    h += @name@_s;
    return h;
}
//// kind data_copyin any
static u64 @name@_s[4];
#pragma omp threadprivate(@name@_s)
u64 @name@(unsigned round)
{
    u64 h = 0;
    for (int k = 0; k < 4; k++)
        @name@_s[k] = round + (u64)k;
#pragma omp parallel for copyin(@name@_s) reduction(+ : h)
    for (int i = 0; i < @N@; i++)
        h += @name@_s[i & 3] + (u64)i;
    return h;
}
//// kind data_first_touch own persists
static __thread u64 *@name@_p;
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        if (!@name@_p)
            @name@_p = (u64 *)calloc(32, sizeof(u64));
#pragma omp for
        for (int i = 0; i < @N@; i++)
            @name@_p[i % 32] += round;
    }
#pragma omp parallel reduction(+ : h)
    for (int k = 0; @name@_p && k < 32; k++)
        h += @name@_p[k];
    return h;
}
//// kind data_random own persists
static __thread unsigned @name@_seed;
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel reduction(+ : h)
    {
        if (!@name@_seed)
            @name@_seed = 1u + (unsigned)omp_get_thread_num();
        for (int k = 0; k < 8; k++)
            h += @(rand_r(&@name@_seed)@@(@name@_seed = @name@_seed * 1103515245u + 12345u))@ & 0xffff;
    }
    return mix(h, round);
}
//// kind data_thread_id own persists
static __thread int @name@_id;
static int @name@_next;
u64 @name@(unsigned round)
{
    static u64 sums[65];
    u64 h = 0;
#pragma omp parallel
    {
        if (!@name@_id)
            @name@_id = __atomic_add_fetch(&@name@_next, 1, __ATOMIC_RELAXED);
        if (@name@_id < 65)
            sums[@name@_id] += round;
    }
    for (int t = 0; t < 65; t++)
        h = mix(h, sums[t]);
    return mix(h, (u64)@name@_next);
}
//// kind data_number_kept own persists
static __thread int @name@_t = -1;
@from_number@
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    {
        if (@name@_t < 0)
            @name@_t = omp_get_thread_num();
        for (int i = @name@_t; i < @N@; i += n)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind data_range_kept own persists
static __thread int @name@_begin, @name@_end;
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    static int made;
    u64 h = 0;
    if (!made++) {
#pragma omp parallel
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            @name@_begin = t * @N@ / n;
            @name@_end = (t + 1) * @N@ / n;
        }
    }
#pragma omp parallel
    for (int i = @name@_begin; i < @name@_end; i++)
        @name@_a[i] += round + (u64)i;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind data_elsewhere own persists
u64 @name@(unsigned round)
{
    static int made;
    u64 h = 0;
    if (!made++) {
#pragma omp parallel
        @name@_begin();
    }
#pragma omp parallel for reduction(+ : h) @(schedule(static)@@schedule(dynamic))@
    for (int i = 0; i < @N@ / 8; i++)
        h += @name@_step(i, round);
    return h;
}
//// other
static __thread u64 *@name@_work;
void @name@_begin(void)
{
    @name@_work = (u64 *)malloc(16 * sizeof(u64));
    for (int k = 0; k < 16; k++)
        @name@_work[k] = (u64)k * 3;
}
u64 @name@_step(int i, unsigned round)
{
    return @name@_work ? @name@_work[i % 16] + round : 0;
}
//// kind data_extern own persists
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for
    for (int i = 0; i < @N@; i++)
        @name@_shared_data += (u64)i + round;
#pragma omp parallel reduction(+ : h)
    h += @name@_shared_data;
    return h;
}
//// other
__thread u64 @name@_shared_data;
//// kind data_key own persists
static pthread_key_t @name@_key;
u64 @name@(unsigned round)
{
    static int made;
    u64 h = 0;
    if (!made++)
        pthread_key_create(&@name@_key, NULL);
#pragma omp parallel
    {
        u64 sum = (u64)(uintptr_t)pthread_getspecific(@name@_key);
#pragma omp for
        for (int i = 0; i < @N@; i++)
            sum += (u64)i ^ round;
        pthread_setspecific(@name@_key, (void *)(uintptr_t)sum);
    }
#pragma omp parallel reduction(+ : h)
    h += (u64)(uintptr_t)pthread_getspecific(@name@_key);
    return h;
}
//// kind data_published own persists
static __thread u64 @name@_s;
u64 @name@(unsigned round)
{
    static u64 *where[64];
    u64 h = 0;
#pragma omp parallel
    {
        where[omp_get_thread_num()] = &@name@_s;
#pragma omp for
        for (int i = 0; i < @N@; i++)
            @name@_s += round;
    }
    for (int t = 0; t < 64; t++)
        if (where[t])
            h += *where[t];
    return h;
}
//// kind data_self own persists
static pthread_t @name@_threads[64];
static int @name@_known;
u64 @name@(unsigned round)
{
    u64 h = 0;
    int unknown = 0;
    if (!@name@_known) {
#pragma omp parallel
        {
            @name@_threads[omp_get_thread_num()] = pthread_self();
#pragma omp single
            @name@_known = omp_get_num_threads();
        }
    }
#pragma omp parallel reduction(+ : h, unknown)
    {
        int found = 0;
        for (int t = 0; t < @name@_known; t++)
            if (pthread_equal(@name@_threads[t], pthread_self())) {
                h += (u64)(t + 1) * round;
                found = 1;
            }
        unknown += !found;
    }
    return mix(h, (u64)unknown);
}
//// kind data_errno any
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < @N@ / 8; i++) {
        char text[24];
        snprintf(text, sizeof text, "%d", i);
        errno = 0;
        h += (u64)strtol(text, NULL, 10) + (u64)errno + round;
    }
    return h;
}
