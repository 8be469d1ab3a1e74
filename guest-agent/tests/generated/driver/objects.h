/* The objects of a process, and the verdicts on their parallel sections: vscaf-inspect's, or made up. */
#ifndef VSCAF_TEST_OBJECTS_H
#define VSCAF_TEST_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <vscaf/page.h>

/* Every section that a process asks about is FREE: shows that wrong verdicts are found. */
extern bool objects_all_free;

/* The verdict word for the outlined function at this address of the process. */
uint32_t objects_verdict(pid_t process, uint64_t address);

/* Fills page->known with the sections of all objects that the process has now. */
void objects_fill_known(pid_t process, struct vscaf_page *page);

/* Inspects a file. False: it cannot be read. */
bool objects_inspect(const char *path);

/* Prints the sections of all objects that were inspected, as a JSON list. */
void objects_print(FILE *out);

#endif
