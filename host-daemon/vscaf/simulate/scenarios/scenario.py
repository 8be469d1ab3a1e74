"""Scenario files (TOML): a host, its guests, and what they do. What is wrong with a bad one is said by file and key."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vscaf.simulate.scenarios.curves import (
    Amdahl,
    Curve,
    Downey,
    Log,
    Perfect,
    Usl,
    formula_curve,
    load_curve,
)

Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Span = Annotated[float, Meta(gt=0, le=1e9)]
PerHour = Annotated[float, Meta(ge=0, le=1e6)]
Cpus = Annotated[int, Meta(ge=1, le=4096)]
Share = Annotated[float, Meta(ge=0, le=1)]
CurveName = str | Amdahl | Log | Usl | Downey | Perfect
"""A shipped curve's name, a file (beside the scenario), or a formula: {model = "amdahl", serial = 0.05}."""

Behaviour = Literal["honest", "silent", "lies", "crashes"]
Granularity = Literal["fine", "coarse"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file: an unknown key is refused."""


class Host(_Table, frozen=True, kw_only=True):
    """The machine. All its pCPUs are the pool; `reserve` are as many more beside it, where domains at rest run.

    smt_yield: throughput of a core whose threads are all busy, against one busy, divided by its threads: 1.0, no loss.
    remote_penalty: share of its speed that a partition loses that lies on several nodes.
    """

    pcpus: Annotated[int, Meta(ge=1, le=65_536)] = 36
    reserve: Annotated[int, Meta(ge=0, le=4096)] = 0
    threads_per_core: Annotated[int, Meta(ge=1, le=8)] = 1
    nodes: Annotated[int, Meta(ge=1, le=64)] = 1
    smt_yield: Annotated[float, Meta(gt=0, le=1)] = 1.0
    remote_penalty: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class Noise(_Table, frozen=True, kw_only=True):
    """speedup: relative standard deviation of one measurement. per_s: measurements a second, while it computes."""

    speedup: Annotated[float, Meta(ge=0, le=2)] = 0.0
    per_s: Annotated[float, Meta(gt=0, le=1000)] = 4.0


class LatencySeconds(_Table, frozen=True, kw_only=True):
    """What things take: a libvirt call, plugs and unplugs, a new team size, CPUs that go online or offline."""

    call_s: Seconds = 0.001
    plug_s: Seconds = 0.06
    unplug_s: Seconds = 0.5
    resize_s: Seconds = 0.02
    online_s: Seconds = 0.1


class Phase(_Table, frozen=True, kw_only=True):
    """A stretch of a guest's life: so long, or until so much work is done, at another curve, serially, or idle."""

    seconds: Span | None = None
    work_s: Span | None = None
    curve: CurveName | None = None
    serial: bool = False
    idle: bool = False


class Guest(_Table, frozen=True, kw_only=True):
    """A table [[guest]]. `vcpus` absent: as many as the pool has pCPUs. `count` above 1: guests NAME-0, NAME-1, ...

    work_s: what it has to do, in seconds on one CPU; then it ends. minimum, maximum, weight, priority: its rules.
    claims: the efficiency that one who lies claims. rigid: its team never changes. granularity: how much its threads
    wait for each other (barriers every millisecond, or hardly ever). loss: how many times slower it is than its CPU
    time says where each of its threads has half a CPU; absent: by its granularity. spins: whether a thread that waits
    uses its CPU; absent: where it is fine-grained. phases: what it does, over and over; absent: it computes at `curve`.
    vcpus_at_start: so many are plugged when it starts; absent: all. home_node: where its memory is; absent: where it
    runs.
    """

    name: str
    curve: CurveName
    count: Annotated[int, Meta(ge=1, le=100_000)] = 1
    vcpus: Cpus | None = None
    start_s: Seconds = 0.0
    end_s: Seconds | None = None
    work_s: Span | None = None
    minimum: Cpus = 1
    maximum: Cpus | None = None
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    behaviour: Behaviour = "honest"
    claims: Annotated[float, Meta(gt=0, le=2)] = 1.0
    crash_s: Seconds | None = None
    rigid: bool = False
    granularity: Granularity = "fine"
    loss: Annotated[float, Meta(ge=1, le=100)] | None = None
    spins: bool | None = None
    vcpus_at_start: Cpus | None = None
    home_node: Annotated[int, Meta(ge=0)] | None = None
    phases: tuple[Phase, ...] = ()


class WeightedCurve(_Table, frozen=True, kw_only=True):
    """One of the curves of [[arrivals]]: how often against the others."""

    curve: CurveName
    weight: Span = 1.0


class Arrivals(_Table, frozen=True, kw_only=True):
    """A table [[arrivals]]: guests NAME-0, NAME-1, ... drawn by the scenario's seed.

    at_start: so many are there from the beginning; per_hour: so many come in each hour of the day (one number, or 24),
    from `from_s` until `until_s`. Work is lognormal: `work_median_s` seconds on one CPU, `work_sigma` the standard
    deviation of its logarithm; absent: they stay. busy_median_s and idle_median_s: they compute and idle in turn for
    so long, with the same sigma; absent: they compute all the time. vcpus: one of these.
    """

    name: str
    curves: tuple[WeightedCurve, ...]
    vcpus: tuple[Cpus, ...]
    at_start: Annotated[int, Meta(ge=0, le=100_000)] = 0
    per_hour: PerHour | tuple[PerHour, ...] = 0.0
    from_s: Seconds = 0.0
    until_s: Seconds | None = None
    work_median_s: Span | None = None
    work_sigma: Annotated[float, Meta(ge=0, le=5)] = 1.0
    busy_median_s: Span | None = None
    idle_median_s: Span | None = None
    minimum: Cpus = 1
    weight: Span = 1.0
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    granularity: Granularity = "fine"


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """A stretch of a guest's life, resolved: ends after `seconds` or `work_s`, neither: never. curve None: idle."""

    seconds: float | None
    work_s: float | None
    curve: Curve | None
    serial: bool = False


@dataclass(frozen=True, slots=True)
class GuestPlan:
    """One guest of a scenario, all of it resolved. phases: at least one, repeated."""

    name: str
    curve: Curve
    vcpus: int
    start_s: float
    end_s: float | None
    work_s: float | None
    minimum: int
    maximum: int | None
    weight: float
    priority: int
    behaviour: Behaviour
    claims: float
    crash_s: float | None
    rigid: bool
    granularity: Granularity
    loss: float
    spins: bool
    vcpus_at_start: int
    home_node: int | None
    phases: tuple[PhasePlan, ...]


class Pairs(_Table, frozen=True, kw_only=True):
    """The table [pairs]: the file is a scenario for each pair of curves, a guest of each, side by side.

    apart_s: the second starts so much later. alone_s: each has as much to do as takes it so long alone on the host's
    best number of pCPUs; absent: they stay.
    """

    curves: Annotated[tuple[CurveName, ...], Meta(min_length=2)]
    apart_s: Seconds = 0.0
    alone_s: Span | None = None


class Scenario(_Table, frozen=True, kw_only=True):
    """The whole file; made directly, its curves are names, paths or formulas all the same.

    pairs: it stands for many scenarios, see expansion.scenarios_of().

    seconds: how long it lasts. settle_s: speedups are averaged from then on. period_ms, newcomer_ms and deadline_ms: as
    in the daemon's own configuration; with a period above 1000, changes of demand and ends of guests wait for it.
    """

    name: str
    title: str = ""
    source: str = ""
    seconds: Span
    seed: Annotated[int, Meta(ge=0)] = 1
    period_ms: Annotated[int, Meta(ge=10, le=60_000)] = 250
    newcomer_ms: Annotated[int, Meta(ge=10, le=60_000)] = 2000
    deadline_ms: Annotated[int, Meta(ge=10, le=60_000)] = 400
    settle_s: Seconds = 0.0
    host: Host = Host()
    noise: Noise = Noise()
    latencies: LatencySeconds = LatencySeconds()
    policy_options: dict[str, dict[str, Any]] = {}
    guests: tuple[Guest, ...] = msgspec.field(name="guest", default=())
    arrivals: tuple[Arrivals, ...] = ()
    pairs: Pairs | None = None


LOSS: dict[str, float] = {"fine": 2.4, "coarse": 1.0}
"""`loss` of a guest that does not say it. Two guests of two vCPUs on two pCPUs were measured, unpinned against
partitioned: coarse-grained work loses nothing (1.0 to 1.1), fine-grained work 2.4 to 15 times, the most where waiting
threads only spin. The least is taken: with it two programs of 36 threads on 36 cores come near what Creech 2015, Table
4.3 has for unmodified ones: CG to 6.0 (6.4 there), LU to 4.7 (4.1)."""


def curve_of(named: CurveName) -> Curve:
    """The curve that a scenario names."""
    return load_curve(named) if isinstance(named, str) else formula_curve(named)
