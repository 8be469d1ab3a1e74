"""From observations to a plan: how long the pure part of a period takes, and how that grows."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from vscaf.bench.intervals import median_interval
from vscaf.config import PolicyConfig
from vscaf.core.decide.decision import DecideMemory, Decision, decide
from vscaf.core.place.invariants import check_partitions
from vscaf.core.place.placement import place
from vscaf.core.place.topology import Topology
from vscaf.core.reconcile.plan import TransitionPlan, plan
from vscaf_policies import DomainState, Policy, PoolState, load_policy

from .report import Report, Result

SIZES = ((10, 64), (100, 512), (1000, 4096))
"""Domains and pCPUs."""

CHUNK, NODES, CACHES_A_NODE = 2, 8, 4
BUSY_SHARE = 0.9  # of the domains have demand
DOZEN = 12
BAR_MS, BAR_ALL_CHANGE_MS = 5.0, 10.0

POLICIES = {"": "max-speedup", ".default": PolicyConfig().name}
"""The policies' names, by the suffix in results: SCAF's, which costs least, and the daemon's default."""


def big_host(cpus: int) -> Topology:
    """Cores of two threads, c and c + cpus / 2, on eight nodes of four last-level caches each."""
    cores = cpus // CHUNK
    per_node, per_cache = cores // NODES, max(1, cores // NODES // CACHES_A_NODE)
    chunks = tuple(frozenset(core + thread * cores for thread in range(CHUNK)) for core in range(cores))
    groups: dict[int, set[int]] = {}
    for core, chunk in enumerate(chunks):
        groups.setdefault(core // per_cache, set()).update(chunk)
    return Topology(
        chunks=chunks,
        node_of={cpu: core // per_node for core, chunk in enumerate(chunks) for cpu in chunk},
        caches=tuple(map(frozenset, groups.values())),
        distances={
            (a, b): 10 if a == b else 12 if a // 4 == b // 4 else 32 for a in range(NODES) for b in range(NODES)
        },
    )


def first_state(domains: int, cpus: int, chance: random.Random) -> PoolState:
    """Domains of a busy host: most with demand, a tenth with unknown speedup, and various bounds."""
    fair = max(CHUNK, cpus // domains)
    return PoolState(
        cpus=cpus,
        chunk=CHUNK,
        time_s=0.0,
        domains=tuple(
            DomainState(
                name=f"domain-{number:04}",
                minimum=chance.choice((1, CHUNK)),
                maximum=chance.choice((fair, 2 * fair, 4 * fair, cpus)),
                weight=1.0,
                demand=chance.randrange(1, 4 * fair) if chance.random() < BUSY_SHARE else 0,
                allocation=0,
                may_rest=True,
                scaf_weight=None if chance.random() < 0.1 else chance.uniform(0.1, 4.0),
                newcomer=False,
                points=(),
            )
            for number in range(domains)
        ),
    )


@dataclass
class Period:
    """The outcome of a period, the time of each of its functions, and their CPU time in total."""

    decision: Decision
    target: dict[str, frozenset[int]]
    transition_plan: TransitionPlan
    parts_ms: dict[str, float]
    cpu_ms: float

    @property
    def total_ms(self) -> float:
        return math.fsum(self.parts_ms.values())


def observe_to_plan(
    topology: Topology, pool: PoolState, held: Mapping[str, frozenset[int]], memory: DecideMemory, policy: Policy
) -> Period:
    """What the daemon does between observing the host and changing it."""
    clock = time.perf_counter
    begun_cpu, begun = time.thread_time(), clock()
    decision = decide(pool, policy, {}, memory)
    decided = clock()
    target = place(topology, held, decision.allocations, decision.sharing)
    placed = clock()
    bounds = {domain.name: (domain.minimum, domain.maximum) for domain in pool.domains}
    violations = check_partitions(target, decision.allocations, bounds, topology, decision.sharing)
    checked = clock()
    transition_plan = plan(held, target, decision.sharing)
    planned = clock()
    cpu_ms = 1e3 * (time.thread_time() - begun_cpu)
    if violations:
        raise SystemExit(f"the partition breaks a law: {violations[0]}")
    times = {"decide": decided - begun, "place": placed - decided, "check": checked - placed, "plan": planned - checked}
    return Period(decision, target, transition_plan, {name: 1e3 * seconds for name, seconds in times.items()}, cpu_ms)


def nothing_changes(pool: PoolState, _chance: random.Random) -> PoolState:
    """The steady state."""
    return pool


def weights_drift(pool: PoolState, chance: random.Random) -> PoolState:
    """Every report differs slightly. No change is worth it, but damping must compute that."""
    domains = tuple(
        d if d.scaf_weight is None else replace(d, scaf_weight=d.scaf_weight * chance.uniform(0.99, 1.01))
        for d in pool.domains
    )
    return replace(pool, domains=domains)


def dozen_change(pool: PoolState, chance: random.Random) -> PoolState:
    """The worst ordinary period: a dozen domains start, stop, or change their demand."""
    chosen = set(chance.sample(range(len(pool.domains)), min(DOZEN, len(pool.domains))))
    fair = max(CHUNK, pool.cpus // len(pool.domains))
    domains = tuple(
        replace(d, demand=0 if d.demand and chance.random() < 0.5 else chance.randrange(1, 4 * fair))
        if index in chosen
        else d
        for index, d in enumerate(pool.domains)
    )
    return replace(pool, domains=domains)


def all_change(pool: PoolState, chance: random.Random) -> PoolState:
    """Draws new weights, demands and bounds for all domains."""
    fresh = first_state(len(pool.domains), pool.cpus, chance)
    return replace(
        pool,
        domains=tuple(
            replace(new, allocation=old.allocation) for new, old in zip(fresh.domains, pool.domains, strict=True)
        ),
    )


CASES: dict[str, Callable[[PoolState, random.Random], PoolState]] = {
    "steady": nothing_changes,
    "drift": weights_drift,
    "dozen_change": dozen_change,
    "all_change": all_change,
}
ORDINARY = ("steady", "drift", "dozen_change")


def history(domains: int, cpus: int, case: str, policy: Policy, periods: int) -> Iterator[Period]:
    """Successive periods, in which each plan is carried out completely."""
    chance = random.Random(f"{domains} {cpus} {case}")
    topology = big_host(cpus)
    pool, held, memory = first_state(domains, cpus, chance), dict[str, frozenset[int]](), DecideMemory()
    for number in range(periods + 2):
        period = observe_to_plan(topology, pool, held, memory, policy)
        if number >= 2:  # the first period places everything, the second settles
            yield period
        held, memory = dict(period.target), period.decision.memory
        pool = replace(
            pool,
            time_s=pool.time_s + 0.25,
            domains=tuple(replace(d, allocation=period.decision.allocations[d.name]) for d in pool.domains),
        )
        pool = CASES[case](pool, chance)


def measure(quick: bool, report: Report) -> None:
    """Adds for each size the worst of the ordinary cases, and separately the case in which every domain changes.

    decide.DOMAINSxCPUS: the median of a period in the slowest of ORDINARY; decide.DOMAINSxCPUS.all_change; both also
    with .default, for the daemon's default policy. The domains report SCAF's C and no points: bench-policies measures
    decisions with fitted curves. The growth exponents in details are for time against domains, from the smallest size
    to the largest.
    """
    for suffix, policy_name in POLICIES.items():
        _measure_policy(quick, report, suffix, load_policy(policy_name))


def _measure_policy(quick: bool, report: Report, suffix: str, policy: Policy) -> None:
    medians: dict[str, list[float]] = {}
    for domains, cpus in SIZES:
        name = f"decide.{domains}x{cpus}{suffix}"
        judged = (domains, cpus) == SIZES[-1] and not suffix
        results: dict[str, Result] = {}
        details: dict[str, object] = {}
        for case in CASES:
            gc.collect()
            figures: list[tuple[float, float, dict[str, float], int]] = []
            for period in history(domains, cpus, case, policy, 20 if quick else 100):
                # Only numbers of a period are kept, because the garbage collector's time grows with the objects.
                steps = len(period.transition_plan.shrinks) + len(period.transition_plan.grows)
                figures.append((period.total_ms, period.cpu_ms, period.parts_ms, steps))
            times = [total for total, *_others in figures]
            results[case] = Result(name, "ms", *median_interval(times), len(times))
            medians.setdefault(case, []).append(results[case].value)
            details[case] = {
                "ms": {"median": results[case].value, "smallest": min(times), "largest": max(times)},
                "cpu_ms": median_interval([cpu_ms for _total, cpu_ms, _parts, _steps in figures])[0],
                "parts_ms": {
                    part: median_interval([parts[part] for _total, _cpu, parts, _steps in figures])[0]
                    for part in figures[0][2]
                },
                "steps_of_the_plan": median_interval([float(steps) for *_others, steps in figures])[0],
            }
            print(f"   {name} {case}: {results[case].value:.3g} ms", flush=True)
        worst = max(ORDINARY, key=lambda case: results[case].value)
        report.add(replace(results[worst], bar=f"<= {BAR_MS:g} ms" if judged else ""))
        bar = f"<= {BAR_ALL_CHANGE_MS:g} ms" if judged else ""
        report.add(replace(results["all_change"], name=f"{name}.all_change", bar=bar))
        report.details[name] = {"worst_of_ordinary": worst, **details}
    scale = math.log(SIZES[-1][0] / SIZES[0][0])
    growth = {case: math.log(values[-1] / values[0]) / scale for case, values in medians.items()}
    report.details[f"decide.growth_exponent{suffix}"] = growth
