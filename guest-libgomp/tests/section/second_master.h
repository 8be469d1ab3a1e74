/* Calls of a shim that was built with second_master_hooks.c to the program. */
#ifndef VSCAF_TEST_SECOND_MASTER_H
#define VSCAF_TEST_SECOND_MASTER_H

/* Before and after the shim notes that several threads start sections, and before it decides about a team of the
 * first. */
__attribute__((visibility("default"))) void second_master_noting(void);
__attribute__((visibility("default"))) void second_master_noted(void);
__attribute__((visibility("default"))) void second_master_deciding(void);

#endif
