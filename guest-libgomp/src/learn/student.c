#include "learn/student.h"

#include <stddef.h>

#define NORMAL 1.96

double student_widening(double freedom)
{
    static const double quantiles[] = {12.71, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    size_t last = sizeof quantiles / sizeof quantiles[0] - 1;
    return (freedom < (double)last ? quantiles[(size_t)freedom] : NORMAL + 2.7 / freedom) / NORMAL;
}
