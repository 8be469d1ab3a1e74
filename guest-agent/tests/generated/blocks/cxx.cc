//// C++ alone.
//// kind cxx_lambda free
u64 @name@(unsigned round)
{
    u64 h = 0;
    auto each = [round](int i) { return (u64)i * round; };
#pragma omp parallel for reduction(+ : h) @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        h += each(i);
    return h;
}
//// kind cxx_virtual any
struct @name@_operation { virtual u64 apply(u64 i) const = 0; virtual ~@name@_operation() {} };
struct @name@_twice : @name@_operation { u64 apply(u64 i) const override { return 2 * i; } };
struct @name@_square : @name@_operation { u64 apply(u64 i) const override { return i * i; } };
u64 @name@(unsigned round)
{
    static @name@_operation *operations[2] = {new @name@_twice, new @name@_square};
    const @name@_operation *operation = operations[round & 1];
    u64 h = 0;
#pragma omp parallel for reduction(+ : h) @SCHEDULE@
    for (int i = 0; i < @N@; i++)
        h += operation->apply((u64)i);
    return h;
}
//// kind cxx_template free
template <typename T> static T @name@_sum(const T *a, int n, T start)
{
    T sum = start;
#pragma omp parallel for reduction(+ : sum) @SCHEDULE@
    for (int i = 0; i < n; i++)
        sum += a[i];
    return sum;
}
u64 @name@(unsigned round)
{
    static unsigned a[@N@];
    static u64 b[@N@];
    for (int i = 0; i < @N@; i++) {
        a[i] = (unsigned)i * round;
        b[i] = (u64)i + round;
    }
    return @name@_sum(a, @N@, 1u) + @name@_sum(b, @N@, (u64)round);
}
//// kind cxx_vector_of_threads own
static std::vector<u64> @name@_sums;
u64 @name@(unsigned round)
{
    u64 h = 0;
    if (@name@_sums.empty()) {
#pragma omp parallel
#pragma omp single
        @name@_sums.resize(omp_get_num_threads());
    }
#pragma omp parallel
    @name@_sums[omp_get_thread_num()] += round;
    for (u64 sum : @name@_sums)
        h = mix(h, sum);
    return h;
}
//// kind cxx_vector_told own
@from_number@
u64 @name@(unsigned round)
{
    std::vector<std::vector<int>> lists((size_t)@number@());
    u64 h = 0;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < @N@ / 4; i++)
        lists[(size_t)omp_get_thread_num()].push_back(i);
    for (const auto &list : lists)
        for (int i : list)
            h = mix(h, (u64)i + round);
    return mix(h, lists.size());
}
//// kind cxx_thread_local own persists
struct @name@_state {
    u64 sum;
    @name@_state() : sum(3) {}
};
static thread_local @name@_state @name@_s;
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for
    for (int i = 0; i < @N@; i++)
        @name@_s.sum += (u64)i ^ round;
#pragma omp parallel reduction(+ : h)
    h += @name@_s.sum;
    return h;
}
//// kind cxx_static_in_function own persists
static u64 &@name@_mine()
{
    static thread_local u64 sum = told_at_start > 0 ? 5 : 0;
    return sum;
}
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for
    for (int i = 0; i < @N@; i++)
        @name@_mine() += (u64)i + round;
#pragma omp parallel reduction(+ : h)
    h += @name@_mine();
    return h;
}
//// kind cxx_exception any
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < 32; i++) {
        try {
            if (i % 8 == 0)
                throw i;
            h += round;
        } catch (int value) {
            h += (u64)value;
        }
    }
    return h;
}
//// kind cxx_declared_reduction any
struct @name@_pair { u64 sum, most; };
#pragma omp declare reduction(@name@_merge : @name@_pair : omp_out.sum += omp_in.sum, \
    omp_out.most = omp_in.most > omp_out.most ? omp_in.most : omp_out.most) initializer(omp_priv = @name@_pair{0, 0})
u64 @name@(unsigned round)
{
    @name@_pair pair = {0, 0};
#pragma omp parallel for reduction(@name@_merge : pair) @SCHEDULE@
    for (int i = 0; i < @N@; i++) {
        u64 value = (u64)i * 7919 % (round + 2);
        pair.sum += value;
        if (value > pair.most)
            pair.most = value;
    }
    return mix(pair.sum, pair.most);
}
//// kind cxx_std_function any
u64 @name@(unsigned round)
{
    std::function<u64(int)> each = [round](int i) { return (u64)i ^ round; };
    u64 h = 0;
#pragma omp parallel for reduction(+ : h)
    for (int i = 0; i < @N@ / 4; i++)
        h += each(i);
    return h;
}
//// kind cxx_atomic_count own
u64 @name@(unsigned round)
{
    static std::atomic<u64> count;
#pragma omp parallel
    count.fetch_add(1 + (round & 1));
    return count;
}
//// kind cxx_once any
u64 @name@(unsigned round)
{
    std::atomic<bool> taken(false);
    u64 h = 0;
#pragma omp parallel
    {
        if (!taken.exchange(true))
            h += round;
    }
    return h;
}
//// kind cxx_map_of_threads own persists
static std::mutex @name@_mutex;
static std::map<std::thread::id, u64> @name@_by_thread;
u64 @name@(unsigned round)
{
    u64 h = 0;
#pragma omp parallel
    {
        std::lock_guard<std::mutex> guard(@name@_mutex);
        @name@_by_thread[std::this_thread::get_id()] += round;
    }
    for (const auto &entry : @name@_by_thread)
        h += entry.second;
    return mix(h, @name@_by_thread.size());
}
//// kind cxx_method own
struct @name@_pool {
    int n;
    u64 *sums;
    @name@_pool() : n(omp_get_max_threads()), sums(new u64[(size_t)n]()) {}
    void add(unsigned value)
    {
#pragma omp parallel
        sums[omp_get_thread_num()] += value;
    }
};
u64 @name@(unsigned round)
{
    static @name@_pool pool;
    u64 h = 0;
    pool.add(round);
    for (int t = 0; t < pool.n; t++)
        h = mix(h, pool.sums[t]);
    return h;
}
