/* An agent on a clock and a /proc that the test drives (linked with --wrap=clock_gettime). So tests check when things
 * happen and how CPU time is judged, even if the test machine is busy. */
#ifndef VSCAF_SCRIPTED_AGENT_H
#define VSCAF_SCRIPTED_AGENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/agent.h"

#define CPUS 4
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS UINT64_C(1000000)
#define PERIOD_MS 250
#define TICKS 100 /* ticks per second in /proc/stat */
#define PROGRAMS 3

extern uint64_t now_ns;
extern uint64_t held_up_ns; /* the agent gets no CPU for so long, before it next reads a program's CPU time */
extern double busy_ticks;   /* in /proc/stat: call put_stat after a change */
extern char directory[64], place[96];
extern struct agent *agent;
extern struct options options;

extern const double NONE_RUNNING[PROGRAMS], FIRST[PROGRAMS], TWO[PROGRAMS]; /* CPUs that the programs use */

int begin(void **state);
int end(void **state);

/* Writes a file, and makes the directories above it. */
void put(const char *above, const char *name, const char *text);
void put_stat(void);

/* A program that has just joined. */
struct client *join(uint32_t number);

/* The same, and the agent has looked whether sections go on with the larger teams of before. */
struct client *join_and_look(uint32_t number);

/* Time passes and a period ends. The programs used `cpus` CPUs, and processes that never joined `others_cpus`. */
void pass(uint64_t time_ns, const double cpus[PROGRAMS], double others_cpus);
void periods(unsigned count, const double cpus[PROGRAMS], double others_cpus);

/* The host orders `cpus` CPUs. */
void order(uint32_t cpus, uint32_t deadline_ms);

/* Advances the agent until the order is applied. Returns the time. */
uint64_t settle(void);

uint32_t team(const struct client *client);

#endif
