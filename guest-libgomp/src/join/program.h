/* What is known of the program and its number of threads: kept over joins and forks, and published on the page. */
#ifndef VSCAF_GOMP_PROGRAM_H
#define VSCAF_GOMP_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <vscaf/page.h>

/* VSCAF_PROGRAM_ bits. Read only elsewhere. */
extern _Atomic uint32_t program_bits;

/* The number of threads that the program was told, 0: never. Read only elsewhere. */
extern _Atomic uint32_t program_limit;

/* Grows whenever something changes that a team's size was computed from. */
extern _Atomic uint32_t program_generation;

/* Reads VSCAF_MALLEABLE. Called once, when the library is loaded. */
void program_start(void);

/* Adds bits to what is known. */
void program_note(uint32_t bits);

/* In a child made by fork: bits that were true of its parent alone. */
void program_forget(uint32_t bits);

/* The program was told this number; also notes VSCAF_PROGRAM_ASKED. The largest told counts. */
void program_told(uint32_t threads);

/* The largest team that its rules still allow; above VSCAF_MAX_TEAM: they set no bound. */
void program_bounded(uint32_t most);

/* The program has turned the runtime's dynamic adjustment on or off. */
void program_set_dynamic(bool value);

/* A team's size has to be computed anew. */
void program_changed(void);

/* How the program is treated as a whole; single sections may have bounds of their own (team.h). */
enum vscaf_malleable program_malleable(void);

/* Whether it is rigid for that reason alone: that a section could not be read which may keep thread-private data. */
bool program_unread(void);

/* Copies what is known to a page that has just become the current one. */
void program_copy(struct vscaf_page *page);

#endif
