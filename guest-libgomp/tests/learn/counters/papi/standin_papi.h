/* The counts of the stand-in for PAPI. The test program defines `standin_script` and exports it. */
#ifndef VSCAF_TEST_STANDIN_PAPI_H
#define VSCAF_TEST_STANDIN_PAPI_H

#include <stdatomic.h>

#define STANDIN_TEAMS 9

struct standin_script {
    _Atomic unsigned team;              /* size of the present team, which the program's sections set */
    _Atomic unsigned initialised;       /* calls of PAPI_library_init */
    _Atomic int sets;                   /* event sets that exist */
    _Atomic unsigned made;              /* event sets that were ever made */
    _Atomic unsigned attached;          /* event sets that were ever attached to another thread */
    _Atomic int attach_ms;              /* how long it takes to attach one */
    double serial;                      /* instructions per cycle of attached sets */
    double by_team[STANDIN_TEAMS];      /* the same of other sets, by the size of the team; [0]: before the first */
};

#endif
