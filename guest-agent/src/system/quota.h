/* How much CPU time the kernel lets this process's control groups use. */
#ifndef VSCAF_QUOTA_H
#define VSCAF_QUOTA_H

/* CPUs' worth of time, the least of its group's quota and those of the groups around it that are mounted: cpu.max of
 * cgroup v2 and cpu.cfs_quota_us of v1, found by PROC/self/cgroup and PROC/self/mountinfo. 0: no quota, or none that
 * can be read. */
double quota_read(const char *proc);

#endif
