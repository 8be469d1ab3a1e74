/* Linked into a build of the shim. The linker wraps these functions of it. */
#include "join/program.h"
#include "second_master.h"
#include "team/team.h"

void __real_program_note(uint32_t bits);
void __wrap_program_note(uint32_t bits);
void __wrap_program_note(uint32_t bits)
{
    if (bits & VSCAF_PROGRAM_MASTERS)
        second_master_noting();
    __real_program_note(bits);
    if (bits & VSCAF_PROGRAM_MASTERS)
        second_master_noted();
}

typeof(team_of_section) __real_team_of_section, __wrap_team_of_section;
struct team __wrap_team_of_section(const struct runtime *runtime, struct call_site *site, const struct vscaf_page *page,
                                   unsigned requested, bool stays)
{
    second_master_deciding();
    return __real_team_of_section(runtime, site, page, requested, stays);
}
