/* A node's number of children has a geometric distribution with the mean BRANCHING, down to a fixed depth. */
#include "uts_tree.h"

#include <math.h>

#define BRANCHING 4.0
#define CHILDREN_MAX 100

const char uts_kind[] = "geometric";

/* A and B are the published sample trees T1 and T1L. */
const struct uts_tree uts_trees[] = {
    {'S', .seed = 19, .depth_limit = 8, .counts = {257042, 205878, 8}},
    {'W', .seed = 19, .depth_limit = 9, .counts = {1031269, 825408, 9}},
    {'A', .seed = 19, .depth_limit = 10, .counts = {4130071, 3305118, 10}},
    {'B', .seed = 29, .depth_limit = 13, .counts = {102181082, 81746377, 13}},
};

int uts_children(const struct uts_tree *tree, int depth, double random)
{
    const double none = 1.0 / (1.0 + BRANCHING); /* the probability of a node without children */

    if (depth >= tree->depth_limit)
        return 0;
    double children = floor(log(1.0 - random) / log(1.0 - none));

    return children < CHILDREN_MAX ? (int)children : CHILDREN_MAX;
}
