#include "split/cpu_budget.h"

#include "vscaf/page.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct cpu_budget cpu_budget_of(const struct cpu_facts *facts)
{
    struct cpu_budget budget = {.online = facts->online, .guest = facts->online};
    budget.team_limit = smaller(smaller(facts->possible, facts->bound), VSCAF_MAX_TEAM);
    if (facts->ordered) {
        budget.guest = smaller(facts->ordered_cpus, facts->online);
        budget.team_limit = smaller(facts->ordered_limit, budget.team_limit);
    }
    uint32_t left = budget.guest > facts->background ? budget.guest - facts->background : budget.guest > 0;
    budget.joined = smaller(left, facts->bound);
    return budget;
}
