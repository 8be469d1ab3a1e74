/* A real OpenMP program for vscaf-run. It obeys the lines on its standard input, with one answer line each:
 *
 *   section    runs one parallel section; answers with its team size
 *   compute    starts to run sections without a pause
 *   team       answers with the team size of the last section
 *   calm       stops `compute` */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int section(void)
{
    int threads = 0;
#pragma omp parallel reduction(+ : threads)
    {
        threads++;
        for (int i = 0; i < 100000; i++)
            __asm__ volatile("" ::: "memory");
    }
    return threads;
}

int main(void)
{
    char line[64];
    bool computing = false;
    int last = 0;
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (poll(&input, 1, computing ? 0 : -1) <= 0) {
            last = section();
            continue;
        }
        if (fgets(line, sizeof(line), stdin) == NULL)
            return 0;
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "section") == 0)
            last = section();
        computing = strcmp(line, "compute") == 0 || (computing && strcmp(line, "calm") != 0);
        printf("%d\n", last);
    }
}
