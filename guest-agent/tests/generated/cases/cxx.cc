/* The same kinds in C++. */
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "case.h"

static std::vector<long> sums;

WRONG_IF_FREE(vector_resized_in_single)
{
    int wrong = 0;
#pragma omp parallel /* own */
    {
#pragma omp single
        sums.resize((size_t)omp_get_num_threads());
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            size_t t = (size_t)omp_get_thread_num();
            if (t < sums.size())
                sums[t]++;
            else
                wrong++;
        }
    }
    for (long sum : sums)
        wrong += sum != ROUNDS;
    return wrong;
}

WRONG_IF_FREE(vector_of_vectors)
{
    std::vector<std::vector<int>> lists((size_t)omp_get_max_threads());
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            std::vector<int> &mine = lists[(size_t)omp_get_thread_num()];
            mine.assign(1, round);
        }
        for (const auto &list : lists)
            wrong += list.empty() || list[0] != round;
    }
    return wrong;
}

struct counted {
    static std::atomic<int> made;
    int value;
    counted() : value(7) { made++; }
};
std::atomic<int> counted::made(0);
static thread_local counted each;

WRONG_IF_FREE(constructions)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        {
            wrong += each.value != 7 + round;
            each.value++;
        }
    }
    return wrong + (counted::made != threads);
}

static int &mine()
{
    static thread_local int value = threads + 1;
    return value;
}

WRONG_IF_FREE(static_in_a_function)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel reduction(+ : wrong) /* own */
        wrong += mine()++ != threads + 1 + round;
    }
    return wrong;
}

WRONG_IF_FREE(map_of_threads)
{
    std::map<std::thread::id, int> rounds;
    std::mutex mutex;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        {
            std::lock_guard<std::mutex> guard(mutex);
            rounds[std::this_thread::get_id()]++;
        }
    }
    int wrong = (int)rounds.size() != threads;
    for (const auto &entry : rounds)
        wrong += entry.second != ROUNDS;
    return wrong;
}

struct operation {
    virtual void apply(int *to) const = 0;
    virtual ~operation() {}
};
struct counts : operation {
    void apply(int *to) const override { __atomic_fetch_add(to, 1, __ATOMIC_RELAXED); }
};
struct divides : operation {
    int n;
    divides() : n(omp_get_max_threads()) {}
    void apply(int *to) const override
    {
        for (int i = omp_get_thread_num(); i < N; i += n)
            to[i]++;
    }
};

WRONG_IF_FREE(virtual_function_that_counts)
{
    operation *volatile which = new counts;
    operation *operation = which;
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
#pragma omp parallel /* own */
        operation->apply(&n);
        wrong += n != threads;
    }
    delete operation;
    return wrong;
}

WRONG_IF_FREE(virtual_function_that_divides)
{
    operation *volatile which = new divides;
    operation *operation = which;
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        operation->apply(done);
        wrong += undone();
    }
    delete operation;
    return wrong;
}

WRONG_IF_FREE(function_object)
{
    int n = omp_get_max_threads(), wrong = 0;
    std::function<void()> part = [n] {
        for (int i = omp_get_thread_num(); i < N; i += n)
            done[i]++;
    };
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel /* own */
        part();
        wrong += undone();
    }
    return wrong;
}

template <typename Body> static void everywhere(const Body &body)
{
#pragma omp parallel /* own */
    body();
}

WRONG_IF_FREE(lambda_in_a_template)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::atomic<int> n(0);
        everywhere([&n] { n++; });
        wrong += n != threads;
    }
    return wrong;
}

struct pool {
    int n = omp_get_max_threads();
    std::vector<int> slots = std::vector<int>((size_t)n);
    void run(int value)
    {
#pragma omp parallel /* own */
        slots[(size_t)omp_get_thread_num()] = value;
    }
};

WRONG_IF_FREE(class_that_asked)
{
    pool pool;
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pool.run(round);
        for (int slot : pool.slots)
            wrong += slot != round;
    }
    return wrong;
}

WRONG_IF_FREE(last_to_arrive)
{
    int n = omp_get_max_threads(), wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::atomic<int> arrived(0);
        int ends = 0;
#pragma omp parallel /* own */
        if (arrived.fetch_add(1) == n - 1)
            ends = 1;
        wrong += ends != 1;
    }
    return wrong;
}

WRONG_IF_FREE(exception_of_a_thread)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int caught = 0;
#pragma omp parallel /* own */
        {
            try {
                if (omp_get_thread_num() > 0)
                    throw 1;
            } catch (int value) {
                __atomic_fetch_add(&caught, value, __ATOMIC_RELAXED);
            }
        }
        wrong += caught != threads - 1;
    }
    return wrong;
}

static volatile long nothing;

WRONG_IF_FREE(too_much_memory)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int out = 0;
#pragma omp parallel /* own */
        {
            try {
                char *p = new char[(size_t)PTRDIFF_MAX - 100 + (size_t)nothing];
                __asm__ volatile("" : : "r"(p) : "memory");
                delete[] p;
            } catch (const std::bad_alloc &) {
                out = omp_get_num_threads();
            }
        }
        wrong += out != threads;
    }
    return wrong;
}

CASE(sorted_parts)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS / 3; round++) {
        std::vector<std::vector<int>> parts(8, std::vector<int>(16));
#pragma omp parallel for
        for (int k = 0; k < 8; k++) {
            for (int i = 0; i < 16; i++)
                parts[(size_t)k][(size_t)i] = i * 7 % 16;
            std::sort(parts[(size_t)k].begin(), parts[(size_t)k].end());
        }
        for (const auto &part : parts)
            wrong += !std::is_sorted(part.begin(), part.end());
    }
    return wrong;
}

CASE(once)
{
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        std::once_flag flag;
        int n = 0;
#pragma omp parallel
        std::call_once(flag, [&n] { n++; });
        wrong += n != 1;
    }
    return wrong;
}
