"""What each command of `vscaf bench` measures: which workloads compute together, in which arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vscaf.bench.measure import Design
from vscaf.bench.plan import all_groups
from vscaf.bench.workloads.gather import known
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

# Thatcher 2016, section 5.8: which trees start when. A large, a medium and a small one.
COMING_AND_GOING = ("LM", "LSSS", "LMMM", "LLLL")
STARTS_S = (0.0, 3.0, 5.0, 7.0)

POLICY = "max-speedup-fitted"
POLICY_WITHOUT_GUESTS = "max-speedup"  # the stand-alone agent's default policy


def together(chosen: Sequence[str], size: int, *, no_vm: bool, every_split: bool = False) -> Design:
    """Groups of *size* workloads: those *chosen* as "A+B", else all, each workload with itself too."""

    def groups(workloads: Mapping[str, Workload]) -> list[tuple[str, ...]]:
        if not chosen:
            return all_groups(list(workloads), size)
        found = [tuple(known(name, workloads) for name in text.split("+")) for text in chosen]
        for group in found:
            if len(group) != size:
                raise UsageError(f"{'+'.join(group)}: give {size} workloads, as in {'+'.join(['cg.W'] * size)}")
        return found

    return Design(groups, ("passive", "static", "unmanaged", _policy(no_vm)), every_split)


def coming_going(sizes: Mapping[str, str], scale: float, *, no_vm: bool) -> Design:
    """A large program, to which others come while it computes (Thatcher 2016, section 5.8). Each runs once.

    sizes: the workloads of the sizes L, M and S. scale: of the times at which the programs start.
    """

    def groups(workloads: Mapping[str, Workload]) -> list[tuple[str, ...]]:
        return [tuple(known(sizes[size], workloads) for size in test) for test in COMING_AND_GOING]

    return Design(
        groups, ("passive", "unmanaged", _policy(no_vm)), starts_s=tuple(scale * start_s for start_s in STARTS_S)
    )


def barriers(workload: str, guests: int, *, no_vm: bool) -> Design:
    """A loop of barriers in one guest, in two at once, and so on."""

    def groups(workloads: Mapping[str, Workload]) -> list[tuple[str, ...]]:
        return [(known(workload, workloads),) * count for count in range(1, guests + 1)]

    return Design(groups, ("passive", "static", "unmanaged", _policy(no_vm)))


def alone(*, no_vm: bool) -> Design:
    """Each workload for itself, plain and under vscaf."""

    def groups(workloads: Mapping[str, Workload]) -> list[tuple[str, ...]]:
        return [(name,) for name in workloads]

    return Design(groups, ("passive", "unmanaged", _policy(no_vm)))


def _policy(no_vm: bool) -> str:
    return POLICY_WITHOUT_GUESTS if no_vm else POLICY
