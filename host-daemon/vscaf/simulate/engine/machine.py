"""The speed of a program on a machine: cores with several threads, NUMA nodes, and too few CPUs for its threads."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from vscaf.simulate.scenarios.curves import Curve
from vscaf.simulate.scenarios.scenario import Host
from vscaf.values import HostCpus

REMOTE_DISTANCE = 21
"""Between NUMA nodes, where 10 is local: the usual value of firmware on two-socket machines."""

MOST_PLACES = 8192
"""Sets of pCPUs whose nodes and cores are remembered."""


def host_cpus(host: Host) -> HostCpus:
    """The pCPUs of *host*: the pool's from 0 on, then the reserve's; each node has a last-level cache and a socket.

    CPUs of a core have consecutive numbers. Nodes have equally many cores; the first nodes get the remainder.
    """
    threads = host.threads_per_core
    cores = [frozenset(range(first, first + threads)) for first in range(0, host.pcpus, threads)]
    node_of: dict[int, int] = {}
    for number, core in enumerate(cores):
        node_of.update(dict.fromkeys(core, number * host.nodes // len(cores)))
    for cpu in range(host.pcpus, host.pcpus + host.reserve):
        cores.append(frozenset({cpu}))
        node_of[cpu] = host.nodes - 1
    online = frozenset(node_of)
    caches = tuple(frozenset(cpu for cpu in online if node_of[cpu] == node) for node in range(host.nodes))
    distances = {
        (one, other): 10 if one == other else REMOTE_DISTANCE
        for one in range(host.nodes)
        for other in range(host.nodes)
    }
    return HostCpus(online, tuple(cores), node_of, dict(node_of), caches, distances)


@dataclass(frozen=True, slots=True)
class Computing:
    """A program that computes: a team of `threads` on `curve`, and what it loses when it has too few CPUs.

    loss: see scenario.LOSS. fine: its threads wait for the slowest of them. busy: the share of a CPU that each thread
    uses if it has one for itself.
    """

    curve: Curve
    threads: int
    loss: float
    fine: bool
    busy: float = 1.0


class SpeedModel:
    """The true speed of a program, from the time that its vCPUs get on *host*'s pCPUs *cpus*. Speed 1: one CPU alone.

    The team has as many effective CPUs as threads, less what threads lose by sharing cores (`smt_yield`). On a curve S
    its speed is S(effective CPUs) if each thread has a CPU. If the threads want x CPUs for each CPU that they get, the
    speed is divided by x. The team also waits for threads that do not run, so the speed is divided by x^k, where k =
    log2(loss). For x = 2 that is `loss`, which was measured (see scenario.LOSS); for other x it is an extrapolation. A
    partition on several nodes, or away from its memory, loses `remote_penalty` of the speed. depends_on_load: load_cpus
    matters.
    """

    def __init__(self, host: Host, cpus: HostCpus) -> None:
        self.depends_on_load = host.threads_per_core > 1 and host.smt_yield < 1.0
        self._threads = host.threads_per_core
        self._yield = host.smt_yield
        self._remote_penalty = host.remote_penalty if host.nodes > 1 else 0.0
        self._node_of = cpus.node_of
        self._places: dict[frozenset[int], tuple[frozenset[int], int]] = {}
        self._core_of = {cpu: number for number, core in enumerate(cpus.cores) for cpu in core}

    def speed(  # noqa: PLR0917 (what speed depends on)
        self,
        computing: Computing,
        wanted: Mapping[int, float],
        granted: Mapping[int, float],
        pins: Mapping[int, frozenset[int]],
        load_cpus: float,
        home: int | None = None,
    ) -> float:
        """The speed. wanted, granted, pins: for each vCPU, the wanted and the granted share of a CPU, and its pCPUs.

        load_cpus: CPUs in use, by this guest and others, on all pCPUs that it may run on. home: node of its memory,
        None: where it runs.
        """
        if not wanted:
            return 0.0
        if computing.fine:
            share = min([granted.get(vcpu, 0.0) / one for vcpu, one in wanted.items()])
        else:
            share = sum([granted.get(vcpu, 0.0) for vcpu in wanted]) / sum(wanted.values())
        if share <= 0.0:
            return 0.0
        speed = computing.curve.speedup(computing.threads * self._throughput(wanted, pins, load_cpus))
        crowding = computing.threads * computing.busy / (sum(wanted.values()) * share)
        if crowding > 1.0 + 1e-9:
            waits = math.log2(computing.loss) if computing.threads > 1 else 0.0
            speed /= crowding ** (1.0 + waits)
        if self._remote_penalty:
            nodes = frozenset[int]().union(*[self._where(place)[0] for place in {pins[vcpu] for vcpu in wanted}])
            if nodes != {home} if home is not None else len(nodes) > 1:
                speed *= 1.0 - self._remote_penalty
        return speed

    def _throughput(self, wanted: Mapping[int, float], pins: Mapping[int, frozenset[int]], load_cpus: float) -> float:
        """Throughput of one busy thread, relative to a thread that has its core alone."""
        if not self.depends_on_load:
            return 1.0
        places = [pins[vcpu] for vcpu in wanted]
        if all(len(place) == 1 for place in places):
            used = dict.fromkeys(cpu for place in places for cpu in place)
            busy = Counter(self._core_of[cpu] for cpu in used)
            return sum([self._core(float(count)) for count in busy.values()]) / len(used)
        distinct = set(places)
        cores = sum([self._where(place)[1] for place in distinct])
        each = min(float(self._threads), max(1.0, load_cpus / cores))
        return self._core(each) / each

    def _core(self, busy: float) -> float:
        """Throughput of a core with *busy* busy threads, linear from one to all of them."""
        whole = self._threads * self._yield
        return 1.0 + (busy - 1.0) * (whole - 1.0) / (self._threads - 1)

    def _where(self, place: frozenset[int]) -> tuple[frozenset[int], int]:
        """The nodes of these pCPUs, and the number of their cores."""
        known = self._places.get(place)
        if known is None:
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            nodes = frozenset(self._node_of[cpu] for cpu in place)
            known = self._places[place] = (nodes, len({self._core_of[cpu] for cpu in place}))
        return known
