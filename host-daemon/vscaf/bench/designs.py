"""What each command of `vscaf bench` measures: which workloads compute together, in which arrangements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vscaf.bench.measure import Design
from vscaf.bench.places.choice import POOL_CPUS
from vscaf.bench.plan import all_groups
from vscaf.bench.workloads.gather import known
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError

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

    # Three programs cannot have a CPU each on the two CPUs of a lab.
    baselines = ("unmanaged", "static") if size <= POOL_CPUS else ("unmanaged",)
    return Design(groups, (*baselines, _policy(no_vm)), every_split)


def alone(*, no_vm: bool) -> Design:
    """Each workload for itself, plain and under vscaf."""

    def groups(workloads: Mapping[str, Workload]) -> list[tuple[str, ...]]:
        return [(name,) for name in workloads]

    return Design(groups, ("unmanaged", _policy(no_vm)))


def _policy(no_vm: bool) -> str:
    return POLICY_WITHOUT_GUESTS if no_vm else POLICY
