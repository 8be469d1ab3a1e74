/* What is known about the program and its number of threads. It survives joins and forks, and is published on the
 * page. */
#ifndef VSCAF_GOMP_PROGRAM_H
#define VSCAF_GOMP_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* VSCAF_PROGRAM_ bits. Others only read it. */
extern _Atomic uint32_t program_bits;

/* The number of threads that the program was told; 0: never told. Others only read it. */
extern _Atomic uint32_t program_limit;

/* Grows when one of the inputs of a team's size changes, the page among them. Hidden, so that the hot path loads it
 * without the global offset table. */
extern _Atomic uint32_t program_generation __attribute__((visibility("hidden")));

/* Reads VSCAF_MALLEABLE. Called once, when the library is loaded. */
void program_start(void);

/* Sets bits in program_bits. */
void program_note(uint32_t bits);

/* For a child made by fork: clears bits that were true only of its parent. */
void program_forget(uint32_t bits);

/* Records that the program was told this number, and VSCAF_PROGRAM_ASKED. The largest number told is kept. */
void program_threads_reported(uint32_t threads);

/* Records the largest team that user and program still allow. Above VSCAF_MAX_TEAM: no bound. */
void program_bounded(uint32_t most);

/* Records that some section may have more threads than the program was told. */
void program_grows(void);

/* The program has turned the runtime's dynamic adjustment on or off. */
void program_set_dynamic(bool value);

/* Team sizes must be computed again. */
void program_changed(void);

/* How the program is treated. Single sections may have further bounds (team.h). */
enum vscaf_malleable program_malleable(void);

/* What user and program have declared. The user's word (VSCAF_MALLEABLE) comes first, then the program's calls of
 * vscaf's functions, then dynamic adjustment (omp_set_dynamic, OMP_DYNAMIC). */
enum program_declaration {
    PROGRAM_DECLARES_NOTHING,
    PROGRAM_RESIZE,      /* each section may have any size, up to the number that the program was told or has set */
    PROGRAM_LEAVE_ALONE, /* each section has the program's own number */
};
enum program_declaration program_declared(void);

/* The program, or a file of the administrator, declares this; the last one counts. */
void program_declare(enum program_declaration declaration);

/* Copies the known facts to a page that has just become the current one. */
void program_copy(struct vscaf_page *page);

#endif
