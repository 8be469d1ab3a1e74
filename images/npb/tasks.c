/* TASKS, an unbalanced tree search like UTS (Olivier et al., 2006), and not a NAS Parallel Benchmark. It counts the
 * nodes of a random tree in which a node is known only when its parent has been visited.
 *
 * A node is a 64-bit state that follows from its parent's state and its number among the children, so the trees do not
 * depend on the order of visits. The root has a fixed number of children. Any other node has BRANCHES children with a
 * probability just below 1 / BRANCHES, else none. So subtrees differ in size by orders of magnitude, which cannot be
 * predicted. Each tree is one parallel region, in which one thread starts with the root. Each node that has children is
 * a task.
 */
#include "npb.h"

#include <stdio.h>

#define TREES 40
#define BRANCHES 8
#define BRANCH_PROBABILITY 0.12 /* a subtree has 1 / (1 - 8 * 0.12) = 25 nodes on average */
#define VISIT_ROUNDS 64         /* rounds of mixing for each node: its work */

#ifdef NPB_WRONG_ON_PURPOSE
#define SEED UINT64_C(271828187)
#else
#define SEED UINT64_C(271828183)
#endif

struct class_values {
    char name;
    int root_children;
    uint64_t nodes;    /* of all trees */
    uint64_t checksum; /* the sum of all nodes' states */
};

/* The sums are the results of one thread. */
static const struct class_values classes[] = {
    {'S', 500, 484744, UINT64_C(11785775182841566313)},
    {'W', 4000, 4087176, UINT64_C(12095014771762086585)},
    {'A', 32000, 32259696, UINT64_C(14659883257463580229)},
    {'B', 128000, 128640032, UINT64_C(5750523709852497860)},
};

struct sums {
    uint64_t nodes;
    uint64_t checksum;
};

/* A bijection of 64-bit numbers in which every bit of the result depends on every bit of x. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t child_state(uint64_t state, int child)
{
    state += (uint64_t)(child + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (int round = 0; round < VISIT_ROUNDS; round++)
        state = mix(state);
    return state;
}

static bool has_children(uint64_t state)
{
    return (double)(state >> 11) * 0x1p-53 < BRANCH_PROBABILITY;
}

/* Visits the children of a node, and makes new tasks for theirs. */
static void visit_children(uint64_t state, int children, struct sums *total)
{
    struct sums own = {0};

    for (int child = 0; child < children; child++) {
        uint64_t next = child_state(state, child);

        own.nodes++;
        own.checksum += next;
        if (has_children(next)) {
#pragma omp task firstprivate(next)
            visit_children(next, BRANCHES, total);
        }
    }
#pragma omp atomic update
    total->nodes += own.nodes;
#pragma omp atomic update
    total->checksum += own.checksum;
}

/* One tree: one parallel region. The root counts itself. */
static struct sums search(uint64_t root, int root_children)
{
    struct sums total = {.nodes = 1, .checksum = root};

#pragma omp parallel
#pragma omp single
    visit_children(root, root_children, &total);
    return total;
}

int main(int argc, char **argv)
{
    const struct class_values *class = classes;

    while (class->name != NPB_CLASS)
        class++;

    struct npb_run run = npb_start(argc, argv, TREES);
    uint64_t nodes_of_all = 0;
    bool right = true;
    char size[32];

    snprintf(size, sizeof size, "%dx%d", TREES, class->root_children);
    printf("\n\n TASKS (unbalanced tree search; not a NAS Parallel Benchmark), C and OpenMP\n");
    printf(" Trees x children of the root: %10s\n", size);
    printf(" Number of available threads:  %10d\n", run.threads);
    printf("         tree        nodes               state sum\n");
    fflush(stdout);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        struct sums all = {0};

        for (int tree = 0; tree < TREES; tree++) {
            struct sums sums = search(mix(SEED + (uint64_t)tree), class->root_children);

            npb_mark(&run);
            if (repeat == 0)
                printf("    %9d   %10llu    %020llu\n", tree, (unsigned long long)sums.nodes,
                       (unsigned long long)sums.checksum);
            all.nodes += sums.nodes;
            all.checksum += sums.checksum;
        }
        nodes_of_all += all.nodes;
        right = all.nodes == class->nodes && all.checksum == class->checksum && right;
        if (repeat == 0)
            printf("    all trees   %10llu    %020llu\n", (unsigned long long)all.nodes,
                   (unsigned long long)all.checksum);
    }
    double seconds = npb_seconds() - start;

    npb_print_result(&(struct npb_result){
        .name = "TASKS",
        .class_name = class->name,
        .size = size,
        .iterations = TREES * run.repeat,
        .seconds = seconds,
        .threads = run.threads,
        .mops = (double)nodes_of_all / seconds / 1e6,
        .operation = "nodes visited",
        .verified = right,
    });
    if (!npb_finish(&run))
        return NPB_EXIT_USAGE;
    return right ? NPB_EXIT_VERIFIED : NPB_EXIT_WRONG;
}
