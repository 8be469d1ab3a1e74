//// Where a number of threads comes from: `static int @number@(void)`. The kind is number_NAME.
//// number asked_once
static int @number@(void)
{
    static int n;
    if (!n)
        n = omp_get_max_threads();
    return n;
}
//// number asked_each_time
static int @number@(void)
{
    return omp_get_max_threads();
}
//// number asked_at_start
static int @number@(void)
{
    return told_at_start;
}
//// number argument
static int @number@(void)
{
    return told_argument;
}
//// number environment
static int @number@(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    return text ? atoi(text) : told_argument;
}
//// number constant
static int @number@(void)
{
    return @T@;
}
//// number single
static int @number@_n;
static int @number@(void)
{
    if (!@number@_n) {
#pragma omp parallel
        {
#pragma omp single
            @number@_n = omp_get_num_threads();
        }
    }
    return @number@_n;
}
//// number single_each_time
static int @number@(void)
{
    int n = 0;
#pragma omp parallel
    {
#pragma omp @(single@@master@@single nowait)@
        n = omp_get_num_threads();
    }
    return n;
}
//// number thread_0
static int @number@_n;
static int @number@(void)
{
    if (!@number@_n) {
#pragma omp parallel
        if (omp_get_thread_num() == 0)
            @number@_n = omp_get_num_threads();
    }
    return @number@_n;
}
//// number all_write
static int @number@(void)
{
    int n = 0;
#pragma omp parallel
    {
#pragma omp atomic write
        n = omp_get_num_threads();
    }
    return n;
}
//// number last_thread
static int @number@(void)
{
    static int n;
    if (!n) {
#pragma omp parallel
        if (omp_get_thread_num() == omp_get_num_threads() - 1)
            n = omp_get_thread_num() + 1;
    }
    return n;
}
//// number atomic
static int @number@(void)
{
    static int counted;
    if (!counted) {
#pragma omp parallel
        {
#pragma omp atomic
            counted++;
        }
    }
    return counted;
}
//// number atomic_each_time
static int @number@(void)
{
    int counted = 0;
#pragma omp parallel shared(counted)
    {
#pragma omp atomic @(update@@)@
        counted @(+= 1@@++)@;
    }
    return counted;
}
//// number reduction
static int @number@(void)
{
    int counted = 0;
#pragma omp parallel reduction(+ : counted)
    counted @(+= 1@@++@@= 1)@;
    return counted;
}
//// number critical
static int @number@(void)
{
    volatile int counted = 0;
#pragma omp parallel
    {
#pragma omp critical
        counted = counted + 1;
    }
    return counted;
}
//// number largest
static int @number@(void)
{
    int largest = 0;
#pragma omp parallel @(reduction(max : largest)@@)@
    {
        int t = omp_get_thread_num();
#pragma omp critical
        if (t > largest)
            largest = t;
    }
    return largest + 1;
}
//// number builtin
static int @number@(void)
{
    static int arrived;
    if (!arrived) {
#pragma omp parallel
        __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    }
    return arrived;
}
//// number locked
static int @number@(void)
{
    int n = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel
    {
        omp_set_lock(&lock);
        n++;
        omp_unset_lock(&lock);
    }
    omp_destroy_lock(&lock);
    return n;
}
//// number heap
struct @number@_s { int other, n; };
static struct @number@_s *@number@_p;
static int @number@(void)
{
    if (!@number@_p) {
        @number@_p = (struct @number@_s *)calloc(1, sizeof *@number@_p);
#pragma omp parallel
#pragma omp single
        {
            @number@_p->other = 7;
            @number@_p->n = omp_get_num_threads();
        }
    }
    return @number@_p->n;
}
//// number flags
static int @number@(void)
{
    static char there[64];
    int n = 0;
#pragma omp parallel
    there[omp_get_thread_num() & 63] = 1;
    while (n < 64 && there[n])
        n++;
    return n;
}
//// number reciprocal
static double @number@_share;
static int @number@(void)
{
    if (@number@_share == 0) {
#pragma omp parallel
#pragma omp single
        @number@_share = 1.0 / omp_get_num_threads();
    }
    return (int)(1.0 / @number@_share + 0.5);
}
//// number text
static int @number@(void)
{
    static char text[16];
    if (!text[0]) {
#pragma omp parallel
#pragma omp master
        snprintf(text, sizeof text, "%d", omp_get_num_threads());
    }
    return atoi(text);
}
//// number file
static int @number@(void)
{
    static int n;
    FILE *file;
    if (n || !(file = tmpfile()))
        return n;
#pragma omp parallel
#pragma omp single
    fprintf(file, "%d\n", omp_get_num_threads());
    rewind(file);
    if (fscanf(file, "%d", &n) != 1)
        n = 0;
    fclose(file);
    return n;
}
//// number thread_data
static __thread int @number@_tls;
static int @number@(void)
{
    if (!@number@_tls) {
#pragma omp parallel
        @number@_tls = omp_get_num_threads();
    }
    return @number@_tls;
}
//// number schedule
static int @number@(void)
{
    int shares[64] = {0}, n = 0;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < 64 * 60; i++)
        shares[omp_get_thread_num() & 63]++;
    while (n < 64 && shares[n])
        n++;
    return n;
}
//// number team_size
static int @number@(void)
{
    static int n;
    if (!n) {
#pragma omp parallel
#pragma omp single
        n = omp_get_team_size(omp_get_level());
    }
    return n;
}
//// number other_object
static int @number@(void)
{
    static int n;
    if (!n) {
#pragma omp parallel
#pragma omp single
        n = @number@_there();
    }
    return n;
}
//// other
int @number@_there(void)
{
    return omp_get_num_threads();
}
