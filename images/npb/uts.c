/* UTS, the Unbalanced Tree Search (Olivier et al., LCPC 2006), and not a NAS Parallel Benchmark. It counts the nodes of
 * a random tree in which a node is known only when its parent has been visited.
 *
 * A node is the SHA-1 digest of its parent's digest and its number among the children, so the tree does not depend on
 * the order of visits. Each node that has children is a task, unless there are many already. The search is done in
 * STEPS steps of equally many nodes. Each step is one parallel region, so the team may change in between. When enough
 * nodes are counted, the tasks that still start keep their nodes for the next step. That a tree of tasks is right in
 * each team cannot be read from the code, so the program declares it (vscaf.h).
 */
#include "npb.h"
#include "sha1.h"
#include "uts_tree.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vscaf.h>

#define STEPS 40
/* If there are so many tasks per thread, a node is visited inside the task that finds it. From 64 on, libgomp would run
 * a new task at once, on the stack of the thread that makes it. When another thread ends the last child of such a task,
 * libgomp 12 reads the task once more, and by then it may be gone from the stack. */
#define TASKS_MAX_PER_THREAD 32
/* Else the stack would be as deep as the tree. A visit so many levels inside a task keeps its node too. */
#define LEVELS_MAX 100
#define NUMBER_BYTES 4

#ifdef NPB_WRONG_ON_PURPOSE
#define SEED_CHANGE 1
#else
#define SEED_CHANGE 0
#endif

struct node {
    unsigned char digest[SHA1_BYTES];
    int depth;
    int children;
};

struct search {
    const struct uts_tree *tree;
    struct uts_counts counts; /* of all nodes whose parents were visited */
    uint64_t goal;            /* the step ends when so many nodes are counted */
    int tasks;                /* that have not ended */
    struct node *kept;        /* a stack of nodes whose children are not yet counted */
    uint64_t kept_count;
    uint64_t kept_room;
};

/* The node whose digest is that of the bytes and the number after them, with the highest byte first. */
static struct node make_node(const struct uts_tree *tree, const unsigned char *bytes, size_t length, uint32_t number,
                             int depth)
{
    unsigned char message[SHA1_BYTES + NUMBER_BYTES];
    struct node node = {.depth = depth};
    uint32_t random = 0;

    memcpy(message, bytes, length);
    for (int i = 0; i < NUMBER_BYTES; i++)
        message[length + (size_t)i] = (unsigned char)(number >> (8 * (NUMBER_BYTES - 1 - i)));
    sha1(message, length + NUMBER_BYTES, node.digest);
    for (int i = SHA1_BYTES - NUMBER_BYTES; i < SHA1_BYTES; i++)
        random = random << 8 | node.digest[i];
    node.children = uts_children(tree, depth, (random & UINT32_C(0x7fffffff)) * 0x1p-31);
    return node;
}

static struct node make_root(const struct uts_tree *tree)
{
    static const unsigned char zeros[SHA1_BYTES - NUMBER_BYTES];

    return make_node(tree, zeros, sizeof zeros, tree->seed + SEED_CHANGE, 0);
}

static bool goal_is_reached(const struct search *search)
{
    uint64_t nodes;

#pragma omp atomic read
    nodes = search->counts.nodes;
    return nodes >= search->goal;
}

static void keep(struct search *search, const struct node *node)
{
#pragma omp critical(uts_kept)
    {
        if (search->kept_count == search->kept_room) {
            search->kept_room = search->kept_room > 0 ? 2 * search->kept_room : 1024;
            search->kept = realloc(search->kept, search->kept_room * sizeof *node);
            if (search->kept == NULL)
                npb_no_memory("nodes", search->kept_room * sizeof *node);
        }
        search->kept[search->kept_count++] = *node;
    }
}

/* Takes the node that was kept last. Returns false if there is none. */
static bool take(struct search *search, struct node *node)
{
    bool taken = false;

#pragma omp critical(uts_kept)
    if (search->kept_count > 0) {
        *node = search->kept[--search->kept_count];
        taken = true;
    }
    return taken;
}

static void add(struct uts_counts *total, const struct uts_counts *own)
{
    int deepest;

#pragma omp atomic update
    total->nodes += own->nodes;
#pragma omp atomic update
    total->leaves += own->leaves;
#pragma omp atomic read
    deepest = total->depth;
    if (own->depth <= deepest)
        return;
#pragma omp critical(uts_depth)
    if (own->depth > total->depth) {
#pragma omp atomic write
        total->depth = own->depth;
    }
}

static bool may_make_task(struct search *search)
{
    int tasks;

#pragma omp atomic capture
    tasks = ++search->tasks;
    /* libgomp counts a task for a moment longer than this does. */
    if (tasks <= TASKS_MAX_PER_THREAD * omp_get_num_threads())
        return true;
#pragma omp atomic update
    search->tasks--;
    return false;
}

static void visit_in_task(struct node node, int level, struct search *search);

/* Counts the children of a node, and visits those that have children. */
static void visit(struct node node, int level, struct search *search)
{
    struct uts_counts own = {.depth = node.depth + 1};

    if (level == LEVELS_MAX || goal_is_reached(search)) {
        keep(search, &node);
        return;
    }
    for (int child = 0; child < node.children; child++) {
        struct node next = make_node(search->tree, node.digest, SHA1_BYTES, (uint32_t)child, node.depth + 1);

        own.nodes++;
        if (next.children == 0)
            own.leaves++;
        else
            visit_in_task(next, level + 1, search);
    }
    add(&search->counts, &own);
}

/* Visits the node in a new task, or in the current one if there are many already. The node is a copy, because its task may
 * outlive the one that made it. */
static void visit_in_task(struct node node, int level, struct search *search)
{
    if (!may_make_task(search)) {
        visit(node, level, search);
        return;
    }
#pragma omp task firstprivate(node, search)
    {
        visit(node, 0, search);
#pragma omp atomic update
        search->tasks--;
    }
}

/* One step: one parallel region. */
static void search_until(struct search *search, uint64_t goal)
{
    search->goal = goal;
#pragma omp parallel
#pragma omp single
    while (search->kept_count > 0 && !goal_is_reached(search)) {
        /* Tasks may keep nodes until all have ended. */
#pragma omp taskgroup
        for (struct node node; !goal_is_reached(search) && take(search, &node);)
            visit_in_task(node, 0, search);
    }
}

static bool verified(const struct uts_counts *counts, const struct uts_counts *expected)
{
    return counts->nodes == expected->nodes && counts->leaves == expected->leaves && counts->depth == expected->depth;
}

int main(int argc, char **argv)
{
    const struct uts_tree *tree = uts_trees;

    while (tree->class_name != NPB_CLASS)
        tree++;

    struct npb_run run = npb_start(argc, argv, STEPS);
    struct search search = {.tree = tree};
    uint64_t nodes_of_all = 0;
    bool right = true;
    char size[32];

    vscaf_resize();
    snprintf(size, sizeof size, "%llu", (unsigned long long)tree->counts.nodes);
    printf("\n\n UTS (unbalanced tree search; not a NAS Parallel Benchmark), C and OpenMP\n");
    printf(" Tree:                        %11s\n", uts_kind);
    printf(" Number of available threads: %11d\n", run.threads);
    printf("          nodes         leaves    depth\n");
    fflush(stdout);

    npb_mark_start(&run);
    double start = npb_seconds();
    for (unsigned repeat = 0; repeat < run.repeat; repeat++) {
        struct node root = make_root(tree);

        search.counts = (struct uts_counts){.nodes = 1, .leaves = root.children == 0};
        keep(&search, &root);
        for (uint64_t step = 1; step <= STEPS; step++) {
            search_until(&search, step < STEPS ? tree->counts.nodes * step / STEPS : UINT64_MAX);
            npb_mark(&run);
        }
        nodes_of_all += search.counts.nodes;
        right = verified(&search.counts, &tree->counts) && right;
        if (repeat == 0)
            printf("    %11llu    %11llu    %5d\n", (unsigned long long)search.counts.nodes,
                   (unsigned long long)search.counts.leaves, search.counts.depth);
    }
    double seconds = npb_seconds() - start;

    free(search.kept);
    npb_print_result(&(struct npb_result){
        .name = "UTS",
        .class_name = tree->class_name,
        .size = size,
        .iterations = run.repeat,
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
