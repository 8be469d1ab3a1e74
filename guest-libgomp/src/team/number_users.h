/* Which loaded objects ask for a thread's number (omp_get_thread_num). Code that cannot be read can only ask for it if
 * it is in one of these. */
#ifndef VSCAF_GOMP_NUMBER_USERS_H
#define VSCAF_GOMP_NUMBER_USERS_H

#include <stdbool.h>
#include <stdint.h>

struct number_users {
    bool own;    /* the object with this load address */
    bool others; /* another one */
};

/* Takes the dynamic linker's lock. Makes no other system call and allocates nothing. */
struct number_users number_users_beside(uintptr_t base);

#endif
