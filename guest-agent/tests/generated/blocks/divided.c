//// Work that is divided by hand, with a number from anywhere; buffers by thread number.
//// kind divide_block own
@from_number@
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    {
        long t = omp_get_thread_num();
        for (long i = t * @N@ / n; i < (t + 1) * @N@ / n; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_cyclic own
@from_number@
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel @(@@firstprivate(n)@@default(shared))@
    for (int i = omp_get_thread_num(); i < @N@; i += n)
        @name@_a[i] += round + (u64)i;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_printed own
@from_number@
static u64 @name@_a[@N@];
static volatile int @name@_shown;
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
#pragma omp @(single@@master@@single nowait)@
        if (round % 64 == 0)
            @name@_shown = omp_get_num_threads();
        for (int i = t * @N@ / n; i < (t + 1) * @N@ / n; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return mix(h, (u64)@name@_shown);
}
//// kind divide_last own
@from_number@
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    int n = @number@(), chunk = @N@ / n;
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num(), end = (t + 1) * chunk;
        if (t == n - 1)
            end = @N@;
        for (int i = t * chunk; i < end; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_chunk own
@from_number@
static int @name@_chunk;
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (!@name@_chunk) {
        int n = @number@();
        @name@_chunk = (@N@ + n - 1) / n;
    }
#pragma omp parallel
    {
        int begin = omp_get_thread_num() * @name@_chunk, end = begin + @name@_chunk;
        for (int i = begin; i < end && i < @N@; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_bounds own
@from_number@
static int @name@_bounds[65];
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (!@name@_bounds[1]) {
        int n = @number@();
        for (int t = 0; t <= n; t++)
            @name@_bounds[t] = t * @N@ / n;
    }
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        for (int i = @name@_bounds[t]; i < @name@_bounds[t + 1]; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_bounds_in_region own
static int @name@_start[64], @name@_stop[64];
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (!@name@_stop[0]) {
#pragma omp parallel
        {
            int t = omp_get_thread_num(), n = omp_get_num_threads();
            @name@_start[t] = t * @N@ / n;
            @name@_stop[t] = (t + 1) * @N@ / n;
        }
    }
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        for (int i = @name@_start[t]; i < @name@_stop[t]; i++)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_in_region free
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int n = omp_get_num_threads(), t = omp_get_thread_num();
        for (int i = @(t * @N@ / n; i < (t + 1) * @N@ / n; i++@@t; i < @N@; i += n)@)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_asked_in_region own
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int n = omp_get_max_threads(), t = omp_get_thread_num();
        for (int i = t; i < @N@; i += n)
            @name@_a[i] += round + (u64)i;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind divide_callee own
@from_number@
static u64 @name@_a[@N@];
static void __attribute__((noinline)) @name@_part(int n, unsigned round)
{
    for (int i = @name@_mine(); i < @N@; i += n)
        @name@_a[i] += round + (u64)i;
}
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    @name@_part(n, round);
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// other
int @name@_mine(void)
{
    return omp_get_thread_num();
}
//// kind buffer_by_thread own
@from_number@
static u64 *@name@_sums;
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
    if (!@name@_sums)
        @name@_sums = (u64 *)calloc((size_t)n, sizeof(u64));
#pragma omp parallel
    {
        int t = omp_get_thread_num();
#pragma omp for @(schedule(static)@@schedule(dynamic, 5)@@nowait)@
        for (int i = 0; i < @N@; i++)
            @name@_sums[t] += round + (u64)i;
    }
    for (int t = 0; t < n; t++)
        h += @name@_sums[t];
    return h;
}
//// kind buffer_each_time own
@from_number@
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0, *sums = (u64 *)@(calloc((size_t)n, 64)@@memset(malloc((size_t)n * 64), 0, (size_t)n * 64))@;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        sums[t * 8] = round;
#pragma omp for
        for (int i = 0; i < @N@; i++)
            sums[t * 8] += (u64)i;
    }
    for (int t = 0; t < n; t++)
        h += sums[t * 8];
    free(sums);
    return h;
}
//// kind buffer_stack own
@from_number@
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0, *sums = (u64 *)__builtin_alloca((size_t)n * sizeof(u64));
    for (int t = 0; t < n; t++)
        sums[t] = 0;
#pragma omp parallel
    sums[omp_get_thread_num()] += round;
    for (int t = 0; t < n; t++)
        h = mix(h, sums[t]);
    return h;
}
//// kind buffer_filled_in_single own
static u64 *@name@_sums;
static int @name@_n;
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (!@name@_sums) {
#pragma omp parallel
#pragma omp single
        {
            @name@_n = omp_get_num_threads();
            @name@_sums = (u64 *)calloc((size_t)omp_get_num_threads(), sizeof(u64));
        }
    }
#pragma omp parallel
    @name@_sums[omp_get_thread_num()] += round;
    for (int t = 0; t < @name@_n; t++)
        h = mix(h, @name@_sums[t]);
    return h;
}
//// kind buffer_same_region free
u64 @name@(unsigned round)
{
    u64 h = 0, *sums = NULL;
#pragma omp parallel
    {
#pragma omp single
        sums = (u64 *)calloc((size_t)omp_get_num_threads(), sizeof(u64));
#pragma omp for
        for (int i = 0; i < @N@; i++)
            sums[omp_get_thread_num()] += round ^ (u64)i;
#pragma omp single
        for (int t = 0; t < omp_get_num_threads(); t++)
            h += sums[t];
    }
    free(sums);
    return h;
}
//// kind partial_then_merge own
@from_number@
static u64 @name@_part[64][16];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0, merged[16];
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        memset(@name@_part[t], 0, sizeof @name@_part[t]);
#pragma omp for
        for (int i = 0; i < @N@; i++)
            @name@_part[t][i % 16] += round + (u64)i;
    }
#pragma omp parallel for
    for (int bin = 0; bin < 16; bin++) {
        merged[bin] = 0;
        for (int t = 0; t < n; t++)
            merged[bin] += @name@_part[t][bin];
    }
    for (int bin = 0; bin < 16; bin++)
        h = mix(h, merged[bin]);
    return h;
}
//// kind lists_by_thread own
struct @name@_node { struct @name@_node *next; u64 value; };
static struct @name@_node @name@_nodes[@N@], *@name@_lists[64];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        @name@_lists[t] = NULL;
#pragma omp for schedule(@(static@@dynamic, 3)@)
        for (int i = 0; i < @N@; i++) {
            @name@_nodes[i].value = (u64)i * round;
            @name@_nodes[i].next = @name@_lists[t];
            @name@_lists[t] = &@name@_nodes[i];
        }
    }
#pragma omp parallel reduction(+ : h)
    for (struct @name@_node *node = @name@_lists[omp_get_thread_num()]; node; node = node->next)
        h += node->value;
    return h;
}
//// kind prefix_in_region free
static u64 @name@_a[@N@], @name@_part[66];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        int n = omp_get_num_threads(), t = omp_get_thread_num();
        int begin = t * @N@ / n, end = (t + 1) * @N@ / n;
        u64 sum = 0;
        for (int i = begin; i < end; i++)
            @name@_a[i] = sum += round + (u64)i;
        @name@_part[t + 1] = sum;
#pragma omp barrier
        u64 before = 0;
        for (int other = 1; other <= t; other++)
            before += @name@_part[other];
        for (int i = begin; i < end; i++)
            @name@_a[i] += before;
    }
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind counted own
@from_number@
u64 @name@(unsigned round)
{
    return round + 1000003u * (u64)@number@();
}
//// kind guarded own
@from_number@
static u64 @name@_a[64];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    {
        int t = omp_get_thread_num();
        if (t @(< n@@<= n - 1@@!= n)@)
            @name@_a[t] += round;
    }
    for (int t = 0; t < n; t++)
        h = mix(h, @name@_a[t]);
    return h;
}
//// kind told_shares any
@from_number@
static u64 @name@_a[64];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
    for (int t = omp_get_thread_num(); t < n; t += omp_get_num_threads())
        @name@_a[t] += round;
    for (int t = 0; t < n; t++)
        h = mix(h, @name@_a[t]);
    return h;
}
//// kind told_chunk any
@from_number@
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    int n = @number@(), chunk = @N@ / n + 1;
    u64 h = 0;
#pragma omp parallel for schedule(@(dynamic@@static@@guided)@, chunk)
    for (int i = 0; i < @N@; i++)
        @name@_a[i] += round ^ (u64)i;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
