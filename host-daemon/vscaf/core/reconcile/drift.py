"""Finds changes that somebody else has made to a domain's pins and weight."""

from vscaf.core.reconcile.state import Affinity


def foreign_changes(known: Affinity, read: Affinity) -> dict[str, str]:
    """The parts of the affinity that differ, each with a short description.

    known: the affinity that was last set or read. read: the present one. Parts: "vcpus", "emulator", "iothreads",
    "shares". A vCPU or an I/O thread that was added or removed does not count as a changed pin.
    """
    changes: dict[str, str] = {}
    moved = [vcpu for vcpu in sorted(known.vcpus.keys() & read.vcpus.keys()) if known.vcpus[vcpu] != read.vcpus[vcpu]]
    if moved:
        changes["vcpus"] = f"the pins of vCPU {', '.join(map(str, moved))}"
    if known.emulator != read.emulator:
        changes["emulator"] = "the emulator's pin"
    threads = sorted(known.iothreads.keys() & read.iothreads.keys())
    threads = [thread for thread in threads if known.iothreads[thread] != read.iothreads[thread]]
    if threads:
        changes["iothreads"] = f"the pins of I/O thread {', '.join(map(str, threads))}"
    if None not in (known.shares, read.shares) and known.shares != read.shares:
        changes["shares"] = f"its CPU weight ({known.shares} -> {read.shares})"
    return changes
