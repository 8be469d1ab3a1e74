/* Every construct with every schedule, while the team is resized. The results equal those of the runtime alone.
 *
 *     matrix PACE CHANGES     PACE is for resize_begin; repeats the cases until the team was resized CHANGES times
 *     matrix --results        prints each case's result, for the comparison
 */
#include <inttypes.h>
#include <omp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"
#include "matrix.h"

#define CASES_MAX 1000

static struct matrix_case cases[CASES_MAX];
static int count;

static void add(const struct matrix_case *table)
{
    for (; table->name; table++) {
        CHECK(count < CASES_MAX);
        cases[count++] = *table;
    }
}

/* Reads the results of the runtime alone. */
static void without_shim(const char *self, uint64_t results[])
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        unsetenv("LD_PRELOAD");
        setenv("OMP_NUM_THREADS", "3", 1);
        execl(self, self, "--results", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    CHECK(stream);
    for (int i = 0; i < count; i++)
        CHECK(fscanf(stream, "%" SCNu64, &results[i]) == 1, "no result of %s", cases[i].name);
    fclose(stream);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    static uint64_t expected[CASES_MAX];
    add(matrix_loops);
    add(matrix_constructs);
    if (argc == 2 && !strcmp(argv[1], "--results")) {
        CHECK(omp_get_cancellation(), "set OMP_CANCELLATION=true");
        for (int i = 0; i < count; i++)
            printf("%" PRIu64 "\n", cases[i].run());
        return 0;
    }
    CHECK(argc == 3, "usage: %s PACE CHANGES", argv[0]);
    without_shim("/proc/self/exe", expected);
    resize_begin(argv[1]);
    unsigned enough = (unsigned)atoi(argv[2]);
    int rounds = 0;
    do {
        for (int i = 0; i < count; i++) {
            uint64_t result = cases[i].run();
            CHECK(result == expected[i], "%s, round %d: %" PRIx64 " instead of %" PRIx64, cases[i].name, rounds, result,
                  expected[i]);
        }
        rounds++;
    } while (resize_changes() < enough);
    resize_end();
    printf("%d cases, %d rounds\n", count, rounds);
    return 0;
}
