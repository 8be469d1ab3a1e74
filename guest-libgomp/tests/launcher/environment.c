/* One parallel region, then the environment that the program was started with. */
#include <stdio.h>

extern char **environ;

int main(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    threads++;
    for (char **variable = environ; *variable; variable++)
        puts(*variable);
    return threads < 1;
}
