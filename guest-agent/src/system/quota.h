/* How much CPU time the kernel lets this process's control groups use. */
#ifndef VSCAF_QUOTA_H
#define VSCAF_QUOTA_H

/* Returns CPUs: the smallest quota of its group and of the groups around it, as far as they are mounted (cpu.max of
 * cgroup v2, cpu.cfs_quota_us of v1). Finds them by PROC/self/cgroup and PROC/self/mountinfo. 0: there is no quota, or
 * none that can be read. */
double quota_read(const char *proc);

#endif
