"""How much CPU time each vCPU of a simulated host gets. Pure: it has no clock.

A change costs what it concerns: the CPU time of domains that want none of the same pCPUs is not worked out again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from vscaf.values import DomainKey

BALANCING_ROUNDS = 20
"""In each round, groups move some of what they want to areas where less is wanted."""

LEAST_CPUS = 1e-9
"""A vCPU that wants less wants nothing."""


@dataclass(slots=True, eq=False)
class Group:
    """vCPUs of a domain that have the same pins. wanted: CPUs, 0 to 1, by vCPU.

    An *area* is a set of pCPUs that the same groups may run on. parts: the CPUs that the group wants of each area, by
    the area's number. granted: CPUs that it gets, one entry for each area.
    """

    pins: frozenset[int]
    weight: float
    wanted: dict[int, float]
    parts: dict[int, float] = field(default_factory=dict)
    granted: list[float] = field(default_factory=list)


class CpuTime:
    """The CPU time of all domains on *online* pCPUs. Times that it is given never decrease.

    vCPUs that may run on several pCPUs are balanced over them. Where more is wanted of an area than it has, each vCPU
    gets CPU time in proportion to what it wants and to its domain's weight, and never more than it wants.

    Domains that want time on a common pCPU affect each other, directly or through others. Such a set is a *component*.
    """

    def __init__(self, online: frozenset[int]) -> None:
        self._online = online
        self._groups: dict[DomainKey, list[Group]] = {}
        self._rates: dict[DomainKey, dict[int, float]] = {}
        self._used_s: dict[DomainKey, dict[int, float]] = {}
        self._accounted_s: dict[DomainKey, float] = {}
        self._places: dict[DomainKey, tuple[frozenset[int], ...]] = {}  # the pins of a domain's groups
        self._users: dict[frozenset[int], set[DomainKey]] = {}  # by place
        self._on_cpu: dict[int, set[frozenset[int]]] = {}  # the places that a pCPU is part of
        self._loads: dict[tuple[frozenset[int], ...], float] = {}

    def add(self, key: DomainKey, now_s: float) -> dict[int, float]:
        """A domain begins. The dictionary that is returned holds the seconds that each vCPU has used when booked."""
        self._accounted_s[key] = now_s
        return self._used_s.setdefault(key, {})

    def rates(self, key: DomainKey) -> Mapping[int, float]:
        """CPUs that each vCPU of the domain uses; a vCPU that uses none may be absent."""
        return self._rates.get(key, {})

    def account(self, keys: Iterable[DomainKey], now_s: float) -> None:
        """Adds what was used up to *now_s* to the seconds used."""
        for key in keys:
            passed_s = now_s - self._accounted_s[key]
            self._accounted_s[key] = now_s
            if passed_s > 0.0:
                used_s = self._used_s[key]
                for vcpu, rate in self.rates(key).items():
                    used_s[vcpu] = used_s.get(vcpu, 0.0) + rate * passed_s

    def load_cpus(self, key: DomainKey) -> float:
        """CPUs in use by all domains that may run exactly where this one may."""
        places = self._places.get(key, ())
        load = self._loads.get(places)
        if load is None:
            users = {user for place in places for user in self._users[place]}
            load = sum([sum(self._rates[user].values()) for user in sorted(users) if user in self._rates])
            self._loads[places] = load
        return load

    def neighbours(self, key: DomainKey) -> frozenset[DomainKey]:
        """Other domains that want CPU time on a pCPU on which this one wants some."""
        return frozenset(self._near(self._places.get(key, ())) - {key})

    def set_online(self, online: frozenset[int]) -> None:
        """Other pCPUs are online. It takes effect with the next `change`, which must name every domain."""
        self._online = online
        self._groups.clear()  # so that each domain differs from what is known

    def change(self, groups: Mapping[DomainKey, list[Group] | None], now_s: float) -> list[DomainKey]:
        """From *now_s* on these domains have these groups. None: the domain has ended.

        Returns the domains whose CPU time may be other than before, sorted.
        """
        left: list[frozenset[int]] = []
        moved: set[DomainKey] = set()
        for key, those in groups.items():
            before = self._places.get(key, ())
            if self._move(key, those):
                left += before
                moved.add(key)
        moved |= self._near(left)
        self._loads.clear()
        done: set[DomainKey] = set()
        for key in sorted(moved | groups.keys()):
            if key not in done:
                component = self._component(key)
                done |= component
                self.account(component, now_s)
                if not moved.isdisjoint(component):
                    self._share_out(sorted(component))
        ended = [key for key, those in groups.items() if those is None]
        for key in ended:
            for of_domain in (self._rates, self._used_s, self._accounted_s):
                of_domain.pop(key, None)
        return sorted(done.difference(ended))

    def _move(self, key: DomainKey, groups: list[Group] | None) -> bool:
        """Notes where the domain wants CPU time, and how much. Returns whether that is new."""
        known = self._groups.pop(key, None)
        if groups is not None:
            self._groups[key] = groups
            if known is not None and _requests(groups) == _requests(known):
                return False
        for place in self._places.pop(key, ()):
            users = self._users[place]
            users.discard(key)
            if not users:
                del self._users[place]
                for cpu in place:
                    self._on_cpu[cpu].discard(place)
        places = tuple(group.pins for group in groups or ())
        if places:
            self._places[key] = places
        for place in places:
            if place not in self._users:
                self._users[place] = set()
                for cpu in place:
                    self._on_cpu.setdefault(cpu, set()).add(place)
            self._users[place].add(key)
        return True

    def _near(self, places: Iterable[frozenset[int]]) -> set[DomainKey]:
        """The domains that want CPU time on a pCPU of these places."""
        near = {other for place in places for cpu in place for other in self._on_cpu.get(cpu, ())}
        return set().union(*[self._users[place] for place in near])

    def _component(self, key: DomainKey) -> set[DomainKey]:
        component, places, cpus = {key}, set(self._places.get(key, ())), set[int]()
        left = list(places)
        while left:
            place = left.pop()
            new = self._users[place] - component
            component |= new
            found = set(chain.from_iterable(self._places[user] for user in new))
            found.update(*[self._on_cpu[cpu] for cpu in place - cpus])
            found -= places
            cpus |= place
            places |= found
            left += found
        return component

    def _share_out(self, component: list[DomainKey]) -> None:
        """Groups of the same pins and weight are taken together, because each of their vCPUs gets the same part."""
        merged: dict[tuple[frozenset[int], float], Group] = {}
        for key in component:
            self._rates.pop(key, None)
            for group in self._groups.get(key, ()):
                whole = merged.setdefault((group.pins, group.weight), Group(group.pins, group.weight, {0: 0.0}))
                whole.wanted[0] += sum(group.wanted.values())
        wholes = list(merged.values())
        _balance(wholes, _areas(wholes, self._online))
        satisfied = {kind: sum(whole.granted) / whole.wanted[0] for kind, whole in merged.items()}
        for key in component:
            for group in self._groups.get(key, ()):
                each = satisfied[group.pins, group.weight]
                self._rates.setdefault(key, {}).update({vcpu: each * one for vcpu, one in group.wanted.items()})


def _requests(groups: list[Group]) -> list[tuple[frozenset[int], float, dict[int, float]]]:
    return [(group.pins, group.weight, group.wanted) for group in groups]


def _areas(groups: list[Group], online: frozenset[int]) -> list[int]:
    """How many pCPUs each area has. Splits what each group wants evenly over its pCPUs."""
    numbers = {pins: number for number, pins in enumerate(dict.fromkeys(group.pins for group in groups))}
    users: dict[int, list[int]] = {}
    for pins, number in numbers.items():
        for cpu in pins & online:
            users.setdefault(cpu, []).append(number)
    sizes: dict[tuple[int, ...], int] = {}
    for those in users.values():
        sizes[tuple(those)] = sizes.get(tuple(those), 0) + 1
    areas: dict[int, list[tuple[int, int]]] = {number: [] for number in numbers.values()}
    for area, (who, size) in enumerate(sorted(sizes.items())):
        for number in who:
            areas[number].append((area, size))
    for group in groups:
        own_areas = areas[numbers[group.pins]]
        per_cpu = sum(group.wanted.values()) / max(1, sum(size for _, size in own_areas))
        group.parts = {area: per_cpu * size for area, size in own_areas}
    return [size for _, size in sorted(sizes.items())]


def _balance(groups: list[Group], sizes: list[int]) -> None:
    """Lets groups move to where less is wanted, then shares each area among the groups that want parts of it."""
    owners = [number for number, group in enumerate(groups) for _ in group.parts]
    areas = [area for group in groups for area in group.parts]
    parts = [part for group in groups for part in group.parts.values()]
    if len(set(owners)) < len(owners):
        parts = _moved(owners, areas, parts, sizes)
    requests: list[list[tuple[Group, float]]] = [[] for _ in sizes]
    for number, area, part in zip(owners, areas, parts, strict=True):
        if part > 0.0:
            requests[area].append((groups[number], part))
    for area, size in enumerate(sizes):
        _share(requests[area], float(size))


def _moved(owners: list[int], areas: list[int], parts: list[float], sizes: list[int]) -> list[float]:
    """The parts after groups with several have moved to where less is wanted. 0: that part is given up."""
    owner, area, wanted = np.array(owners), np.array(areas), np.array(parts)
    size = np.array(sizes, dtype=float)[area]
    floats = np.bincount(owner)[owner] > 1
    for _ in range(BALANCING_ROUNDS):
        load = np.bincount(area, wanted / size)[area]
        lighter = np.divide(wanted, load, out=np.zeros_like(wanted), where=wanted > LEAST_CPUS / 1e6)
        scale = (np.bincount(owner, wanted)[owner]) / (np.bincount(owner, lighter)[owner])
        wanted = np.where(floats, lighter * scale, wanted)
    return [float(part) for part in wanted]


def _share(requests: list[tuple[Group, float]], spare: float) -> None:
    """Shares one area among the groups that want parts of it: by weight, and no group gets more than it wants."""
    while requests:
        unit = spare / sum(group.weight * part for group, part in requests)
        content = [(group, part) for group, part in requests if unit * group.weight >= 1.0]
        for group, part in content or requests:
            group.granted.append(part if content else unit * group.weight * part)
        if not content:
            return
        spare = max(0.0, spare - sum(part for _, part in content))
        requests = [(group, part) for group, part in requests if unit * group.weight < 1.0]
