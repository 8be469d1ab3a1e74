"""States of a daemon for tests of `vscaf top`: a host with two NUMA nodes and cores of two threads."""

from collections.abc import Sequence
from typing import Any

import msgspec
from vscaf.control.messages import DomainStatus, ProcessStatus, SpeedupStatus, Status
from vscaf.top.domains import State
from vscaf.values import HostCpus

HOST = HostCpus(
    online=frozenset(range(16)),
    cores=tuple(frozenset({first, first + 1}) for first in range(0, 16, 2)),
    node_of={cpu: cpu // 8 for cpu in range(16)},
)


def program(name: str, team: int, points: Sequence[tuple[int, float]] = (), **others: Any) -> ProcessStatus:
    """A program that runs. *others*: its decomposition; without them it is not known."""
    parts = dict.fromkeys(("useful", "inflation", "fork", "dispatch", "barrier", "steal", "idle_rate"), 0.0)
    return ProcessStatus(
        pid=len(name), name=name, team=team, running=True, malleable="full", override=False, long_section=False,
        contained=False, own=None, points=[SpeedupStatus(p=p, speedup=s, standard_error=0.05) for p, s in points],
        learning=None, decomposition=parts | others if others else None,
    )  # fmt: skip


def domain(name: str, partition: str = "", state: str = "cooperating", **others: Any) -> DomainStatus:
    """A managed domain."""
    given: dict[str, Any] = {
        "allocation": sum(1 if "-" not in part else int(part.split("-")[1]) - int(part.split("-")[0]) + 1
                          for part in partition.split(",") if part),
        "demand": 8, "busy_cpus": 1.5, "vcpus": 8, "vcpus_maximum": 8, "agent": "connected", "report_age_s": 0.2,
    }  # fmt: skip
    return DomainStatus(name=name, state=state, partition=partition, **given | others)


DOMAINS = (
    domain("cfd", "2-7", busy_cpus=5.81, speedup=4.2, steal_s=12.34, processes=[
        program("cg.C.x", 4, [(1, 1.0), (2, 1.9), (4, 3.4), (6, 4.1)],
                useful=0.8, steal=0.02, idle_rate=0.1, inflation=0.06),
        program("mg.C.x", 2, [(1, 1.0), (2, 1.8)], useful=0.7, steal=0.08, idle_rate=0.25, inflation=0.12),
    ]),
    domain("chemistry", "8-11", "growing", demand=6, processes=[program("lu.C.x", 4)]),
    domain("idle", "", "resting", demand=0, busy_cpus=0.01, agent="no channel", report_age_s=None),
    DomainStatus(name="off", state="not running"),
    domain("weather", "12-13", "contained", agent="stale", report_age_s=3.5, busy_cpus=2.0, demand=2, processes=[
        program("wrf.exe", 2, [(1, 1.0), (2, 1.1)], useful=0.5, steal=0.3, idle_rate=0.4, inflation=0.0),
    ]),
)  # fmt: skip


def status(domains: Sequence[DomainStatus] = DOMAINS, **others: Any) -> dict[str, Any]:
    """What GET /v1/status says."""
    given: dict[str, Any] = {
        "configured_at": "2026-01-01T00:00:00.000Z", "policy": "max-speedup-fitted", "policy_options": {},
        "policy_previous": None, "weights_count": True, "pool": "2-15", "reserve": "0-1", "managing": True,
        "unknown": False, "transitions": 12, "transition_s": 0.1, "exploring": [], "exploration_cost": 0.0,
        "exploration_lost_s": 0.0, "violations": [], "optimum_speedup": None, "lost_speedup": None,
    }  # fmt: skip
    builtins: dict[str, Any] = msgspec.to_builtins(Status(**given | others, domains=list(domains)))
    return builtins


def state(domains: Sequence[DomainStatus] = DOMAINS, **others: Any) -> State:
    """The same as the view decodes it."""
    return msgspec.json.decode(msgspec.json.encode(status(domains, **others)), type=State)
