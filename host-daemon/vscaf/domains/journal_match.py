"""Decides whether an entry of the journal is about a given run of a domain."""

from collections.abc import Mapping

from vscaf.domains.pool import HostPool
from vscaf.journal import JournalEntry
from vscaf.values import DomainSeen


def is_of(
    entry: JournalEntry, seen: DomainSeen, booted: bool, pins: Mapping[int, frozenset[int]], pool: HostPool
) -> bool:
    """Whether *entry* is about the run *seen*, whose vCPUs have these *pins*. booted: the run began with a boot.

    If the start of a run is not known, its pins decide: a run that began with a boot and has no pin that vscaf may have
    set or found is another run. vscaf may have been killed between two partitions, so all pins that it could have set
    count.
    """
    same = entry.is_of(seen)
    if same is not None or not booted:
        return same is not False
    found, ours = entry.found.settings().vcpu_pins, (pool.cpus, pool.reserve, frozenset(entry.reach))
    return any(cpus == found.get(vcpu) or any(cpus <= area for area in ours) for vcpu, cpus in pins.items())


def came_back(
    departed: JournalEntry, seen: DomainSeen, booted: bool, pins: Mapping[int, frozenset[int]], pool: HostPool
) -> bool:
    """Whether *seen* continues the run of *departed*: a look missed the domain once, or it was saved and restored.

    Arguments as for is_of().
    """
    if is_of(departed, seen, booted, pins, pool):
        return True
    if booted:  # its pins come from its definition or from somebody else
        return False
    if left_suspended(departed, seen) and pins == departed.found.settings().vcpu_pins:
        return True  # vscaf had not pinned it yet
    return bool(departed.reach) and frozenset[int]().union(*pins.values()) <= set(departed.reach)


def left_suspended(departed: JournalEntry, seen: DomainSeen) -> bool:
    """Whether *seen*, which continues the run of *departed*, is paused because vscaf had suspended it.

    It may have been saved and restored since. A restored domain is not paused by request, so another run that is was
    started or suspended by somebody who wants it paused.
    """
    return departed.suspended and seen.paused and not (seen.paused_by_request and departed.is_of(seen) is False)
