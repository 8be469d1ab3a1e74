/* Whether Linux's steal governor takes CPUs from programs in this guest. It is a driver of the guest's kernel
 * (CONFIG_STEAL_GOVERNOR, drivers/virt/steal_governor.c). While it is loaded, the scheduler avoids the CPUs that are not in
 * SYSFS/devices/system/cpu/preferred. */
#ifndef VSCAF_STEAL_GOVERNOR_H
#define VSCAF_STEAL_GOVERNOR_H

enum steal_governor {
    STEAL_GOVERNOR_NONE, /* the kernel has no list of preferred CPUs */
    STEAL_GOVERNOR_OFF,  /* the kernel has the list, but nothing changes it: the driver is not loaded */
    STEAL_GOVERNOR_ON,   /* the driver is loaded */
};

/* Looks up two names and opens no file. */
enum steal_governor steal_governor_look(const char *sysfs);

#endif
