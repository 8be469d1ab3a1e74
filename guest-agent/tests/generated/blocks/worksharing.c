//// Loops and other constructs of which the result does not depend on the team.
//// kind for free
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        @name@_a[i] += (u64)i * (round + @K@);
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind reduction free
u64 @name@(unsigned round)
{
    u64 sum = round, bits = 0, most = 0;
#pragma omp parallel for @SCHEDULE@ reduction(+ : sum) reduction(^ : bits) reduction(max : most)
    for (int i = 0; i < @N@; i++) {
        u64 value = ((u64)i * 2654435761u) ^ round;
        sum += value;
        bits ^= value << (i & 31);
        if (value > most)
            most = value;
    }
    return mix(mix(sum, bits), most);
}
//// kind array_reduction free
u64 @name@(unsigned round)
{
    u64 bins[@K@] = {0}, h = 0;
#pragma omp parallel for @SCHEDULE@ reduction(+ : bins[:@K@])
    for (int i = 0; i < @N@; i++)
        bins[i % @K@] += round + (u64)i;
    for (int k = 0; k < @K@; k++)
        h = mix(h, bins[k]);
    return h;
}
//// kind collapse free
static unsigned @name@_a[@K@][@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for collapse(2) @SCHEDULE@
    for (int k = 0; k < @K@; k++)
        for (int i = 0; i < @N@; i++)
            @name@_a[k][i] = @name@_a[k][i] * 3 + round + (unsigned)i;
    for (int k = 0; k < @K@; k++)
        h = mix(h, @name@_a[k][(round * 7u) % @N@u]);
    return h;
}
//// kind phases free
static u64 @name@_a[@N@], @name@_b[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel @(@@default(shared))@
    {
#pragma omp for @SCHEDULE@
        for (int i = 0; i < @N@; i++)
            @name@_a[i] = (u64)i + round;
#pragma omp for @SCHEDULE@ @(@@nowait)@
        for (int i = 0; i < @N@; i++)
            @name@_b[i] = @name@_a[(i * 7 + 3) % @N@] * 5;
#pragma omp barrier
#pragma omp @(single@@master@@single nowait)@
        for (int i = 0; i < @N@; i++)
            h = mix(h, @name@_b[i]);
    }
    return h;
}
//// kind nowait free
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < @N@; i++)
            @name@_a[i] += round;
#pragma omp for schedule(static) nowait
        for (int i = 0; i < @N@; i++)
            @name@_a[i] *= 3;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind ordered free
u64 @name@(unsigned round)
{
    u64 h = round;
#pragma omp parallel for ordered schedule(@(static, 1@@dynamic@@static@@guided)@)
    for (int i = 0; i < 24; i++) {
        u64 value = (u64)i * 77;
#pragma omp ordered
        h = mix(h, value);
    }
    return h;
}
//// kind sections free
u64 @name@(unsigned round)
{
    u64 a = 0, b = 0, c = 0;
#pragma omp parallel sections
    {
#pragma omp section
        for (int i = 0; i < @N@; i++)
            a += (u64)i * round;
#pragma omp section
        for (int i = 0; i < @N@; i++)
            b ^= (u64)i + round;
#pragma omp section
        c = round;
    }
    return mix(mix(a, b), c);
}
//// kind critical free
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        u64 mine = 0;
#pragma omp for nowait
        for (int i = 0; i < @N@; i++)
            mine += (u64)i ^ round;
#pragma omp @(critical@@atomic@@critical (name))@
        h += mine;
    }
    return h;
}
//// kind lock any
static omp_lock_t @name@_lock;
u64 @name@(unsigned round)
{
    u64 h = 0;
    static int made;
    if (!made++)
        omp_init_lock(&@name@_lock);
#pragma omp parallel for
    for (int i = 0; i < @N@; i += 16) {
        omp_set_lock(&@name@_lock);
        h += (u64)i * round;
        omp_unset_lock(&@name@_lock);
    }
    return h;
}
//// kind lastprivate free
u64 @name@(unsigned round)
{
    int last = 0, first = (int)round;
/* libomp 14 gives wrong values with the non-monotonic dynamic schedule. */
#pragma omp parallel for lastprivate(last) firstprivate(first) \
    @(schedule(static)@@schedule(static, 7)@@schedule(guided)@@schedule(monotonic : dynamic, 5))@
    for (int i = 0; i < @N@; i++)
        last = i * 3 + first;
    return (u64)last;
}
//// kind copyprivate free
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel reduction(+ : h)
    {
        u64 shared_value;
#pragma omp single copyprivate(shared_value)
        shared_value = round * 3u;
#pragma omp for
        for (int i = 0; i < @N@; i++)
            h += shared_value + (u64)i;
    }
    return h;
}
//// kind doacross free
static u64 @name@_a[@K@ + 1][10];
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (round % 16 != 1) /* threads that wait here do not let others run */
        return round;
    @name@_a[0][0] = round;
#pragma omp parallel for ordered(2) schedule(@(static, 1@@dynamic@@static)@)
    for (int k = 1; k <= @K@; k++)
        for (int i = 1; i < 9; i++) {
#pragma omp ordered depend(sink : k - 1, i) depend(sink : k, i - 1)
            @name@_a[k][i] = mix(@name@_a[k - 1][i], @name@_a[k][i - 1]);
#pragma omp ordered depend(source)
        }
    for (int i = 0; i < 9; i++)
        h = mix(h, @name@_a[@K@][i]);
    return h;
}
//// kind stencil free
static double @name@_a[2][@N@ + 2];
u64 @name@(unsigned round)
{
    double sum = 0;
#pragma omp parallel
    for (int step = 0; step < 3; step++) {
        double *from = @name@_a[step & 1], *to = @name@_a[~step & 1];
#pragma omp for schedule(static)
        for (int i = 1; i <= @N@; i++)
            to[i] = (double)((long)(from[i - 1] + from[i + 1] + i + round) % 4096);
    }
    for (int i = 1; i <= @N@; i++)
        sum += @name@_a[1][i];
    return (u64)sum;
}
//// kind gather free
static int @name@_row[@N@ + 1], @name@_column[@N@ * 3];
static double @name@_x[@N@], @name@_y[@N@];
u64 @name@(unsigned round)
{
    double sum = 0;
    for (int i = 0; i <= @N@; i++)
        @name@_row[i] = i * 3;
    for (int i = 0; i < @N@ * 3; i++)
        @name@_column[i] = (i * 31 + 7) % @N@;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < @N@; i++)
            @name@_x[i] = i % 17 + (int)(round % 5);
#pragma omp for
        for (int i = 0; i < @N@; i++) {
            double s = 0;
            for (int k = @name@_row[i]; k < @name@_row[i + 1]; k++)
                s += @name@_x[@name@_column[k]] * 2;
            @name@_y[i] = s;
        }
#pragma omp for reduction(+ : sum)
        for (int i = 0; i < @N@; i++)
            sum += @name@_y[i];
    }
    return (u64)sum;
}
//// kind scratch_stack free
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h) @SCHEDULE@
    for (int i = 0; i < @N@ / 4; i++) {
        u64 scratch[@K@ + 4];
        for (int k = 0; k < @K@ + 4; k++)
            scratch[k] = (u64)(i * k) ^ round;
        for (int k = 0; k < @K@ + 4; k++)
            h += scratch[(k * 5 + i) % (@K@ + 4)];
    }
    return h;
}
//// kind known_calls free
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < @N@ / 4; i++) {
        unsigned char *bytes = (unsigned char *)malloc(64), other[64];
        memset(bytes, i & 255, 64);
        memcpy(other, bytes, 64);
        h += (u64)@(sqrt((double)i * 16)@@floor(i * 0.5)@@fabs(-1.0 * i))@ + other[round % 64] + strlen("four");
        free(bytes);
    }
    return h;
}
//// kind runtime any
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
    omp_set_schedule(@(omp_sched_static@@omp_sched_dynamic@@omp_sched_guided)@, @(0@@3)@);
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < @N@; i++)
        @name@_a[i] += (u64)i * round;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind simd free
static unsigned @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for simd @(@@schedule(static, 16)@@schedule(dynamic, 16))@
    for (int i = 0; i < @N@; i++)
        @name@_a[i] = @name@_a[i] * 5u + (unsigned)i + round;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind scan any
u64 @name@(unsigned round)
{
    static u64 a[@N@];
    u64 sum = 0, h = 0;
#pragma omp parallel for reduction(inscan, + : sum)
    for (int i = 0; i < @N@; i++) {
        sum += (u64)i + round;
#pragma omp scan inclusive(sum)
        a[i] = sum;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, a[i]);
    return h;
}
//// kind orphaned free
static u64 @name@_a[@N@];
static void __attribute__((noinline)) @name@_loop(unsigned round)
{
#pragma omp for @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        @name@_a[i] += (u64)i + round;
}
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        @name@_loop(round);
#pragma omp single
        for (int i = 0; i < @N@; i++)
            h = mix(h, @name@_a[i]);
    }
    return h;
}
//// kind orphaned_elsewhere any
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    @name@_there(@name@_a, round);
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// other
void @name@_there(u64 *a, unsigned round)
{
#pragma omp for @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        a[i] += (u64)i + round;
}
//// kind called_elsewhere any
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < @N@; i++)
        h += @name@_there((u64)i, round);
    return h;
}
//// other
u64 @name@_there(u64 i, unsigned round)
{
    return i * 11 + round;
}
//// kind pointer any
static u64 @name@_twice(u64 i) { return 2 * i; }
static u64 @name@_square(u64 i) { return i * i; }
static u64 (*@name@_operation[2])(u64) = {@name@_twice, @name@_square};
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h) @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        h += @name@_operation[(unsigned)i + round & 1]((u64)i);
    return h;
}
//// kind sort any
static int @name@_compare(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}
u64 @name@(unsigned round)
{
    static int a[8][32];
    u64 h = 0;
#pragma omp parallel for
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 32; i++)
            a[k][i] = (int)((unsigned)(i * 37 + k) * (round + 1) % 101);
        qsort(a[k], 32, sizeof(int), @name@_compare);
    }
    for (int k = 0; k < 8; k++)
        h = mix(h, (u64)a[k][16]);
    return h;
}
//// kind cancel any
u64 @name@(unsigned round)
{
    int found = 0;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < @N@; i++) {
            if (i == (int)(round % @N@u)) {
#pragma omp atomic write
                found = 1;
#pragma omp cancel for
            }
#pragma omp cancellation point for
        }
    }
    return (u64)found;
}
//// Of the next one: libomp 14 aborts when a dynamic loop is cancelled.
//// kind cancel_dynamic any gcc
u64 @name@(unsigned round)
{
    int found = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < @N@; i++) {
            if (i == (int)(round % @N@u)) {
#pragma omp atomic write
                found = 1;
#pragma omp cancel for
            }
#pragma omp cancellation point for
        }
    }
    return (u64)found;
}
//// And of this one: libomp 14 hangs.
//// kind cancel_parallel any gcc
u64 @name@(unsigned round)
{
    int found = 0;
#pragma omp parallel
    {
#pragma omp single
        {
#pragma omp atomic write
            found = 1;
        }
#pragma omp cancel parallel if (round % 4 == 0)
    }
    return mix((u64)found, round);
}
//// kind ticket free
u64 @name@(unsigned round)
{
    int next = 0;
    u64 h = 0;
#pragma omp parallel
    {
        u64 mine = 0;
        for (;;) {
            int i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
            if (i >= 64)
                break;
            mine += (u64)i * round;
        }
#pragma omp atomic
        h += mine;
    }
    return h;
}
//// kind histogram free
u64 @name@(unsigned round)
{
    unsigned bins[16] = {0};
    u64 h = 0;
#pragma omp parallel for
    for (int i = 0; i < @N@; i++) {
        unsigned bin = ((unsigned)i * 7u + round) & 15u;
#pragma omp atomic
        bins[bin]++;
    }
    for (int k = 0; k < 16; k++)
        h = mix(h, bins[k]);
    return h;
}
