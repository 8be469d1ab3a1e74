"""Expands a scenario to its guests: resolves counts and arrivals, always the same for the same seed."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import msgspec

from vscaf.errors import UsageError
from vscaf.simulate.scenarios.curves import Curve
from vscaf.simulate.scenarios.scenario import LOSS, Arrivals, Guest, GuestPlan, Phase, PhasePlan, Scenario, curve_of

HOUR_S = 3600.0
TURNS = 16
"""Phases of computing and idling that are drawn for a guest of [[arrivals]] before they repeat."""


def scenarios_of(scenario: Scenario) -> tuple[Scenario, ...]:
    """The scenarios to run: itself, or one for each of its pairs. UsageError as expanded()."""
    return (scenario,) if scenario.pairs is None else _paired(scenario)


def _paired(scenario: Scenario) -> tuple[Scenario, ...]:
    """A scenario for each pair of its curves, in their order. UsageError if keys contradict each other."""
    pairs = scenario.pairs
    assert pairs is not None  # the caller has checked
    if scenario.guests or scenario.arrivals:
        raise UsageError("there is [pairs] and [[guest]] or [[arrivals]]: remove one of them")
    try:
        curves = [curve_of(named) for named in pairs.curves]
    except UsageError as error:
        raise UsageError(f"pairs: {error}") from error
    names = list(dict.fromkeys(curve.name for curve in curves))
    if len(names) < len(curves):
        raise UsageError(f"pairs: of its curves, some have one name ({', '.join(names)}): name each once")
    sizes = range(1, scenario.host.pcpus + 1)
    alone_s = pairs.alone_s
    guests = [
        Guest(
            name=curve.name,
            curve=named,
            work_s=alone_s and alone_s * max(map(curve.speedup, sizes)),
            loss=pairs.loss,
            yields=pairs.yields,
        )
        for curve, named in zip(curves, pairs.curves, strict=True)
    ]
    return tuple(
        msgspec.structs.replace(
            scenario,
            name=f"{scenario.name}-{one.name}-{other.name}",
            pairs=None,
            guests=(one, msgspec.structs.replace(other, start_s=pairs.apart_s)),
        )
        for one, other in combinations(guests, 2)
    )


def expanded(scenario: Scenario, seed: int | None = None) -> tuple[GuestPlan, ...]:
    """All guests, in the order of their start and then of the file. *seed* is for arrivals (None: the scenario's own).

    UsageError if a curve cannot be used or keys contradict each other.
    """
    seed = scenario.seed if seed is None else seed
    if scenario.pairs is not None:
        raise UsageError("it stands for one scenario for each of its pairs: call scenarios_of() first")
    plans = [plan for guest in scenario.guests for plan in _counted(guest, scenario)]
    for arrivals in scenario.arrivals:
        plans += _arriving(arrivals, scenario, random.Random(f"{seed} {arrivals.name}"))
    if not plans:
        raise UsageError("there is no [[guest]], no [[arrivals]] and no [pairs]: add one")
    if scenario.settle_s >= scenario.seconds:
        raise UsageError(f"settle_s {scenario.settle_s:g} leaves nothing of the {scenario.seconds:g} seconds: lower it")
    threads, nodes = scenario.host.threads_per_core, scenario.host.nodes
    if scenario.host.pcpus % threads:
        raise UsageError(f"host.pcpus {scenario.host.pcpus} are not whole cores of {threads} threads: change one")
    if nodes * threads > scenario.host.pcpus:
        raise UsageError(f"host.nodes {nodes}: there are fewer cores than nodes: lower it")
    twice = [name for name, count in Counter(plan.name for plan in plans).items() if count > 1]
    if twice:
        raise UsageError(f"guest {twice[0]}: there are two of that name: rename one")
    return tuple(sorted(plans, key=lambda plan: plan.start_s))


def _counted(guest: Guest, scenario: Scenario) -> Iterator[GuestPlan]:
    where = f"guest {guest.name}"
    if guest.end_s is not None and guest.end_s <= guest.start_s:
        raise UsageError(f"{where}: end_s {guest.end_s:g} is not after start_s {guest.start_s:g}: raise it")
    if (guest.behaviour == "crashes") != (guest.crash_s is not None):
        raise UsageError(f'{where}: behaviour = "crashes" and crash_s go together: give both or neither')
    if guest.crash_s is not None and guest.crash_s <= guest.start_s:
        raise UsageError(f"{where}: crash_s {guest.crash_s:g} is not after start_s {guest.start_s:g}: raise it")
    if guest.maximum is not None and guest.maximum < guest.minimum:
        raise UsageError(f"{where}: maximum {guest.maximum} is below minimum {guest.minimum}: raise it")
    try:
        curve = curve_of(guest.curve)
        unmanaged_curve = curve if guest.unmanaged_curve is None else curve_of(guest.unmanaged_curve)
        phases = tuple(_phase(phase, curve) for phase in guest.phases) or (PhasePlan(None, None, curve),)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if guest.home_node is not None and guest.home_node >= scenario.host.nodes:
        raise UsageError(f"{where}: home_node {guest.home_node}: the host has {scenario.host.nodes} nodes: lower it")
    vcpus = guest.vcpus or min(4096, scenario.host.pcpus)
    for number in range(guest.count):
        yield GuestPlan(
            name=guest.name if guest.count == 1 else f"{guest.name}-{number}",
            curve=curve,
            vcpus=vcpus,
            start_s=guest.start_s,
            end_s=guest.end_s,
            work_s=guest.work_s,
            minimum=guest.minimum,
            maximum=guest.maximum,
            weight=guest.weight,
            priority=guest.priority,
            behaviour=guest.behaviour,
            claims=guest.claims,
            crash_s=guest.crash_s,
            rigid=guest.rigid,
            granularity=guest.granularity,
            loss=guest.loss or LOSS[guest.granularity],
            spins=guest.granularity == "fine" if guest.spins is None else guest.spins,
            yields=guest.yields,
            unmanaged_curve=unmanaged_curve,
            vcpus_at_start=min(guest.vcpus_at_start or vcpus, vcpus),
            home_node=guest.home_node,
            phases=phases,
        )


def _phase(phase: Phase, curve: Curve) -> PhasePlan:
    if (phase.seconds is None) == (phase.work_s is None):
        raise UsageError("phases: one must have exactly one of seconds and work_s: give the one that ends it")
    if phase.idle and (phase.serial or phase.curve is not None or phase.seconds is None):
        raise UsageError("phases: an idle one has seconds and nothing else: remove the rest")
    if phase.serial and phase.curve is not None:
        raise UsageError("phases: a serial one has no curve: remove it")
    own = None if phase.idle else curve if phase.curve is None else curve_of(phase.curve)
    return PhasePlan(phase.seconds, phase.work_s, own, phase.serial)


def _arriving(arrivals: Arrivals, scenario: Scenario, rng: random.Random) -> Iterator[GuestPlan]:
    where = f"arrivals {arrivals.name}"
    if not arrivals.curves or not arrivals.vcpus:
        raise UsageError(f"{where}: curves and vcpus need one entry at least: add it")
    hourly = arrivals.per_hour if isinstance(arrivals.per_hour, tuple) else (arrivals.per_hour,) * 24
    if len(hourly) != 24:
        raise UsageError(f"{where}: per_hour has {len(hourly)} numbers: give one, or 24")
    if (arrivals.busy_median_s is None) != (arrivals.idle_median_s is None):
        raise UsageError(f"{where}: busy_median_s and idle_median_s go together: give both or neither")
    try:
        curves = [curve_of(one.curve) for one in arrivals.curves]
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    weights = [one.weight for one in arrivals.curves]
    starts = [0.0] * arrivals.at_start + list(_starts(arrivals, scenario.seconds, hourly, rng))
    for number, start_s in enumerate(starts):
        curve = rng.choices(curves, weights)[0]
        work_s = None
        if arrivals.work_median_s is not None:
            work_s = _lognormal(rng, arrivals.work_median_s, arrivals.work_sigma)
        vcpus = rng.choice(arrivals.vcpus)
        yield GuestPlan(
            name=f"{arrivals.name}-{number}",
            curve=curve,
            vcpus=vcpus,
            start_s=start_s,
            end_s=None,
            work_s=work_s,
            minimum=arrivals.minimum,
            maximum=None,
            weight=arrivals.weight,
            priority=arrivals.priority,
            behaviour="honest",
            claims=1.0,
            crash_s=None,
            rigid=False,
            granularity=arrivals.granularity,
            loss=LOSS[arrivals.granularity],
            spins=arrivals.granularity == "fine",
            yields=False,
            unmanaged_curve=curve,
            vcpus_at_start=vcpus,
            home_node=None,
            phases=tuple(_turns(arrivals, curve, rng)),
        )


def _starts(arrivals: Arrivals, seconds: float, hourly: tuple[float, ...], rng: random.Random) -> Iterator[float]:
    """A Poisson process whose rate changes by the hour, by thinning (Lewis and Shedler 1979)."""
    most = max(hourly)
    now_s, until_s = arrivals.from_s, min(seconds, math.inf if arrivals.until_s is None else arrivals.until_s)
    while most > 0.0:
        now_s += rng.expovariate(most / HOUR_S)
        if now_s >= until_s:
            return
        if rng.random() * most < hourly[int(now_s // HOUR_S) % 24]:
            yield now_s


def _turns(arrivals: Arrivals, curve: Curve, rng: random.Random) -> Iterator[PhasePlan]:
    if arrivals.busy_median_s is None or arrivals.idle_median_s is None:
        yield PhasePlan(None, None, curve)
        return
    busy_first = rng.random() < 0.5
    for turn in range(TURNS):
        busy = (turn % 2 == 0) == busy_first
        median_s = arrivals.busy_median_s if busy else arrivals.idle_median_s
        yield PhasePlan(_lognormal(rng, median_s, arrivals.work_sigma), None, curve if busy else None)


def _lognormal(rng: random.Random, median: float, sigma: float) -> float:
    return median * math.exp(rng.gauss(0.0, sigma))
