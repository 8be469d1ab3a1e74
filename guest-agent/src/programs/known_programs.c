#include "programs/known_programs.h"

#include <math.h>
#include <stdlib.h>

#define NOT_OLDER 1.5 /* the errors of an earlier run's comparisons count as so many times larger */

static void free_place(struct known_program **place)
{
    free(*place);
    *place = NULL;
}

/* A place for a new program. An account with many programs gives up one of its own, else the oldest goes. */
static struct known_program **make_room(struct known_programs *programs, account_t account)
{
    struct known_program **own = NULL, **oldest = NULL, **empty = NULL;
    uint32_t owned = 0;
    for (uint32_t i = 0; i < KNOWN_PROGRAMS_MAX; i++) {
        struct known_program **place = &programs->programs[i];
        if (*place == NULL) {
            empty = place;
            continue;
        }
        bool is_own = (*place)->account == account;
        owned += is_own;
        if ((*place)->references > 0)
            continue;
        if (oldest == NULL || (*place)->used_ns < (*oldest)->used_ns)
            oldest = place;
        if (is_own && (own == NULL || (*place)->used_ns < (*own)->used_ns))
            own = place;
    }
    struct known_program **place = owned >= KNOWN_PROGRAMS_ACCOUNT_MAX ? own : empty != NULL ? empty : oldest;
    if (place != NULL && *place != NULL)
        free_place(place);
    return place;
}

/* What was known at the end of the last run counts less in the next one. */
static void age(struct known_program *program, uint64_t now_ns)
{
    double passed_s = now_ns > program->used_ns ? (double)(now_ns - program->used_ns) / 1e9 : 0.0;
    paces_fade(&program->paces, exp2(-passed_s / KNOWN_PROGRAMS_HALF_LIFE_S));
    for (size_t i = 0; i < program->compared_count; i++) {
        struct speedup_point *point = &program->compared[i];
        point->standard_error = fmin(point->standard_error * NOT_OLDER, point->speedup);
    }
}

struct known_program *known_programs_enter(struct known_programs *programs, uint64_t key, account_t account,
                                           uint64_t now_ns)
{
    for (uint32_t i = 0; i < KNOWN_PROGRAMS_MAX; i++) {
        struct known_program *program = programs->programs[i];
        if (program == NULL || program->key != key || program->account != account)
            continue;
        if (program->references++ == 0) {
            age(program, now_ns);
            program->gap_ns = now_ns > program->used_ns ? now_ns - program->used_ns : 1;
        }
        program->used_ns = now_ns;
        return program;
    }
    struct known_program **place = make_room(programs, account);
    if (place == NULL || (*place = calloc(1, sizeof(**place))) == NULL)
        return NULL;
    **place = (struct known_program){
        .key = key, .account = account, .used_ns = now_ns, .references = 1, .busy = -1.0};
    return *place;
}

void known_program_leave(struct known_program *program, struct paces_reader *reader, uint64_t now_ns)
{
    paces_end(&program->paces, reader);
    program->references--;
    program->used_ns = now_ns;
}

/* Takes over comparisons; of each team size the newer one stays. Where room is short, older ones go. */
static void take_compared(struct known_program *program, const struct learned *learned)
{
    struct speedup_point merged[LEARNED_POINTS_MAX];
    size_t count = 0, a = 0, b = 0;
    while (count < LEARNED_POINTS_MAX && (a < learned->points_count || b < program->compared_count)) {
        if (count + learned->points_count - a == LEARNED_POINTS_MAX)
            b = program->compared_count;
        bool newer = a < learned->points_count &&
                     (b == program->compared_count || learned->points[a].p <= program->compared[b].p);
        if (newer && b < program->compared_count && learned->points[a].p == program->compared[b].p)
            b++;
        merged[count++] = newer ? learned->points[a++] : program->compared[b++];
    }
    for (size_t i = 0; i < count; i++)
        program->compared[i] = merged[i];
    program->compared_count = count;
}

void known_program_learn(struct known_program *program, struct paces_reader *reader, const struct vscaf_page *page,
                         const struct learned *learned, double running_s, bool disturbed)
{
    struct learned_decomposition where;
    if (disturbed)
        paces_skip(reader, page);
    else if (!paces_read(&program->paces, reader, page, running_s)) {
        program->explored = false;
        program->explore_since_ns = 0;
    }
    if (learned->points_count > 0)
        take_compared(program, learned);
    if (learned_decompose(learned, &where) && where.part[LEARNED_STEAL] < 1.0)
        program->busy =
            (where.part[LEARNED_USEFUL] + where.part[LEARNED_INFLATION]) / (1.0 - where.part[LEARNED_STEAL]);
    program->points_count = speedup_of_paces(&program->paces, program->compared, program->compared_count, program->busy,
                                             program->points, &program->measured);
}

void known_programs_free(struct known_programs *programs)
{
    for (uint32_t i = 0; i < KNOWN_PROGRAMS_MAX; i++)
        free_place(&programs->programs[i]);
}
