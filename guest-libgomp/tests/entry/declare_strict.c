/* The public header under strict compilers, in C and C++. */
#include "../../include/vscaf.h"

int main(void)
{
    vscaf_resize();
    vscaf_leave_alone();
    return vscaf_size() != 0;
}
