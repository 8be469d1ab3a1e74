"""The simulated host for many domains: what one change costs does not grow with the domains that it leaves alone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from vscaf.simulate.engine.plain_host import LEAST, ROUNDS, Latencies, SimulatedHost, _areas, _Crowd, _crowds, _share
from vscaf.simulate.engine.virtual_time import RESOLUTION_S
from vscaf.values import DomainKey, DomainSeen, HostCpus, Plugged, RunState

MOST_GOOD = 8192
"""Sets of pins that are remembered."""


class CrowdedHost(SimulatedHost):
    """SimulatedHost in virtual time, whose CPU time is shared out anew only among those that a change concerns.

    After a change, and before any time passes, `on_rates` is called for each domain that the change concerns: its pins,
    its vCPUs, its state or what it gets may be others. `on_change` and `on_tuned` may be set later.

    Domains that may run on a common pCPU, and want to, are one crowd (transitively); each crowd is shared out by
    SimulatedHost's own rules, when somebody in it wants other CPUs, or more or less of them, than before. CPU time is
    booked for a domain when it changes, and for all when somebody looks.
    """

    def __init__(self, cpus: HostCpus, on_rates: Callable[[DomainKey], None], latencies: Latencies) -> None:
        loop = asyncio.get_running_loop()
        self.on_change: Callable[[], None] = lambda: None
        self.on_tuned: Callable[[DomainKey], None] = lambda key: None
        self._loop = loop
        self._on_rates = on_rates
        self._now: dict[DomainKey, dict[int, float]] = {}
        self._booked_s: dict[DomainKey, float] = {}
        self._parts: dict[DomainKey, list[_Crowd]] = {}
        self._places: dict[DomainKey, tuple[frozenset[int], ...]] = {}
        self._users: dict[frozenset[int], set[DomainKey]] = {}
        self._on_cpu: dict[int, set[frozenset[int]]] = {}
        self._dirty: dict[DomainKey, None] = {}
        self._whose = True  # each change so far is known to be of one domain
        self._everybody = False
        self._due = False
        self._looking = 0
        self._good: set[frozenset[int]] = set()
        self._leaving: set[DomainKey] = set()
        self._loads: dict[tuple[frozenset[int], ...], float] = {}
        super().__init__(
            cpus,
            self._changed,
            self._tuned,
            clock=loop.time,
            sleep=asyncio.sleep,
            latencies=latencies,
        )

    # Changes, and whose they are.

    def start(self, name: str, *args: Any, **options: Any) -> DomainKey:
        """As SimulatedHost.start."""
        key = super().start(name, *args, **options)
        self._booked_s[key] = self._loop.time()
        self._mark(key)
        return key

    def end(self, key: DomainKey) -> None:
        """As SimulatedHost.end."""
        super().end(key)
        self._mark(key)

    def set_online(self, online: frozenset[int]) -> None:
        """As SimulatedHost.set_online."""
        super().set_online(online)
        self._good.clear()

    def set_state(self, key: DomainKey, state: RunState) -> None:
        """As SimulatedHost.set_state."""
        super().set_state(key, state)
        self._mark(key)

    def compute(self, key: DomainKey, wanted: Mapping[int, float]) -> None:
        """As SimulatedHost.compute."""
        super().compute(key, wanted)
        self._mark(key)

    async def unplug(self, key: DomainKey, vcpus: int) -> Plugged:
        """As SimulatedHost.unplug; what leaves late leaves at its time, whether or not anybody looks."""
        plugged = await super().unplug(key, vcpus)
        domain = self.domains[key]
        if domain.leaving is not None:
            self._leaving.add(key)
            self._loop.call_at(domain.leaving[0], self._count)
        self._mark(key)
        return plugged

    async def observe(self) -> tuple[DomainSeen, ...]:
        """As SimulatedHost.observe."""
        self._looking += 1
        try:
            return await super().observe()
        finally:
            self._looking -= 1

    def _changed(self) -> None:
        self.on_change()

    def _tuned(self, key: DomainKey) -> None:
        self._mark(key)
        self.on_tuned(key)

    def _mark(self, key: DomainKey) -> None:
        self._dirty[key] = None
        self._whose = True
        self._settle_soon()

    def _changes(self) -> None:
        """Something of some domain is about to change; whose it is is said by _mark right after, or never."""
        self._everybody |= not self._whose
        self._whose = False
        self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self.settle)

    def _check_pins(self, name: str, pins: Mapping[int, frozenset[int]], known: Mapping[int, frozenset[int]]) -> None:
        """Sets of pins that were found to be good are not looked through again."""
        new = {number: cpus for number, cpus in pins.items() if cpus not in self._good or number not in known}
        super()._check_pins(name, new, known)
        if len(self._good) > MOST_GOOD:
            self._good.clear()
        self._good.update(new.values())

    def _count(self) -> None:
        now_s = self._loop.time()
        for key in sorted(self._leaving):
            domain = self.domains.get(key)
            if domain is None or domain.leaving is None:
                self._leaving.discard(key)
            elif domain.leaving[0] <= now_s + RESOLUTION_S:
                domain.vcpus, domain.leaving = min(domain.vcpus, domain.leaving[1]), None
                self._leaving.discard(key)
                self._mark(key)
        if self._looking:
            for key in self.domains:
                self._book_one(key, now_s)

    def _book(self, until_s: float) -> None:
        """Not for all at once."""

    # What comes of them.

    def rates(self) -> Mapping[DomainKey, Mapping[int, float]]:
        """CPUs that each vCPU uses now."""
        self.settle()
        return {key: self._now.get(key, {}) for key in self.domains}

    def rates_of(self, key: DomainKey) -> Mapping[int, float]:
        """The same of one domain, as far as changes have settled."""
        return self._now.get(key, {})

    def load_cpus(self, key: DomainKey) -> float:
        """CPUs in use by all domains that may run just where this one may."""
        places = self._places.get(key, ())
        load = self._loads.get(places)
        if load is None:
            users = {user for place in places for user in self._users[place]}
            load = sum([sum(self._now[user].values()) for user in sorted(users) if user in self._now])
            self._loads[places] = load
        return load

    def neighbours(self, key: DomainKey) -> frozenset[DomainKey]:
        """Other domains that want CPU time on a pCPU on which this one does."""
        return frozenset(self._beside(self._places.get(key, ())) - {key})

    def settle(self) -> None:
        """Shares CPU time out anew among those that have changed and those beside them."""
        self._due = False
        everything = not self._whose or self._everybody
        if everything:
            self._dirty.update(dict.fromkeys(self.domains))
            self._dirty.update(dict.fromkeys(self._places))
            self._whose, self._everybody = True, False
        if not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        left: list[frozenset[int]] = []
        moved: set[DomainKey] = set()
        for key in dirty:
            before = self._places.get(key, ())
            if self._move(key) or everything:
                left += before
                moved.add(key)
        moved |= self._beside(left)
        self._loads.clear()
        done: set[DomainKey] = set()
        now_s = self._loop.time()
        for key in sorted(moved | dirty.keys()):
            if key not in done:
                crowd = self._crowd(key)
                done |= crowd
                for one in crowd:
                    self._book_one(one, now_s)
                if not moved.isdisjoint(crowd):
                    self._share_out(sorted(crowd))
        for key in sorted(done):
            if key in self.domains:
                self._on_rates(key)

    def _move(self, key: DomainKey) -> bool:
        """Notes where the domain wants CPU time now, and how much; whether that is other than it was."""
        domain = self.domains.get(key)
        parts = _crowds(domain) if domain is not None and domain.state is RunState.RUNNING else []
        known = self._parts.pop(key, [])
        if parts:
            self._parts[key] = parts
        if key in self.domains and _said(parts) == _said(known):
            return False
        before = self._places.pop(key, ())
        after = tuple(part.pins for part in parts)
        for place in before:
            users = self._users[place]
            users.discard(key)
            if not users:
                del self._users[place]
                for cpu in place:
                    self._on_cpu[cpu].discard(place)
        if after:
            self._places[key] = after
        for place in after:
            if place not in self._users:
                self._users[place] = set()
                for cpu in place:
                    self._on_cpu.setdefault(cpu, set()).add(place)
            self._users[place].add(key)
        return True

    def _beside(self, places: Iterable[frozenset[int]]) -> set[DomainKey]:
        """Who wants CPU time on a pCPU of these."""
        near = {other for place in places for cpu in place for other in self._on_cpu.get(cpu, ())}
        return set().union(*[self._users[place] for place in near])

    def _crowd(self, key: DomainKey) -> set[DomainKey]:
        crowd, places, cpus = {key}, set(self._places.get(key, ())), set[int]()
        left = list(places)
        while left:
            place = left.pop()
            new = self._users[place] - crowd
            crowd |= new
            found = set(chain.from_iterable(self._places[user] for user in new))
            found.update(*[self._on_cpu[cpu] for cpu in place - cpus])
            found -= places
            cpus |= place
            places |= found
            left += found
        return crowd

    def _share_out(self, crowd: list[DomainKey]) -> None:
        """By SimulatedHost's rules; vCPUs of the same pins and weight are taken together, as they get the same."""
        parts: dict[tuple[frozenset[int], float], _Crowd] = {}
        shares: list[tuple[_Crowd, _Crowd]] = []
        for key in crowd:
            self._now.pop(key, None)
            if key not in self.domains:
                self._booked_s.pop(key, None)
            for part in self._parts.get(key, ()):
                whole = parts.setdefault((part.pins, part.weight), _Crowd(key, part.weight, part.pins, {}))
                # Only the sum of what a crowd wants counts, whichever vCPUs want it.
                whole.wanted[0] = whole.wanted.get(0, 0.0) + sum(part.wanted.values())
                shares.append((part, whole))
        wholes = list(parts.values())
        _balance(wholes, _areas(wholes, self.cpus.online))
        got = {id(whole): sum(whole.got) / whole.wanted[0] for whole in wholes}
        for part, whole in shares:
            each = got[id(whole)]
            self._now.setdefault(part.key, {}).update({vcpu: each * one for vcpu, one in part.wanted.items()})

    def _book_one(self, key: DomainKey, now_s: float) -> None:
        passed_s = now_s - self._booked_s.get(key, now_s)
        self._booked_s[key] = now_s
        rates = self._now.get(key)
        if rates and passed_s > 0.0 and key in self.domains:
            times = self.domains[key].vcpu_time_s
            for vcpu, rate in rates.items():
                times[vcpu] = times.get(vcpu, 0.0) + rate * passed_s


def _said(parts: list[_Crowd]) -> list[tuple[frozenset[int], float, dict[int, float]]]:
    return [(part.pins, part.weight, part.wanted) for part in parts]


def _balance(crowds: list[_Crowd], sizes: list[int]) -> None:
    """As simulated._balance, for thousands of parts: the same sums in the same order, and so the same figures."""
    whose = [number for number, crowd in enumerate(crowds) for _ in crowd.parts]
    where = [area for crowd in crowds for area in crowd.parts]
    parts = [part for crowd in crowds for part in crowd.parts.values()]
    if len(set(whose)) < len(whose):
        parts = _moved(whose, where, parts, sizes)
    wishes: list[list[tuple[_Crowd, float]]] = [[] for _ in sizes]
    for number, area, part in zip(whose, where, parts, strict=True):
        if part > 0.0:
            wishes[area].append((crowds[number], part))
    for area, size in enumerate(sizes):
        _share(wishes[area], float(size))


def _moved(whose: list[int], where: list[int], parts: list[float], sizes: list[int]) -> list[float]:
    """The parts after crowds that have several have moved to where less is wanted; 0: that part is given up."""
    owner, area, wanted = np.array(whose), np.array(where), np.array(parts)
    size = np.array(sizes, dtype=float)[area]
    floats = np.bincount(owner)[owner] > 1
    for _ in range(ROUNDS):
        load = np.bincount(area, wanted / size)[area]
        lighter = np.divide(wanted, load, out=np.zeros_like(wanted), where=wanted > LEAST / 1e6)
        scale = (np.bincount(owner, wanted)[owner]) / (np.bincount(owner, lighter)[owner])
        wanted = np.where(floats, lighter * scale, wanted)
    return [float(part) for part in wanted]
