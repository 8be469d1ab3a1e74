/* The trees of UTS. uts_geometric.c and uts_binomial.c differ in them. */
#ifndef VSCAF_NPB_UTS_TREE_H
#define VSCAF_NPB_UTS_TREE_H

#include <stdint.h>

struct uts_counts {
    uint64_t nodes;
    uint64_t leaves;
    int depth; /* of the deepest node; the root's is 0 */
};

struct uts_tree {
    char class_name;
    uint32_t seed;
    int depth_limit;          /* of a geometric tree: nodes at this depth have no children */
    int branches;             /* of a binomial tree: how many children a node has, if any */
    double probability;       /* of a binomial tree: that it has any */
    struct uts_counts counts; /* the right ones */
};

/* All classes. */
extern const struct uts_tree uts_trees[];

/* "geometric" or "binomial" */
extern const char uts_kind[];

/* How many children a node has, by its depth and its random number, which is uniform in [0, 1). */
int uts_children(const struct uts_tree *tree, int depth, double random);

#endif
