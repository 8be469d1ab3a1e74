"""What somebody else has changed of a domain's host side."""

from vscaf.core.reconcile.state import Affinity


def foreign_changes(known: Affinity, read: Affinity) -> dict[str, str]:
    """Parts of the affinity that differ from what was brought about, each with a few words (before -> after).

    known: what was last set or read. read: what there is. Parts: "vcpus", "emulator", "iothreads", "shares". A vCPU or
    an I/O thread that came or went is no change of a pin.
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
