/* How much of the agent is resident. */
#ifndef VSCAF_RESIDENT_H
#define VSCAF_RESIDENT_H

/* Lets go of the code and constants, of the program and of its libraries, that have been mapped so far: most of them
 * served the start alone. What is used further on comes back from the page cache, 64 KiB for each fault. */
void resident_trim(void);

#endif
