/* What the stand-in for PAPI counts: the test program defines `standin_script`, and exports it. */
#ifndef VSCAF_TEST_STANDIN_PAPI_H
#define VSCAF_TEST_STANDIN_PAPI_H

#include <stdatomic.h>

#define STANDIN_TEAMS 9

struct standin_script {
    _Atomic unsigned team;              /* size of the team at work, as the program's sections say */
    _Atomic unsigned initialised;       /* PAPI_library_init was called so often */
    _Atomic int sets;                   /* event sets that exist */
    _Atomic unsigned made;              /* that ever did */
    _Atomic unsigned attached;          /* event sets that ever were on another thread */
    double serial;                      /* instructions per cycle of attached sets */
    double by_team[STANDIN_TEAMS];      /* of the others, by the size of the team */
};

#endif
