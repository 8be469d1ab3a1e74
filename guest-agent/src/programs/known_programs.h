/* What is known of programs outlives their runs. A program is told by its file, its arguments and its account. */
#ifndef VSCAF_KNOWN_PROGRAMS_H
#define VSCAF_KNOWN_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pages/learned.h"
#include "pages/paces.h"
#include "pages/speedup_of_paces.h"
#include "programs/account.h"

#define KNOWN_PROGRAMS_MAX 128u
#define KNOWN_PROGRAMS_ACCOUNT_MAX 32u /* of one account */
#define KNOWN_PROGRAMS_HALF_LIFE_S 3600.0 /* without a run, after which what is known counts half */

struct known_program {
    uint64_t key; /* a hash of file and arguments */
    account_t account;
    uint64_t used_ns;
    uint32_t references; /* processes that run it */
    uint64_t gap_ns; /* between its last two runs; 0: it ran once */
    struct paces paces;
    struct speedup_point compared[LEARNED_POINTS_MAX]; /* the last ones of each team size */
    size_t compared_count;
    double busy; /* the part of its threads' time that it computes; below 0: not known */
    bool measured; /* speedup_of_paces.h */
    uint64_t explore_since_ns; /* since then it has a team size that it had not before (shares.c); 0: no */
    bool explored;             /* that was tried */
    struct speedup_point points[SPEEDUP_POINTS_MAX]; /* S(p); none: unknown */
    size_t points_count;
};

struct known_programs {
    struct known_program *programs[KNOWN_PROGRAMS_MAX]; /* NULL: a free place */
};

/* The program, which is made if it is not known: for the caller to leave. NULL: there is no room. */
struct known_program *known_programs_enter(struct known_programs *programs, uint64_t key, account_t account,
                                           uint64_t now_ns);

/* A process of the program has ended, after its last known_program_learn(). */
void known_program_leave(struct known_program *program, struct paces_reader *reader, uint64_t now_ns);

/* Takes what a process of the program has learned. running_s: how long it has run since the last call. disturbed: in
 * that time sections with larger teams than they should have used CPUs of others, so its own times say nothing. */
void known_program_learn(struct known_program *program, struct paces_reader *reader, const struct vscaf_page *page,
                         const struct learned *learned, double running_s, bool disturbed);

void known_programs_free(struct known_programs *programs);

#endif
