"""Compares what policies decided about the same recorded time."""

from collections.abc import Iterable
from dataclasses import dataclass

from vscaf_policies import DomainState, PoolState
from vscaf_policies.estimates import worth

from vscaf.replay.again import Moment


@dataclass(frozen=True, slots=True)
class Figures:
    """One policy over the recorded time. Means are over time.

    pcpus: for each domain, the mean over the time in which it was there. A domain that shares a pCPU by time counts
    with its part. sum_of_speedups: the mean sum of the modelled speedups of the domains that want CPUs, without
    weights. changes: how often a domain got another number of pCPUs. unmanaged: the share of the time in which the
    policy changed nothing; that time is in no mean. failed: decisions in which the policy raised.
    """

    policy: str
    seconds: float
    decisions: int
    pcpus: dict[str, float]
    sum_of_speedups: float | None
    changes: int
    unmanaged: float
    failed: int


def figures(policy: str, moments: Iterable[Moment]) -> Figures:
    """The figures of *policy*."""
    there_s: dict[str, float] = {}
    cpu_s: dict[str, float] = {}
    speedup_s = seconds = unmanaged_s = 0.0
    decisions = changes = failed = 0
    before: dict[str, float] = {}
    for moment in moments:
        result, decisions = moment.result, decisions + 1
        seconds += moment.seconds
        failed += result.failed
        if not result.managed:
            unmanaged_s += moment.seconds
            before = {}
            continue
        parts = {one.name: _part(moment, one.name) for one in moment.pool.domains}
        changes += sum(name in before and before[name] != cpus for name, cpus in parts.items())
        before = parts
        for name, cpus in parts.items():
            there_s[name] = there_s.get(name, 0.0) + moment.seconds
            cpu_s[name] = cpu_s.get(name, 0.0) + cpus * moment.seconds
        if moment.seconds:
            speedup_s += moment.seconds * sum(_speedup(moment, one) for one in moment.pool.domains)
    managed_s = seconds - unmanaged_s
    return Figures(
        policy=policy,
        seconds=seconds,
        decisions=decisions,
        pcpus={name: cpu_s[name] / there_s[name] for name in sorted(there_s) if there_s[name] > 0},
        sum_of_speedups=speedup_s / managed_s if managed_s > 0 else None,
        changes=changes,
        unmanaged=unmanaged_s / seconds if seconds > 0 else 0.0,
        failed=failed,
    )


def _sharers(moment: Moment, name: str) -> int:
    return len(moment.result.sharing) if name in moment.result.sharing else 1


def _part(moment: Moment, name: str) -> float:
    return moment.result.allocations[name] / _sharers(moment, name)


def _speedup(moment: Moment, domain: DomainState) -> float:
    """The modelled speedup of what it has. 0 without demand, and while nothing is known of it."""
    cpus = moment.result.allocations[domain.name]
    if domain.demand <= 0 or cpus <= 0:
        return 0.0
    return modelled_speedup(moment.pool, domain, cpus) / _sharers(moment, domain.name)


def modelled_speedup(pool: PoolState, domain: DomainState, cpus: int) -> float:
    """The speedup by its curve as it was known; 0: not known."""
    known = worth(domain, pool)
    if known is None:
        return 0.0
    return float(known.expected[min(max(1, cpus // pool.chunk), len(known.expected)) - 1])
