"""From the partitions that are held to those that should be: which steps, in which order.

Shrink before grow: at every instant, whatever fails, no pCPU is held by two domains.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Shrink:
    """The domain goes back to keep and stays there until its Grow, if it has one.

    keep: empty: it goes to rest. Normally a part of what it holds; a domain that moves entirely may be sent to pCPUs
    that nobody holds. target: the partition that it has at the end of the transition.
    """

    domain: str
    keep: frozenset[int]
    target: frozenset[int]


@dataclass(frozen=True, slots=True)
class Grow:
    """The domain gets the partition cpus, whole, in place of what it held until then.

    needs: those of cpus that another domain holds at the start or in between, and must have released before.
    """

    domain: str
    cpus: frozenset[int]
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class TransitionPlan:
    """All shrinks, in any order or together; when all are done or contained, the grows, in this order.

    A grow may run beside others as soon as its needs are released: by the shrinks, or by an earlier grow of a domain
    that moves entirely. overlapping: domains that have nowhere to wait, because they move in a circle through a full
    pool or held nothing of their own. Each stays where it is until its grow, and one that takes its place before
    that overlaps with it: allowed only within the transition's deadline. Empty in every ordinary transition.
    """

    shrinks: tuple[Shrink, ...]
    grows: tuple[Grow, ...]
    overlapping: frozenset[str]


def plan(
    held: Mapping[str, frozenset[int]],
    target: Mapping[str, frozenset[int]],
    sharing: frozenset[str] = frozenset(),
) -> TransitionPlan:
    """The steps from held to target, by domain name.

    held: may overlap and lie outside the pool, as found at start or after a crash. target: disjoint, but that domains
    of sharing may share. A domain that is missing in target goes to rest, one missing in held comes from rest.

    Law: after the shrinks no pCPU is held by two domains (both of sharing, or in overlapping, excepted); every grow
    keeps that true; after the last, target is held.

    A domain that moves entirely (target not empty, nothing of it held) waits, in this order of preference: on pCPUs
    it holds that no target wants; on those of its target that nobody holds; on one that it holds although another's
    target wants it (that one then grows after it); and where this makes a circle, parked on the smallest pCPU that
    nobody holds. If there is none it is overlapping.
    """
    return _Planner(held, target, sharing).plan()


class _Planner:
    """The working state of one call of plan. between: what each domain holds after the shrinks.

    names: the domains that change, sorted; the sets of the others are looked at only where one that changes needs a
    place to wait. Partitions of the target are disjoint, so who stays within its own is in nobody's way.
    """

    def __init__(
        self, held: Mapping[str, frozenset[int]], target: Mapping[str, frozenset[int]], sharing: frozenset[str]
    ) -> None:
        self.all_held, self.all_target, self.sharing = held, target, sharing
        changing = {name for name, cpus in target.items() if cpus != held.get(name, _NOTHING)}
        changing.update(name for name in held.keys() - target.keys() if held[name])
        self.names = sorted(changing)
        self.held = {name: held.get(name, _NOTHING) for name in self.names}
        self.target = {name: target.get(name, _NOTHING) for name in self.names}
        self.between = {name: self.held[name] & self.target[name] for name in self.names}
        self.overlapping: set[str] = set()
        # Those that may at some time be on pCPUs of another's target: all that wait elsewhere than in their own.
        self.waiting: set[str] = set()

    def plan(self) -> TransitionPlan:
        """Find each domain its place in between, then an order of the grows."""
        movers = [name for name in self.names if self.held[name] and self.target[name] and not self.between[name]]
        if movers:
            self.find_places(movers)
        order = self.order()
        while order is None:
            # Leaving the circle at the first by name ends one circle; each domain is parked once, so this ends.
            self.park(self.in_circle())
            order = self.order()
        shrinks = tuple(
            Shrink(name, self.between[name], self.target[name])
            for name in self.names
            if self.held[name] and self.between[name] != self.held[name]
        )
        growing = [name for name in order if self.between[name] != self.target[name]]
        needs = self.needs(growing)
        grows = tuple(Grow(name, self.target[name], needs[name]) for name in growing)
        return TransitionPlan(shrinks, grows, frozenset(self.overlapping))

    def find_places(self, movers: list[str]) -> None:
        """A place in between for domains that move entirely."""
        self.waiting.update(movers)
        held, target = _Owners(self.all_held, self.sharing), _Owners(self.all_target, self.sharing)
        between = _Owners({**self.all_target, **self.between}, self.sharing)
        unsettled = []
        for name in movers:
            # Where it is in nobody's way.
            unwanted = {cpu for cpu in self.held[name] if target.free_for(name, cpu) and between.free_for(name, cpu)}
            direct = {cpu for cpu in self.target[name] if held.free_for(name, cpu) and between.free_for(name, cpu)}
            place = frozenset(sorted(unwanted)[: len(self.target[name])] or direct)
            if not place:
                unsettled.append(name)
            self.between[name] = place
            between.add(name, place)
        for name in unsettled:
            mine = [cpu for cpu in self.held[name] if between.free_for(name, cpu)]
            if mine:
                self.between[name] = frozenset({min(mine)})
            else:
                self.park(name)
            between.add(name, self.between[name])

    def park(self, name: str) -> None:
        """Send a mover to the smallest pCPU that nobody holds, or let it overlap where it is."""
        held = frozenset[int]().union(*self.all_held.values())
        known = held.union(*self.all_target.values())
        free = known - held - frozenset[int]().union(*self.between.values())
        if free:
            self.between[name] = frozenset({min(free)})
        else:
            self.between[name] = frozenset({min(self.held[name])})
            self.overlapping.add(name)

    def blockers(self) -> dict[str, set[str]]:
        """For each domain those that hold something of its target until their own grow; none: left out."""
        found: dict[str, set[str]] = {}
        wanted_by: dict[int, list[str]] = {}
        waiting = [name for name in self.waiting - self.overlapping if self.between[name] != self.target[name]]
        if not waiting:
            return found
        for name in self.names:
            for cpu in self.target[name]:
                wanted_by.setdefault(cpu, []).append(name)
        for other in waiting:
            for cpu in self.between[other]:
                for name in wanted_by.get(cpu, ()):
                    if name != other and not (name in self.sharing and other in self.sharing):
                        found.setdefault(name, set()).add(other)
        return found

    def order(self) -> list[str] | None:
        """Domains in an order in which each comes after its blockers; None: there is a circle."""
        blockers = self.blockers()
        done: dict[str, None] = {}
        left = self.names
        while left:
            ready = [name for name in left if name not in blockers or blockers[name] <= done.keys()]
            if not ready:
                return None
            done.update(dict.fromkeys(ready))
            left = [name for name in left if name not in done]
        return list(done)

    def in_circle(self) -> str:
        """The first by name of a circle of blockers."""
        blockers = self.blockers()
        # Whoever is left when all that are not blocked are taken away is in a circle or behind one: walk into it.
        left = set(self.names)
        while free := {name for name in left if left.isdisjoint(blockers.get(name, ()))}:
            left -= free
        walk = [min(left)]
        while (step := min(left & blockers[walk[-1]])) not in walk:
            walk.append(step)
        return min(walk[walk.index(step) :])

    def needs(self, growing: list[str]) -> dict[str, frozenset[int]]:
        """What others hold of each one's target at the start or in between, but for what may overlap.

        Nobody holds anything itself of what it needs: what it held of its target it has kept.
        """
        used: dict[bool, list[frozenset[int]]] = {True: [], False: []}
        for name in self.names:
            mine = self.held[name]
            if name in self.overlapping:
                mine -= self.between[name]
            elif name in self.waiting:
                mine |= self.between[name]
            used[name in self.sharing].append(mine)
        by_others = frozenset[int]().union(*used[False])
        by_anyone = by_others.union(*used[True])
        return {
            name: (self.target[name] - self.between[name]) & (by_others if name in self.sharing else by_anyone)
            for name in growing
        }


class _Owners:
    """Who holds each pCPU in some sets by domain. Domains of sharing are not in each other's way."""

    def __init__(self, sets: Mapping[str, frozenset[int]], sharing: frozenset[str]) -> None:
        self._sharing = sharing
        self._owners: dict[int, list[str]] = {}
        for name, cpus in sets.items():
            self.add(name, cpus)

    def add(self, name: str, cpus: frozenset[int]) -> None:
        """The domain holds these as well."""
        for cpu in cpus:
            self._owners.setdefault(cpu, []).append(name)

    def free_for(self, name: str, cpu: int) -> bool:
        """Whether nobody holds it but this one and, if it shares, those it shares with."""
        shares = name in self._sharing
        return all(owner == name or (shares and owner in self._sharing) for owner in self._owners.get(cpu, ()))
