"""The plan from the held partitions to the target partitions: which steps, in which order.

Domains shrink before others grow. So at every instant, whatever fails, no pCPU is held by two domains.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

_NOTHING: frozenset[int] = frozenset()


class Shrink(NamedTuple):
    """The domain shrinks to *keep* and stays there until its Grow, if it has one.

    keep: normally a part of what it holds; empty: it rests. A domain that moves entirely may be sent to pCPUs that no
    domain holds. target: the partition that it has at the end of the transition.
    """

    domain: str
    keep: frozenset[int]
    target: frozenset[int]


class Grow(NamedTuple):
    """The domain gets the whole partition *cpus* in place of what it held until then.

    needs: those of *cpus* that another domain holds at the start or in between, and must release first.
    """

    domain: str
    cpus: frozenset[int]
    needs: frozenset[int]


@dataclass(frozen=True, slots=True)
class TransitionPlan:
    """First all shrinks, in any order or together. When all are done or contained: the grows, in this order.

    A grow may run in parallel with others as soon as its needs are released: by the shrinks, or by an earlier grow of a
    domain that moves entirely. overlapping: domains that have no place to wait, because they move in a circle through a
    full pool or held nothing of their own. Each stays where it is until its grow. A domain that takes its place before
    that overlaps with it. This is allowed only within the transition's deadline. Empty in every ordinary transition.
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

    held: may overlap and lie outside the pool, as found at start or after a crash. target: disjoint, except that
    domains of *sharing* may share. A domain that is missing in target begins to rest. A domain that is missing in held
    was at rest.

    Law: after the shrinks no pCPU is held by two domains, unless both are in sharing, or one is in overlapping. Every
    grow keeps this true. After the last grow, target is held.

    A domain that moves entirely (its target is not empty, and it holds nothing of it) needs a place to wait. In this
    order of preference: pCPUs that it holds and that no target contains; pCPUs of its target that no domain holds; one
    pCPU that it holds although another domain's target contains it (that domain then grows after it). If this makes a
    circle, it waits on the smallest pCPU that no domain holds. If there is none, it is overlapping.
    """
    return _Planner(held, target, sharing).plan()


class _Planner:
    """The working state of one call of plan. between: what each domain holds after the shrinks.

    names: the domains that change, sorted. The sets of the others matter only if a changing domain needs a place to
    wait. Partitions of the target are disjoint, so a domain that stays within its own blocks no other.
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
        # The domains that wait outside their own target, and so may at some time be on pCPUs of another's target.
        self.waiting: set[str] = set()

    def plan(self) -> TransitionPlan:
        """Finds a place to wait for each domain that needs one, then an order of the grows."""
        movers = [name for name in self.names if self.held[name] and self.target[name] and not self.between[name]]
        if movers:
            self.find_places(movers)
        order = self.order()
        while order is None:
            # Parking one domain of the circle ends that circle. Each domain is parked at most once, so the loop ends.
            self.park(self.in_cycle())
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
        """Finds a place to wait for domains that move entirely."""
        self.waiting.update(movers)
        held, target = _Owners(self.all_held, self.sharing), _Owners(self.all_target, self.sharing)
        between = _Owners({**self.all_target, **self.between}, self.sharing)
        unsettled = []
        for name in movers:
            # Places where it blocks no other domain.
            unwanted = {cpu for cpu in self.held[name] if target.free_for(name, cpu) and between.free_for(name, cpu)}
            direct = {cpu for cpu in self.target[name] if held.free_for(name, cpu) and between.free_for(name, cpu)}
            place = frozenset(sorted(unwanted)[: len(self.target[name])] or direct)
            if not place:
                unsettled.append(name)
            self.between[name] = place
            between.add(name, place)
        for name in unsettled:
            own = [cpu for cpu in self.held[name] if between.free_for(name, cpu)]
            if own:
                self.between[name] = frozenset({min(own)})
            else:
                self.park(name)
            between.add(name, self.between[name])

    def park(self, name: str) -> None:
        """Sends a mover to the smallest pCPU that no domain holds. If there is none, it overlaps where it is."""
        held = frozenset[int]().union(*self.all_held.values())
        known = held.union(*self.all_target.values())
        free = known - held - frozenset[int]().union(*self.between.values())
        if free:
            self.between[name] = frozenset({min(free)})
        else:
            self.between[name] = frozenset({min(self.held[name])})
            self.overlapping.add(name)

    def blockers(self) -> dict[str, set[str]]:
        """For each domain, those that hold a part of its target until their own grow. Only domains that have any."""
        found: dict[str, set[str]] = {}
        wanted_by: dict[int, list[str]] = {}
        waiting = [name for name in self.waiting - self.overlapping if self.between[name] != self.target[name]]
        if not waiting:
            return found
        for name in self.names:
            for cpu in self.target[name]:
                wanted_by.setdefault(cpu, []).append(name)
        for blocker in waiting:
            for cpu in self.between[blocker]:
                for name in wanted_by.get(cpu, ()):
                    if name != blocker and not (name in self.sharing and blocker in self.sharing):
                        found.setdefault(name, set()).add(blocker)
        return found

    def order(self) -> list[str] | None:
        """The domains in an order in which each comes after its blockers. None: there is a circle."""
        blockers = self.blockers()
        if not blockers:
            return self.names
        done: dict[str, None] = {}
        left = self.names
        while left:
            ready = [name for name in left if name not in blockers or blockers[name] <= done.keys()]
            if not ready:
                return None
            done.update(dict.fromkeys(ready))
            left = [name for name in left if name not in done]
        return list(done)

    def in_cycle(self) -> str:
        """The first domain, by name, of a circle of blockers."""
        blockers = self.blockers()
        # Remove all domains that are not blocked. Each remaining one is in a circle or blocked by one: walk into it.
        left = set(self.names)
        while free := {name for name in left if left.isdisjoint(blockers.get(name, ()))}:
            left -= free
        path = [min(left)]
        while (step := min(left & blockers[path[-1]])) not in path:
            path.append(step)
        return min(path[path.index(step) :])

    def needs(self, growing: list[str]) -> dict[str, frozenset[int]]:
        """The part of each domain's target that others hold at the start or in between, except where they may overlap.

        A domain holds nothing of its own needs: it has kept what it held of its target.
        """
        used: dict[bool, list[frozenset[int]]] = {True: [], False: []}
        for name in self.names:
            held = self.held[name]
            if name in self.overlapping:
                held -= self.between[name]
            elif name in self.waiting:
                held |= self.between[name]
            used[name in self.sharing].append(held)
        by_others = frozenset[int]().union(*used[False])
        by_anyone = by_others.union(*used[True])
        return {
            name: (self.target[name] - self.between[name]) & (by_others if name in self.sharing else by_anyone)
            for name in growing
        }


class _Owners:
    """The owners of each pCPU in some sets by domain. Domains of *sharing* do not block each other."""

    def __init__(self, sets: Mapping[str, frozenset[int]], sharing: frozenset[str]) -> None:
        self._sharing = sharing
        self._owners: dict[int, list[str]] = {}
        for name, cpus in sets.items():
            self.add(name, cpus)

    def add(self, name: str, cpus: frozenset[int]) -> None:
        """Adds *cpus* to those of the domain."""
        for cpu in cpus:
            self._owners.setdefault(cpu, []).append(name)

    def free_for(self, name: str, cpu: int) -> bool:
        """Whether only this domain holds the pCPU, or domains with which it shares."""
        shares = name in self._sharing
        return all(owner == name or (shares and owner in self._sharing) for owner in self._owners.get(cpu, ()))
