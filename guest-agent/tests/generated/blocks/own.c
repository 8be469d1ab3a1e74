//// Programs that set numbers themselves, ask for levels, nest regions, or bring code of their own. `disturbs`: other
//// regions of the program may not rely on threads that stay.
//// kind clause own disturbs
u64 @name@(unsigned round)
{
    u64 counted = 0;
#pragma omp parallel num_threads(@(2@@3@@1@@told_argument@@1 + (int)(round % 3)@@omp_get_max_threads())@)
    {
#pragma omp atomic
        counted++;
    }
    return mix(counted, round);
}
//// kind if_clause own disturbs
u64 @name@(unsigned round)
{
    int counted = 0;
    u64 h = round;
#pragma omp parallel if (round % 2) reduction(+ : counted)
    counted++;
#pragma omp parallel for if (round % 3 == 0) reduction(+ : h)
    for (int i = 0; i < @N@; i++)
        h += (u64)i;
    return mix(h, (u64)counted);
}
//// kind set_number own disturbs
u64 @name@(unsigned round)
{
    int before = omp_get_max_threads(), wanted = 1 + (int)(round % 4), counted = 0;
    if (round < 40)
        return round;
    omp_set_num_threads(wanted);
#pragma omp parallel reduction(+ : counted)
    counted++;
    omp_set_num_threads(before);
    return mix((u64)counted, (u64)before);
}
//// kind nested own disturbs
u64 @name@(unsigned round)
{
    u64 h = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        u64 mine = 0;
#pragma omp parallel for reduction(+ : mine) @(@@num_threads(2))@
        for (int i = 0; i < @N@; i++)
            mine += (u64)i * round;
#pragma omp atomic
        h += mine;
    }
    omp_set_max_active_levels(1);
    return h;
}
//// kind nested_counted own disturbs
u64 @name@(unsigned round)
{
    int inner = 0, outer = 0;
    omp_set_max_active_levels(@(1@@2)@);
#pragma omp parallel reduction(+ : inner, outer)
    {
        int mine = 0;
        outer++;
        if (round % 16 == 0) {
#pragma omp parallel reduction(+ : mine)
            mine++;
        }
        inner += mine;
    }
    omp_set_max_active_levels(1);
    return mix((u64)inner, (u64)outer);
}
//// kind nested_serial any disturbs
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int k = 0; k < 8; k++) {
        u64 mine = 0;
#pragma omp parallel for reduction(+ : mine)
        for (int i = 0; i < 16; i++)
            mine += (u64)(i * k) + round;
        h += mine;
    }
    return h;
}
//// kind levels any
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
#pragma omp single
        h = (u64)omp_get_level() * 100 + (u64)@(omp_get_ancestor_thread_num(0)@@omp_get_team_size(0))@;
    }
    return mix(h, round);
}
//// kind levels_by_ancestor own
u64 @name@(unsigned round)
{
    static u64 a[64];
    u64 h = 0;
#pragma omp parallel
    a[omp_get_ancestor_thread_num(1)] += round;
    for (int t = 0; t < 64; t++)
        h = mix(h, a[t]);
    return h;
}
//// kind active_level own
u64 @name@(unsigned round)
{
    int active = 0;
#pragma omp parallel
    {
#pragma omp single
        active = omp_get_active_level() + omp_in_parallel();
    }
    return mix((u64)active, round);
}
//// kind size_stored own
static int @name@_n;
u64 @name@(unsigned round)
{
#pragma omp parallel
    {
#pragma omp @(single@@master)@
        @name@_n = omp_get_num_threads();
    }
    return mix((u64)@name@_n, round);
}
//// kind size_divides own
u64 @name@(unsigned round)
{
    u64 share = 0;
#pragma omp parallel
    {
        int n = omp_get_num_threads();
#pragma omp single
        share = 1000000 / (u64)n;
    }
    return mix(share, round);
}
//// kind size_compared own
u64 @name@(unsigned round)
{
    int many = 0;
#pragma omp parallel
    {
        int n = omp_get_num_threads();
#pragma omp single
        if (n > @(1@@2@@3)@)
            many = 1;
    }
    return mix((u64)many, round);
}
//// kind counts_every_time own
static u64 @name@_total;
u64 @name@(unsigned round)
{
#pragma omp parallel
    {
        @(__atomic_fetch_add(&@name@_total, 1, __ATOMIC_RELAXED)@@__atomic_fetch_add(&@name@_total, round, __ATOMIC_RELAXED)@@__sync_fetch_and_add(&@name@_total, 3))@;
    }
    return @name@_total;
}
//// kind who_is_there own
u64 @name@(unsigned round)
{
    u64 mask = 0;
#pragma omp parallel reduction(| : mask)
    mask |= (u64)1 << omp_get_thread_num();
    return mix(mask, round);
}
//// kind product own
u64 @name@(unsigned round)
{
    u64 product = 1;
#pragma omp parallel reduction(* : product)
    product *= 3;
    return mix(product, round);
}
//// kind callback own
static u64 @name@_a[64];
static void @name@_body(void *argument)
{
    @name@_a[omp_get_thread_num()] += *(unsigned *)argument;
}
u64 @name@(unsigned round)
{
    u64 h = 0;
    @name@_everywhere(@name@_body, &round);
    for (int t = 0; t < 64; t++)
        h = mix(h, @name@_a[t]);
    return h;
}
//// other
void @name@_everywhere(void (*body)(void *), void *argument)
{
#pragma omp parallel
    body(argument);
}
//// kind parallel_for_elsewhere any
static void @name@_body(void *argument, int i)
{
    ((u64 *)argument)[i] += (u64)i;
}
u64 @name@(unsigned round)
{
    static u64 a[@N@];
    u64 h = round;
    @name@_parallel_for(@name@_body, a, @N@);
    for (int i = 0; i < @N@; i++)
        h = mix(h, a[i]);
    return h;
}
//// other
void @name@_parallel_for(void (*body)(void *, int), void *argument, int n)
{
#pragma omp parallel for @SCHEDULE@
    for (int i = 0; i < n; i++)
        body(argument, i);
}
//// kind local_address own
u64 @name@(unsigned round)
{
    static uintptr_t stacks[64];
    static int used;
    int here = 0;
    used = 0;
#pragma omp parallel
    {
        char local;
#pragma omp critical
        stacks[used++ & 63] = (uintptr_t)&local >> 20;
    }
    for (int i = 0; i < used; i++)
        here += stacks[i] != 0;
    return mix((u64)here, round);
}
//// kind jit own gcc
struct @name@_work { int (*number)(void); int n; u64 a[@N@]; };
__attribute__((noinline, noclone, optimize("no-tree-vectorize"), section(".text.@name@"))) void @name@_body(void *p)
{
    struct @name@_work *work = (struct @name@_work *)p;
    for (int i = work->number(); i < @N@; i += work->n)
        work->a[i] += (u64)i;
}
extern
#ifdef __cplusplus
"C"
#endif
void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
u64 @name@(unsigned round)
{
    static struct @name@_work work;
    static void *code;
    u64 h = round;
    if (!code) {
        code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(code, (void *)@name@_body, 1024);
        work.number = omp_get_thread_num;
        work.n = told_at_start;
    }
    GOMP_parallel((void (*)(void *))code, &work, 0, 0);
    for (int i = 0; i < @N@; i++)
        h = mix(h, work.a[i]);
    return h;
}
