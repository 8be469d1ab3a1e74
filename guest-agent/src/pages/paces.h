/* How fast a program is at the team sizes that it has had, over all its runs: the sums of how long its sections took
 * (vscaf_pace). No I/O and no clock. Rules: docs/learning.md. */
#ifndef VSCAF_PACES_H
#define VSCAF_PACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vscaf/page.h"

#define PACES_SECTIONS 48u
#define PACES_SIZES 6u
#define PACES_HALF_LIFE_S 120.0 /* running time of the program after which old sums count half */
#define PACES_BATCH_S 0.5       /* so much time in sections is one batch, and so is a section that takes longer */
#define PACES_FIRST_ERROR 0.15  /* relative; of a size with one batch, whose spread is not known */
#define PACES_LEAST_ERROR 0.02
#define PACES_SIZE_LEAST_S 0.05 /* a size with less time in sections is not known */
#define PACES_COMMON_LEAST 0.5  /* part of the program's time whose sections must have been seen at a size */

/* One team size. Batches are compared with the means before them; their spread gives the error. */
struct paces_size {
    uint32_t p; /* 0: free */
    uint32_t odd; /* batches in a row that do not fit what was seen before */
    float seconds, batches, squares; /* of the logarithm of a batch's time, divided by its expected time */
    float odd_squares; /* the same of the `odd` ones */
    float batch_s, batch_expected_s; /* of the batch that is not complete */
};

/* The caller fills it with zero bytes first. */
struct paces {
    uint32_t section[PACES_SECTIONS]; /* vscaf_pace.section */
    uint32_t sections;
    struct paces_size sizes[PACES_SIZES];
    float instances[PACES_SECTIONS][PACES_SIZES];
    float seconds[PACES_SECTIONS][PACES_SIZES];
    double rest_s; /* running time in no such section */
};

/* What was read from one page so far. The caller fills it with zero bytes first. */
struct paces_reader {
    uint64_t instances[VSCAF_PACES], ns[VSCAF_PACES];
    double unbooked_s; /* running time since a section was seen to end */
    bool skipped;      /* something was skipped since then */
};

/* Adds what has come to the page. running_s: how long the program has run since the last call. The page is not trusted:
 * impossible values are left out. False: it is not the program that was known, so that was forgotten. */
bool paces_read(struct paces *paces, struct paces_reader *reader, const struct vscaf_page *page, double running_s);

/* Leaves out what has come to the page: other programs had CPUs that are this one's, so it says nothing. */
void paces_skip(struct paces_reader *reader, const struct vscaf_page *page);

/* The run has ended: what came after its last section is booked, too. */
void paces_end(struct paces *paces, struct paces_reader *reader);

/* How long the program takes at one team size, all its instances so far together. */
struct paces_time {
    uint32_t p;
    double section_s, time_s;
    double error; /* relative, of time_s */
    uint32_t batches;
};

/* By ascending p. Sections that were not seen at a size count there like the others. Returns how many. */
size_t paces_times(const struct paces *paces, struct paces_time times[PACES_SIZES]);

/* Lets all that is known count less, by that factor: it is old. */
void paces_fade(struct paces *paces, double factor);

#endif
