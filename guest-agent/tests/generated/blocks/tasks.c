//// Tasks.
//// kind task_tree free
static u64 @name@_fib(int n)
{
    u64 a, b;
    if (n < 2)
        return (u64)n;
#pragma omp task shared(a) @(@@untied@@if (n > 4)@@final(n < 4))@
    a = @name@_fib(n - 1);
    b = @name@_fib(n - 2);
#pragma omp taskwait
    return a + b;
}
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
#pragma omp single @(@@nowait)@
    h = @name@_fib(6 + (int)(round & 1));
    return h;
}
//// kind taskloop free
static u64 @name@_a[@N@];
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
#pragma omp @(single@@master)@
#pragma omp taskloop @(@@grainsize(16)@@num_tasks(4)@@nogroup)@
    for (int i = 0; i < @N@; i++)
        @name@_a[i] += (u64)i + round;
    for (int i = 0; i < @N@; i++)
        h = mix(h, @name@_a[i]);
    return h;
}
//// kind task_depend any
u64 @name@(unsigned round)
{
    u64 x = round, y = 0;
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < @K@; k++) {
#pragma omp task depend(inout : x) shared(x)
        x = x * 3 + 1;
#pragma omp task depend(in : x) depend(inout : y) shared(x, y)
        y = mix(y, x);
    }
    return mix(x, y);
}
//// kind task_list any
struct @name@_node { struct @name@_node *next; u64 value; };
static struct @name@_node @name@_nodes[32];
u64 @name@(unsigned round)
{
    u64 h = 0;
    for (int i = 0; i < 32; i++)
        @name@_nodes[i].next = i < 31 ? &@name@_nodes[i + 1] : NULL;
#pragma omp parallel
#pragma omp single
    for (struct @name@_node *node = @name@_nodes; node; node = node->next) {
#pragma omp task firstprivate(node)
        node->value += round + (u64)(node - @name@_nodes);
    }
    for (int i = 0; i < 32; i++)
        h = mix(h, @name@_nodes[i].value);
    return h;
}
//// kind task_reduction any
u64 @name@(unsigned round)
{
    u64 sum = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup task_reduction(+ : sum)
    for (int k = 0; k < 12; k++) {
#pragma omp task in_reduction(+ : sum)
        sum += (u64)k * round;
    }
    return sum;
}
//// kind task_by_thread own
@from_number@
static u64 @name@_sums[64];
u64 @name@(unsigned round)
{
    int n = @number@();
    u64 h = 0;
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < 16; k++) {
#pragma omp task
        @name@_sums[omp_get_thread_num()] += round;
    }
    for (int t = 0; t < n; t++)
        h += @name@_sums[t];
    return h;
}
//// kind task_per_thread own
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
#pragma omp task shared(h)
        {
#pragma omp atomic
            h += round + 1;
        }
    }
    return h;
}
//// kind tasks_as_many_as_threads own
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < omp_get_num_threads(); k++) {
#pragma omp task shared(h) firstprivate(k)
        {
#pragma omp atomic
            h += (u64)k * round + 1;
        }
    }
    return h;
}
