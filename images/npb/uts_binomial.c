/* The root has ROOT_CHILDREN children. Any other node has `branches` children with a probability just below
 * 1 / branches, else none. So subtrees differ in size by orders of magnitude, which cannot be predicted. */
#include "uts_tree.h"

#define ROOT_CHILDREN 2000

const char uts_kind[] = "binomial";

/* A and B are the published sample trees T3 and T3L. */
const struct uts_tree uts_trees[] = {
    {'S', .seed = 42, .branches = 8, .probability = 0.124, .counts = {540929, 473562, 333}},
    {'W', .seed = 42, .branches = 8, .probability = 0.1246, .counts = {2258745, 1976651, 1297}},
    {'A', .seed = 42, .branches = 8, .probability = 0.124875, .counts = {4112897, 3599034, 1572}},
    {'B', .seed = 7, .branches = 5, .probability = 0.200014, .counts = {111345631, 89076904, 17844}},
};

int uts_children(const struct uts_tree *tree, int depth, double random)
{
    if (depth == 0)
        return ROOT_CHILDREN;
    return random < tree->probability ? tree->branches : 0;
}
