"""The structure of scenario files (TOML): a host, its guests, and what they do."""

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
Loss = Annotated[float, Meta(ge=1, le=100)]
CurveName = str | Amdahl | Log | Usl | Downey | Perfect
"""A shipped curve's name, a file (relative to the scenario), or a formula: {model = "amdahl", serial = 0.05}."""

Behaviour = Literal["honest", "silent", "lies", "crashes"]
Granularity = Literal["fine", "coarse"]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file. Unknown keys are refused."""


class Host(_Table, frozen=True, kw_only=True):
    """The machine. `pcpus` are the pool; `reserve` is the number of pCPUs outside it, where resting domains run.

    smt_yield: throughput of a core with all threads busy, relative to one busy thread, divided by its threads; 1.0: no
    loss. remote_penalty: share of its speed that a partition on several nodes loses.
    """

    pcpus: Annotated[int, Meta(ge=1, le=65_536)] = 36
    reserve: Annotated[int, Meta(ge=0, le=4096)] = 0
    threads_per_core: Annotated[int, Meta(ge=1, le=8)] = 1
    nodes: Annotated[int, Meta(ge=1, le=64)] = 1
    smt_yield: Annotated[float, Meta(gt=0, le=1)] = 1.0
    remote_penalty: Annotated[float, Meta(ge=0, lt=1)] = 0.0


class Noise(_Table, frozen=True, kw_only=True):
    """speedup: relative standard deviation of one measurement. per_s: measurements per second of computing."""

    speedup: Annotated[float, Meta(ge=0, le=2)] = 0.0
    per_s: Annotated[float, Meta(gt=0, le=1000)] = 4.0


class LatencySeconds(_Table, frozen=True, kw_only=True):
    """Durations of a libvirt call, of plugging and unplugging, of a new team size, of switching CPUs in the guest."""

    call_s: Seconds = 0.001
    plug_s: Seconds = 0.06
    unplug_s: Seconds = 0.5
    resize_s: Seconds = 0.02
    online_s: Seconds = 0.1


class Phase(_Table, frozen=True, kw_only=True):
    """A phase of a guest's life. It lasts for `seconds` or for `work_s`, with another curve, serial, or idle."""

    seconds: Span | None = None
    work_s: Span | None = None
    curve: CurveName | None = None
    serial: bool = False
    idle: bool = False


class Guest(_Table, frozen=True, kw_only=True):
    """A table [[guest]]. `vcpus` absent: as many as the pool has pCPUs. `count` above 1: guests NAME-0, NAME-1, ...

    work_s: its work in seconds on one CPU; it ends when that is done. minimum, maximum, weight, priority: its rules.
    claims: the efficiency that a lying guest reports. rigid: its team never changes. granularity: how much its threads
    wait for each other (barriers every millisecond, or almost none). loss: if each thread has half a CPU, how many
    times slower the guest is than its CPU time would give; absent: by its granularity. spins: whether a waiting thread
    keeps its CPU busy; absent: if it is fine-grained. yields: until vscaf gives it CPUs of its own, a waiting
    thread leaves its CPU to others, although it spins. unmanaged_curve: replaces `curve` until then, for a program that
    is slower without vscaf even if it is alone; absent: `curve`. phases: what it does, repeated; absent: it computes.
    vcpus_at_start: vCPUs that are plugged when it starts; absent: all. home_node: node of its memory; absent: where it
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
    loss: Loss | None = None
    spins: bool | None = None
    yields: bool = False
    unmanaged_curve: CurveName | None = None
    vcpus_at_start: Cpus | None = None
    home_node: Annotated[int, Meta(ge=0)] | None = None
    phases: tuple[Phase, ...] = ()


class WeightedCurve(_Table, frozen=True, kw_only=True):
    """One of the curves of [[arrivals]]. weight: how often it is drawn, relative to the others."""

    curve: CurveName
    weight: Span = 1.0


class Arrivals(_Table, frozen=True, kw_only=True):
    """A table [[arrivals]]: guests NAME-0, NAME-1, ... drawn by the scenario's seed.

    at_start: guests from the beginning. per_hour: guests that come in each hour of the day (one number, or 24), from
    `from_s` until `until_s`. Work is lognormal: `work_median_s` seconds on one CPU, `work_sigma` the standard deviation
    of its logarithm; absent: they stay. busy_median_s and idle_median_s: lognormal times for which they compute and
    idle in turn, with the same sigma; absent: they compute all the time. vcpus: one of these is drawn.
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
    """A resolved phase of a guest's life. It ends after `seconds` or `work_s`; neither: never. curve None: idle."""

    seconds: float | None
    work_s: float | None
    curve: Curve | None
    serial: bool = False


@dataclass(frozen=True, slots=True)
class GuestPlan:
    """One resolved guest of a scenario. phases: at least one, repeated."""

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
    yields: bool
    unmanaged_curve: Curve
    vcpus_at_start: int
    home_node: int | None
    phases: tuple[PhasePlan, ...]


class Pairs(_Table, frozen=True, kw_only=True):
    """The table [pairs]: the file stands for one scenario for each pair of curves, with one guest of each.

    apart_s: how much later the second guest starts. alone_s: sets the work of each guest, which takes this time alone
    on the host's best number of pCPUs; absent: they stay. loss, yields: of each guest, as in [[guest]].
    """

    curves: Annotated[tuple[CurveName, ...], Meta(min_length=2)]
    apart_s: Seconds = 0.0
    alone_s: Span | None = None
    loss: Loss | None = None
    yields: bool = False


class Scenario(_Table, frozen=True, kw_only=True):
    """A complete scenario. Its curves are names, paths or formulas, whether it comes from a file or not.

    pairs: it stands for many scenarios, see expansion.scenarios_of(). seconds: how long it lasts. settle_s: speedups
    are averaged from this time on. period_ms, newcomer_ms and deadline_ms: as in the daemon's configuration; with a
    period above 1000, the daemon learns of changes of demand and ends of guests only once per period.
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
"""Default of `loss`. It was measured with two guests of two vCPUs on two pCPUs, unpinned against partitioned:
coarse-grained work loses nothing (1.0 to 1.1), fine-grained work loses a factor of 2.4 to 15, the most if waiting
threads only spin. The least of these is the default. With it, two programs of 36 threads on 36 cores come near the
speedups of unmodified programs in Creech 2015, Table 4.3: CG 6.0 (there 6.4), LU 4.7 (there 4.1). Scenarios of other
machines give their own."""


def curve_of(named: CurveName) -> Curve:
    """The curve for a curve entry of a scenario."""
    return load_curve(named) if isinstance(named, str) else formula_curve(named)
