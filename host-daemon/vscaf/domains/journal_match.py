"""Whether an entry of the journal is about a run of a domain."""

from collections.abc import Mapping

from vscaf.domains.pool import HostPool
from vscaf.journal import JournalEntry
from vscaf.values import DomainSeen


def is_of(
    entry: JournalEntry, seen: DomainSeen, booted: bool, pins: Mapping[int, frozenset[int]], pool: HostPool
) -> bool:
    """Whether *entry* is about the run that is *seen*, whose vCPUs have these *pins*. booted: it began by a boot.

    Where its start is not known, a run that began by a boot and has none but other pins is another run. vscaf may have
    been killed on the way between two partitions, so whatever it could have given counts.
    """
    same = entry.is_of(seen)
    if same is not None or not booted:
        return same is not False
    found, ours = entry.found.settings().vcpu_pins, (pool.cpus, pool.reserve, frozenset(entry.reach))
    return any(cpus == found.get(vcpu) or any(cpus <= area for area in ours) for vcpu, cpus in pins.items())


def came_back(
    departed: JournalEntry, seen: DomainSeen, booted: bool, pins: Mapping[int, frozenset[int]], pool: HostPool
) -> bool:
    """Whether the run that ended lives on in this one: it was overlooked once, or saved and restored. As is_of()."""
    if is_of(departed, seen, booted, pins, pool):
        return True
    if booted:  # whatever pins it has are its definition's or somebody else's
        return False
    if departed.suspended and seen.paused and pins == departed.found.settings().vcpu_pins:
        return True  # vscaf had not come to pin it
    return bool(departed.reach) and frozenset[int]().union(*pins.values()) <= set(departed.reach)
