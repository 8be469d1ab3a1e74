/* --check: privileges, kernel, CPUs, steal governor, cpuset, udev rules. */
#ifndef VSCAF_CHECK_SYSTEM_H
#define VSCAF_CHECK_SYSTEM_H

#include "tell/check_lines.h"

void check_privileges(struct check *check);
void check_kernel(struct check *check);
void check_cpus(struct check *check);
void check_steal_governor(struct check *check);
void check_cpuset(struct check *check);
void check_udev_rules(struct check *check);

#endif
