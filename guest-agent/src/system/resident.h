/* Memory of the agent that is resident. */
#ifndef VSCAF_RESIDENT_H
#define VSCAF_RESIDENT_H

/* Unmaps the code and constants, of the program and its libraries, that have been mapped so far. Only the start needed
 * most of them. Pages that are used later come back from the page cache, 64 KiB for each fault. */
void resident_trim(void);

#endif
