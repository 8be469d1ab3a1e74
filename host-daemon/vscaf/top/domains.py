"""The parts of the daemon's status that the view shows, and figures of the programs in a domain.

With 1,000 domains most of a status is about programs. So these stay JSON until a row is shown or sorted by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from vscaf.control.messages import ProcessStatus, SpeedupStatus, inflation_is_known
from vscaf.cpulist import parse_cpu_list


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """As control.messages.DomainStatus. None: unknown, or the domain has none."""

    name: str
    state: str
    why: str = ""
    partition: str | None = None
    allocation: int | None = None
    demand: int | None = None
    busy_cpus: float | None = None
    steal_s: float | None = None
    speedup: float | None = None
    paused: bool | None = None
    suspended: bool | None = None
    vcpus: int | None = None
    vcpus_maximum: int | None = None
    agent: str | None = None
    report_age_s: float | None = None
    processes: msgspec.Raw = msgspec.Raw(b"[]")


class State(msgspec.Struct, frozen=True, kw_only=True):
    """As control.messages.Status."""

    policy: str
    pool: str
    reserve: str
    managing: bool | None
    unknown: bool
    transitions: int
    exploring: list[str]
    violations: list[str]
    domains: list[Domain]


@lru_cache(maxsize=8192)
def pcpus(partition: str | None) -> frozenset[int]:
    """The pCPUs of a partition. Most partitions are the same from one second to the next."""
    return parse_cpu_list(partition or "")


@dataclass(frozen=True, slots=True)
class Figures:
    """The programs that run in a domain, those with the largest team first, and their parts of thread time (0 to 1).

    The parts are means over the programs that report them, weighted by team size. None: no program reports it.
    *readable*: false if a daemon of another version describes programs in another way. Then nothing is known of them.
    """

    programs: tuple[ProcessStatus, ...]
    steal: float | None
    idle_rate: float | None
    inflation: float | None
    readable: bool = True


_DECODER = msgspec.json.Decoder(list[ProcessStatus])


def figures(domain: Domain) -> Figures:
    """Decodes the programs of *domain*."""
    try:
        running = [one for one in _DECODER.decode(domain.processes) if one.running]
    except msgspec.MsgspecError:
        return Figures((), None, None, None, readable=False)
    running.sort(key=lambda one: (-one.team, one.name, one.pid))
    return Figures(tuple(running), _mean(running, "steal"), _mean(running, "idle_rate"), _mean(running, "inflation"))


def _mean(programs: Sequence[ProcessStatus], part: str) -> float | None:
    known = [
        (max(1, one.team), one.decomposition[part])
        for one in programs
        if one.decomposition is not None
        and part in one.decomposition
        and (part != "inflation" or inflation_is_known(one.decomposition[part], (point.p for point in one.points)))
    ]
    threads = sum(team for team, _ in known)
    return sum(team * value for team, value in known) / threads if threads else None


def measured(program: ProcessStatus) -> list[SpeedupStatus]:
    """The known points of its speedup curve above one CPU, in order of size."""
    return sorted((point for point in program.points if point.p > 1), key=lambda point: point.p)


def speedup(program: ProcessStatus) -> SpeedupStatus | None:
    """The point at its team size, else at the next smaller known size, else at the smallest. None: nothing is known."""
    points = measured(program)
    below = [point for point in points if point.p <= program.team]
    return below[-1] if below else points[0] if points else None
