"""Which pCPUs of this host share a core or a NUMA node, from sysfs. The daemon is always on the same host."""

import re
from pathlib import Path

from vscaf.cpulist import parse_cpu_list
from vscaf.values import HostCpus

SYSFS = Path("/sys/devices/system")


def read_host_cpus(sysfs: Path = SYSFS) -> HostCpus:
    """The online pCPUs. What sysfs does not tell is left out: a pCPU may have no core and no node in the result."""
    online, node_of, cores = _cpu_list(sysfs / "cpu" / "online"), dict[int, int](), set[frozenset[int]]()
    for directory in sysfs.glob("node/node*"):
        if found := re.fullmatch(r"node(\d+)", directory.name):
            node_of.update(dict.fromkeys(_cpu_list(directory / "cpulist"), int(found[1])))
    for cpu in online:
        if core := _cpu_list(sysfs / "cpu" / f"cpu{cpu}" / "topology" / "thread_siblings_list") & online:
            cores.add(core)
    return HostCpus(online, tuple(sorted(cores, key=min)), node_of)


def _cpu_list(path: Path) -> frozenset[int]:
    try:
        return parse_cpu_list(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return frozenset()  # not there, or not readable for us: unknown
