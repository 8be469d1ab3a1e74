/* Preloaded: the processor's counter is out of bounds, as far as the process is told. */
#include <errno.h>

int prctl(int option, ...);
int prctl(int option, ...)
{
    (void)option;
    errno = EINVAL;
    return -1;
}
