/* Sections in C++ of which any team gives the same result. Each must be found free. */
#include <algorithm>
#include <cmath>
#include <vector>

#include "../cases/case.h"

CASE(vector_loop)
{
    std::vector<double> a(N);
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++)
        a[(size_t)i] = i;
    return a[5] != 5;
}

CASE(vector_sum)
{
    std::vector<double> a(N, 2.0);
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) /* free */
    for (size_t i = 0; i < a.size(); i++)
        sum += a[i];
    return sum != 2 * N;
}

template <typename T> static T dot(const std::vector<T> &a, const std::vector<T> &b)
{
    T sum = 0;
    int n = (int)a.size();
#pragma omp parallel for reduction(+ : sum) /* free */
    for (int i = 0; i < n; i++)
        sum += a[(size_t)i] * b[(size_t)i];
    return sum;
}

CASE(templates)
{
    std::vector<double> a(N, 2.0);
    std::vector<int> b(N, 3);
    return dot(a, a) != 4 * N || dot(b, b) != 9 * N;
}

CASE(lambda)
{
    std::vector<double> a(N);
    auto value = [](int i) { return i * 2.0; };
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++)
        a[(size_t)i] = value(i);
    return a[4] != 8;
}

CASE(vector_in_the_loop)
{
    std::vector<double> a(N);
#pragma omp parallel for /* free */
    for (int i = 0; i < N; i++) {
        std::vector<double> scratch(8, i);
        a[(size_t)i] = scratch[3] + std::sqrt(scratch[4]);
    }
    return a[4] != 6;
}

CASE(sorting)
{
    std::vector<std::vector<int>> parts(8, std::vector<int>(16));
#pragma omp parallel for /* free */
    for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 16; i++)
            parts[(size_t)k][(size_t)i] = i * 7 % 16;
        std::sort(parts[(size_t)k].begin(), parts[(size_t)k].end());
    }
    return parts[3][3] != 3;
}

struct grid {
    std::vector<double> cells = std::vector<double>(N, 1.0);
    double &at(int i) { return cells[(size_t)i]; }
    void step()
    {
#pragma omp parallel for /* free */
        for (int i = 0; i < N; i++)
            at(i) *= 2;
    }
};

CASE(method)
{
    grid grid;
    grid.step();
    return grid.at(7) != 2;
}
