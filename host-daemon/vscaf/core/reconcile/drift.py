"""Finds changes that somebody else has made to a domain's pins and weight."""

from vscaf.core.reconcile.state import Affinity


def foreign_changes(known: Affinity, read: Affinity) -> dict[str, str]:
    """The parts of the affinity that differ, each with a short description.

    known: the affinity that was last set or read. read: the present one. Parts: "vcpus", "emulator", "iothreads",
    "shares". A vCPU or an I/O thread that was added or removed does not count as a changed pin. pCPUs that were offline
    at one of the two times do not count: libvirt reports the online ones for a thread without a pin.
    """
    changes: dict[str, str] = {}
    online = [cpus for cpus in (known.online, read.online) if cpus]

    def differ(one: frozenset[int], other: frozenset[int]) -> bool:
        return one != other and bool(frozenset.intersection(one ^ other, *online))

    common = sorted(known.vcpus.keys() & read.vcpus.keys())
    moved = [vcpu for vcpu in common if differ(known.vcpus[vcpu], read.vcpus[vcpu])]
    if moved:
        changes["vcpus"] = f"the pins of vCPU {', '.join(map(str, moved))}"
    if differ(known.emulator, read.emulator):
        changes["emulator"] = "the emulator's pin"
    threads = sorted(known.iothreads.keys() & read.iothreads.keys())
    threads = [thread for thread in threads if differ(known.iothreads[thread], read.iothreads[thread])]
    if threads:
        changes["iothreads"] = f"the pins of I/O thread {', '.join(map(str, threads))}"
    if None not in (known.shares, read.shares) and known.shares != read.shares:
        changes["shares"] = f"its CPU weight ({known.shares} -> {read.shares})"
    return changes
