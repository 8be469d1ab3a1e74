/* Gives up all rights but those to compute, to get memory and to write to open descriptors. */
#ifndef VSCAF_INSPECT_SANDBOX_H
#define VSCAF_INSPECT_SANDBOX_H

/* Bounds of one inspection. */
#define SANDBOX_CPU_S 100u /* 20 s were too few for lu.S where QEMU emulates the CPU */
#define SANDBOX_S 120u
#define SANDBOX_MEMORY_BYTES (UINT64_C(1) << 30)

/* The lowest priority: any other work goes first. Also the first to be ended when memory runs out. */
void sandbox_yield_cpu(void);

/* Call it in a child that has nothing to open any more. Any other system call kills it from then on. The child ends
 * with its parent. Returns 0, or -1 if a right could not be given up: then do not read what others wrote. */
int sandbox_enter(void);

#endif
