/* A program that turns dynamic adjustment on permits teams that differ. A number that it sets is then the most that it
 * gets. After it turns adjustment off, it gets exactly its number again. */
#include <omp.h>
#include <stdint.h>

#include "../support/agent.h"
#include "../support/check.h"
#include "../support/regions.h"

extern void omp_set_dynamic_(const int32_t *);
extern void omp_set_dynamic_8_(const int64_t *);

int main(void)
{
    struct agent agent;
    agent_run(&agent, 2, 6);
    struct vscaf_page *page = agent.pages[0];
    CHECK(!omp_get_dynamic());
    omp_set_num_threads(4);
    CHECK(plain() == 4, "rigid");
    omp_set_dynamic(1);
    CHECK(omp_get_dynamic());
    CHECK(plain() == 2, "malleable by its own setting");
    CHECK(omp_get_dynamic(), "as the program set it");
    CHECK(omp_get_max_threads() == 4 && page->told == 4);
    page->team_size = 6;
    CHECK(plain() == 4, "at most the number that it set");
    omp_set_num_threads(3);
    CHECK(plain() == 3 && page->team_last == 3 && page->finished == 4);
    page->team_size = 0;
    CHECK(plain() <= 3, "the runtime's own adjustment");
    page->team_size = 1;
    omp_set_dynamic(0);
    CHECK(!omp_get_dynamic() && plain() == 3, "rigid again");
    omp_set_dynamic_(&(int32_t){1});
    CHECK(omp_get_dynamic() && plain() == 1);
    omp_set_dynamic_8_(&(int64_t){0});
    CHECK(!omp_get_dynamic() && plain() == 3);
    omp_set_dynamic_8_(&(int64_t){INT64_C(1) << 40});
    CHECK(omp_get_dynamic() && plain() == 1);
    return 0;
}
