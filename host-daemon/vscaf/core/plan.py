"""From the partitions that are held to those that should be: which steps, in which order.

Shrink before grow: at every instant, whatever fails, no pCPU is held by two domains.
"""

from collections.abc import Mapping
from dataclasses import dataclass


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
    """The working state of one call of plan. between: what each domain holds after the shrinks."""

    def __init__(
        self, held: Mapping[str, frozenset[int]], target: Mapping[str, frozenset[int]], sharing: frozenset[str]
    ) -> None:
        self.names = sorted({*held, *target})
        nothing: frozenset[int] = frozenset()
        self.held = {name: held.get(name, nothing) for name in self.names}
        self.target = {name: target.get(name, nothing) for name in self.names}
        self.sharing = sharing
        self.between = {name: self.held[name] & self.target[name] for name in self.names}
        self.overlapping: set[str] = set()

    def others(self, sets: Mapping[str, frozenset[int]], name: str) -> frozenset[int]:
        """Union of the sets of all domains that may not overlap with this one."""
        return frozenset().union(*(sets[other] for other in self.names if self.apart(name, other)))

    def apart(self, name: str, other: str) -> bool:
        """Whether the two must never hold the same pCPU."""
        return name != other and not (name in self.sharing and other in self.sharing)

    def plan(self) -> TransitionPlan:
        """Find each domain its place in between, then an order of the grows."""
        movers = [name for name in self.names if self.held[name] and self.target[name] and not self.between[name]]
        waiting = [name for name in movers if not self.settle(name)]
        for name in waiting:
            if mine := self.held[name] - self.others(self.between, name):
                self.between[name] = frozenset({min(mine)})
            else:
                self.park(name)
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
        grows = tuple(
            Grow(name, self.target[name], self.needs(name)) for name in order if self.between[name] != self.target[name]
        )
        return TransitionPlan(shrinks, grows, frozenset(self.overlapping))

    def settle(self, name: str) -> bool:
        """Find a place for a mover where it is in nobody's way."""
        taken = self.others(self.between, name)
        unwanted = self.held[name] - self.others(self.target, name) - taken
        direct = self.target[name] - self.others(self.held, name) - taken
        place = sorted(unwanted)[: len(self.target[name])] or sorted(direct)
        self.between[name] = frozenset(place)
        return bool(place)

    def park(self, name: str) -> None:
        """Send a mover to the smallest pCPU that nobody holds, or let it overlap where it is."""
        known = frozenset().union(*self.held.values(), *self.target.values())
        free = known - frozenset().union(*self.held.values()) - frozenset().union(*self.between.values())
        if free:
            self.between[name] = frozenset({min(free)})
        else:
            self.between[name] = frozenset({min(self.held[name])})
            self.overlapping.add(name)

    def blockers(self, name: str) -> list[str]:
        """Domains that hold something of this one's target until their own grow."""
        return [
            other
            for other in self.names
            if self.apart(name, other)
            and other not in self.overlapping
            and self.between[other] & self.target[name]
            and self.between[other] != self.target[other]
        ]

    def order(self) -> list[str] | None:
        """Domains in an order in which each comes after its blockers; None: there is a circle."""
        done: list[str] = []
        blockers = {name: set(self.blockers(name)) for name in self.names}
        while len(done) < len(self.names):
            ready = [name for name in self.names if name not in done and blockers[name] <= set(done)]
            if not ready:
                return None
            done += ready
        return done

    def in_circle(self) -> str:
        """The first by name of a circle of blockers."""
        blockers = {name: self.blockers(name) for name in self.names}
        # Whoever is left when all that are not blocked are taken away is in a circle or behind one: walk into it.
        left = set(self.names)
        while free := {name for name in left if not left & set(blockers[name])}:
            left -= free
        walk = [min(left)]
        while (step := min(left & set(blockers[walk[-1]]))) not in walk:
            walk.append(step)
        return min(walk[walk.index(step) :])

    def needs(self, name: str) -> frozenset[int]:
        """What others hold of this one's target at the start or in between, but for what may overlap."""
        away = {
            other: self.held[other] - self.between[other]
            if other in self.overlapping
            else self.held[other] | self.between[other]
            for other in self.names
        }
        return (self.target[name] - self.between[name]) & self.others(away, name)
