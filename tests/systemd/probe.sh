#!/bin/bash
# Tries what the agent does, and what it must not be able to do, in its unit's sandbox. Prints lines `yes WHAT` or
# `no WHAT`. $1: a process of another user.
try() {
    local what=$1
    shift
    if "$@" > /dev/null 2> /run/vscaf/probe.why; then echo "yes $what"; else echo "no $what: $(tail -n 1 /run/vscaf/probe.why)"; fi
}
other=$1
group=/sys/fs/cgroup/vscaf.probe
put() { echo "$1" > "$2"; }

# Asks the kernel for an event of a CPU, and waits for it.
kernel_event() {
    local log=/run/vscaf/probe.events monitor status=1
    udevadm monitor --kernel > "$log" 2>&1 &
    monitor=$!
    for _ in $(seq 300); do
        ! grep -q "kernel uevent" "$log" || put change /sys/devices/system/cpu/cpu1/uevent
        if grep -q "^KERNEL\[.*cpu1" "$log"; then status=0; break; fi
        kill -0 "$monitor" || break
        sleep 0.2
    done
    kill "$monitor"
    rm -f "$log"
    return "$status"
}

echo may:
try "offline" put 0 /sys/devices/system/cpu/cpu1/online
try "online" put 1 /sys/devices/system/cpu/cpu1/online
try "affinity of another user's process" taskset -ap 1 "$other"
try "times of another user's threads" cat "/proc/$other/task/$other/schedstat"
try "user namespace of another user's process" stat -L "/proc/$other/ns/user"
try "file that another user's process has mapped" \
    sh -c 'head -c 4 "/proc/$1/map_files/$(ls "/proc/$1/map_files" | head -n 1)"' sh "$other"
try "nobody" setpriv --reuid 65534 --regid 65534 --clear-groups true
try "control group: enable" put +cpuset /sys/fs/cgroup/cgroup.subtree_control
try "control group: make" mkdir "$group"
try "control group: CPUs" put 0 "$group/cpuset.cpus"
before=$(sed -n 's/^0:://p' "/proc/$other/cgroup")
try "control group: move a process" put "$other" "$group/cgroup.procs"
put "$other" "/sys/fs/cgroup$before/cgroup.procs"
try "control group: remove" rmdir "$group"
try "kernel events" kernel_event
try "run directory" touch /run/vscaf/probe
# The agent has the port open, and it can be opened only once.
try "port" sh -c '(: < /dev/virtio-ports/org.vscaf.agent.0) 2>&1 | grep -q busy'
rm -f /run/vscaf/probe /run/vscaf/probe.why 2> /dev/null

echo must not:
try "write into /etc" touch /etc/probe
try "write into /usr" touch /usr/probe
try "change the kernel's settings" put 1 /proc/sys/kernel/panic
try "change another part of sysfs" put 1 /sys/kernel/mm/ksm/run
try "read a disk" dd if=/dev/vda of=/dev/null count=1
try "see homes" test -e /root/.profile
try "open a network socket" bash -c 'exec 3<>/dev/udp/127.0.0.1/9' 
try "mount" mount -t tmpfs none /tmp
try "own a file to somebody" chown 1 /run/vscaf
try "signal another user's process" kill -CONT "$other"
try "write the kernel's log" sh -c 'echo > /dev/kmsg'
exit 0
