"""A simulated host for transitions. It has the true state of each domain, the state that vscaf knows, and laws on both.

All random choices come from a function `choose(n) -> 0..n-1`, so that a property test or a seed can drive them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from vscaf.core.backoff import RETRY_MOST_S
from vscaf.core.decide.decision import DecideMemory, Decision, decide
from vscaf.core.place.placement import Topology, place
from vscaf.core.reconcile.plan import plan
from vscaf.core.reconcile.state import (
    Action,
    Affinity,
    AnnouncedSize,
    Apply,
    Look,
    Resize,
    Resume,
    Suspend,
    TransitionState,
    Treatment,
    on_done,
    on_external_resume,
    on_failed,
    on_read,
    on_resumed,
    on_suspended,
)
from vscaf.core.reconcile.steps import Announcement, Goal, StepMemo, Timing, next_steps
from vscaf.values import State
from vscaf_policies import DomainState, Options, Policy, PoolState
from vscaf_policies.bounds import largest, smallest
from vscaf_policies.gang import gang
from vscaf_policies.priority import priority
from vscaf_policies.registry import load_policy

Choose = Callable[[int], int]

TIMING = Timing(deadline_s=0.5, resend_s=4.0, unplug_after_s=3.0)
CALL_S = 0.01
MOST_DOMAINS = 5


def short_slices(pool: PoolState, options: Options) -> object:
    """The gang policy with slices so short that gangs change as often as anything else here."""
    return gang(pool, {"slice_s": 0.3})


POLICIES: tuple[Policy, ...] = (
    *(load_policy(name) for name in ("equipartition", "max-speedup")),
    short_slices,  # type: ignore[arg-type]
    short_slices,  # type: ignore[arg-type]
    priority,
)
NOWHERE: frozenset[int] = frozenset()

# Where the pins of a vCPU come from. FOREIGN: not from vscaf, and no look has shown them yet. SEEN: a look has.
PARTITION, REST, FOREIGN, SEEN = "partition", "rest", "foreign", "seen"

# What has stopped a domain. US: vscaf. FAULT: an I/O error or a migration. RUNS: nothing.
RUNS, US, OTHERS, FAULT = "", "us", "others", "fault"


@dataclass
class Pinned:
    """The pins that a vCPU really has."""

    cpus: frozenset[int]
    origin: str


@dataclass
class Flight:
    """A call under way. left: its parts that have not taken effect. claimed: the claim when it began. read: what a look
    has seen so far. shown: the foreign pins that the look has seen. returned: what a suspend or a resume returns.
    begun: a part of it has taken effect, or was refused.
    """

    call: Action
    left: list[object]
    claimed: frozenset[int]
    read: tuple[int, Affinity] | None = None
    shown: list["Pinned"] = field(default_factory=list)
    returned: bool = False
    begun: bool = False


@dataclass
class Guest:
    """manner: good (acknowledges sooner or later), mute (never acknowledges), gone (no agent)."""

    manner: str = "good"
    announced: list[AnnouncedSize] = field(default_factory=list)
    online: tuple[int, ...] = (0,)


@dataclass
class Domain:
    """One running domain. The affinity is the real one.

    stopped_by: who has paused it. on_external_resume: somebody has resumed it, and no look has shown this yet.
    doubtful: nobody can know whether vscaf paused it: a suspend or a resume failed, or it was resumed unseen.
    """

    name: str
    vcpus_maximum: int
    pins: dict[int, Pinned]
    emulator: frozenset[int]
    iothreads: dict[int, frozenset[int]]
    shares: int | None
    minimum: int
    maximum: int
    may_rest: bool
    on_reserve: bool
    found_vcpus: int
    unplug: bool
    unplug_works: bool
    plug_limit: int
    demand: int = 1
    stopped_by: str = RUNS
    on_external_resume: bool = False
    doubtful: bool = False
    newcomer: bool = True
    weight: float | None = None
    guest: Guest = field(default_factory=Guest)
    flight: Flight | None = None
    noticed: bool = False

    def affinity(self) -> Affinity:
        pins = {vcpu: pinned.cpus for vcpu, pinned in sorted(self.pins.items())}
        return Affinity(pins, self.emulator, dict(self.iothreads), self.shares)


class World:
    """The host, its domains, and a daemon that acts as vscaf's loop does. AssertionError if a law is broken."""

    def __init__(self, cpus: int, chunk: int, reserve: int) -> None:
        self.chunk = chunk
        self.all_chunks = tuple(frozenset(range(cpu, cpu + chunk)) for cpu in range(0, cpus, chunk))
        self.offline: set[int] = set()
        self.reserve = frozenset(range(cpus, cpus + reserve))
        self.everywhere = frozenset(range(cpus)) | self.reserve
        self.now_s = 1000.0
        self.policy = POLICIES[0]
        self.domains: dict[str, Domain] = {}
        self.transitions: dict[str, TransitionState] = {}
        self.goals: dict[str, Goal] = {}
        self.memory = DecideMemory()
        self.sharing: frozenset[str] = frozenset()
        self.placed: object = None
        self.again_at_s = float("inf")
        self.memos: Mapping[str, StepMemo] = {}
        self.excused: set[frozenset[str]] = set()
        self.leaving_since_s: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.numbered = 0
        self.last_announced_s: dict[str, float] = {}

    # The host

    @property
    def topology(self) -> Topology:
        chunks = tuple(chunk for place, chunk in enumerate(self.all_chunks) if place not in self.offline)
        return Topology(chunks, {cpu: cpu // (4 * self.chunk) for chunk in chunks for cpu in chunk})

    @property
    def pool(self) -> frozenset[int]:
        return NOWHERE.union(*self.topology.chunks)

    def some_cpus(self, choose: Choose) -> frozenset[int]:
        """All pCPUs, one, or any subset. Pins may name pCPUs that are offline."""
        cpus = sorted(self.everywhere)
        kind = choose(3)
        if kind == 0:
            return self.everywhere
        first = cpus[choose(len(cpus))]
        return frozenset({first}) if kind == 1 else frozenset({first, cpus[choose(len(cpus))], cpus[choose(len(cpus))]})

    def offline_some(self, choose: Choose) -> None:
        """A chunk of the pool goes offline or comes back. One always stays online."""
        place = choose(len(self.all_chunks))
        if place in self.offline:
            self.offline.discard(place)
        elif len(self.offline) < len(self.all_chunks) - 1:
            self.offline.add(place)
        for name, transition in self.transitions.items():
            self.transitions[name] = replace(transition, treatment=self.treatment(self.domains[name]))

    def treatment(self, domain: Domain) -> Treatment:
        at_reserve = domain.on_reserve and bool(self.reserve)
        return Treatment(
            rest_area=self.reserve if at_reserve else self.pool,
            rest_shares=domain.shares if at_reserve or domain.shares is None else 2,
            shares=None if domain.shares is None else 100,
            emulator_area=self.reserve,
            vcpus_found=domain.found_vcpus,
            unplug=domain.unplug,
        )

    # Domains come, change and go

    def arrive(self, choose: Choose) -> None:
        """A domain with any pins starts, and is looked at for the first time."""
        if len(self.domains) >= MOST_DOMAINS:
            return
        self.numbered += 1
        name = f"{'abcde'[choose(5)]}{self.numbered}"
        vcpus = 1 + choose(3)
        same = self.some_cpus(choose)
        pins = {vcpu: Pinned(same if choose(3) else self.some_cpus(choose), FOREIGN) for vcpu in range(vcpus)}
        maximum = 1 + choose(len(self.everywhere))
        domain = Domain(
            name=name,
            vcpus_maximum=vcpus + choose(3),
            pins=pins,
            emulator=self.everywhere,
            iothreads={1: self.everywhere} if choose(2) else {},
            shares=100 if choose(4) else None,
            minimum=1 + choose(maximum),
            maximum=maximum,
            may_rest=choose(5) > 0,
            on_reserve=choose(2) == 0,
            found_vcpus=1 + choose(vcpus),
            unplug=choose(2) == 0,
            unplug_works=choose(2) == 0,
            plug_limit=1 + choose(6),
            demand=choose(5),
        )
        domain.guest.manner = ("good", "mute", "gone")[choose(3)]
        self.domains[name] = domain
        self.transitions[name] = TransitionState(
            name, vcpus, domain.vcpus_maximum, self.treatment(domain), domain.affinity().reach, domain.affinity()
        )
        for pinned in pins.values():
            pinned.origin = SEEN
        if domain.guest.manner != "gone":
            self.hello(domain)
        self.excuse(name)
        self.decide()

    def leave(self, choose: Choose) -> None:
        """A domain is destroyed, whatever call on it is under way."""
        if domain := self.any_domain(choose):
            del self.domains[domain.name], self.transitions[domain.name]
            self.goals.pop(domain.name, None)
            self.leaving_since_s.pop(domain.name, None)
            self.decide()

    def any_domain(self, choose: Choose) -> Domain | None:
        names = sorted(self.domains)
        return self.domains[names[choose(len(names))]] if names else None

    def change_demand(self, choose: Choose) -> None:
        if domain := self.any_domain(choose):
            domain.demand = choose(6)
            domain.newcomer = choose(3) == 0
            domain.weight = (None, 0.1, 0.5, 2.0)[choose(4)]

    def pause(self, choose: Choose) -> None:
        """Somebody pauses a domain that runs, or resumes a paused one, no matter who paused it."""
        if domain := self.any_domain(choose):
            if domain.stopped_by == RUNS:
                domain.stopped_by = (OTHERS, OTHERS, FAULT)[choose(3)]
                domain.doubtful |= domain.on_external_resume
            else:
                transition = self.transitions[domain.name]
                domain.stopped_by, domain.on_external_resume = RUNS, transition.known_suspended
                domain.doubtful |= transition.suspended_by_us and not transition.known_suspended
                self.counts["woken"] += domain.on_external_resume

    def see_states(self) -> None:
        """A look shows which domains run."""
        for name, domain in self.domains.items():
            if self.transitions[name].known_suspended and domain.stopped_by == RUNS:
                self.transitions[name] = on_external_resume(self.transitions[name])
                self.excuse(name)
                domain.on_external_resume = False
                if domain.flight is not None:
                    domain.flight.claimed = self.transitions[name].claim

    def change_policy(self, choose: Choose) -> None:
        self.policy = POLICIES[choose(len(POLICIES))]

    def repin(self, choose: Choose) -> None:
        """Somebody else pins vCPUs."""
        if domain := self.any_domain(choose):
            cpus = self.some_cpus(choose)
            for vcpu in list(domain.pins)[choose(2) :]:
                domain.pins[vcpu] = Pinned(cpus, FOREIGN)
            if choose(2):
                self.notice(domain)

    def recount(self, choose: Choose) -> None:
        """Somebody else plugs or unplugs a vCPU."""
        if domain := self.any_domain(choose):
            if choose(2) and len(domain.pins) < domain.vcpus_maximum:
                domain.pins[len(domain.pins)] = Pinned(self.some_cpus(choose), FOREIGN)
            elif len(domain.pins) > 1:
                del domain.pins[max(domain.pins)]
            domain.plug_limit = 1 + choose(6)

    def notice(self, domain: Domain) -> None:
        """The hypervisor reports a change of pins. They are read when no call on the domain is under way."""
        domain.noticed = True

    def read_notices(self) -> None:
        for name, domain in self.domains.items():
            transition = self.transitions[name]
            if not transition.moving and transition.vcpus != len(domain.pins):
                self.transitions[name] = replace(transition, vcpus=len(domain.pins))
            elif domain.noticed and not transition.moving and transition.affinity is not None:
                domain.noticed = False
                self.transitions[name] = replace(transition, moving=True)
                self.begin(Look(name), transition.claim)

    # Guests

    def hello(self, domain: Domain) -> None:
        """An agent says hello. It has forgotten all that it was told."""
        transition = self.transitions[domain.name]
        domain.guest.announced.clear()
        self.transitions[domain.name] = replace(
            transition, answers=True, announced=None, acknowledged=False, online=domain.guest.online
        )

    def turn(self, choose: Choose) -> None:
        """An agent comes, goes, restarts or falls mute."""
        if domain := self.any_domain(choose):
            domain.guest.manner = ("good", "mute", "gone")[choose(3)]
            if domain.guest.manner != "gone":
                self.hello(domain)
            else:
                self.transitions[domain.name] = replace(
                    self.transitions[domain.name], answers=False, acknowledged=choose(2) == 0
                )

    def claim_online(self, choose: Choose) -> None:
        """A guest reports any CPUs as online."""
        if domain := self.any_domain(choose):
            domain.guest.online = tuple(sorted({choose(6) for _ in range(1 + choose(4))}))
            transition = self.transitions[domain.name]
            if transition.answers:
                self.transitions[domain.name] = replace(transition, online=domain.guest.online)

    def acknowledge(self, domain: Domain, honest: bool = True) -> None:
        """A guest confirms the oldest size that it was told. This counts only if no newer size was told."""
        guest, transition = domain.guest, self.transitions[domain.name]
        if domain.stopped_by == US or guest.manner != "good" or not guest.announced or not transition.answers:
            return
        heard = guest.announced.pop(0)
        if honest:
            guest.online = tuple(range(max(1, min(heard.cpus, transition.vcpus))))
        confirms = not guest.announced and heard == transition.announced
        self.transitions[domain.name] = replace(
            transition, online=guest.online, acknowledged=confirms or transition.acknowledged
        )

    # The daemon: looks, decides, steps

    def decide(self) -> None:
        """As in the loop: if the decision has changed, goals are placed anew, starting from the claims."""
        self.see_states()
        states = []
        for name, domain in sorted(self.domains.items()):
            transition, goal = self.transitions[name], self.goals.get(name)
            has = goal.partition if goal is not None else transition.claim & self.pool
            maximum = max(1, min(domain.maximum, domain.vcpus_maximum, len(self.pool)))
            state = DomainState(
                name=name,
                minimum=min(domain.minimum, maximum),
                maximum=maximum,
                weight=1.0,
                demand=0
                if domain.stopped_by != RUNS and not transition.suspended_by_us
                else min(domain.demand, maximum),
                allocation=len(has),
                may_rest=domain.may_rest,
                scaf_weight=domain.weight,
                newcomer=domain.newcomer,
                points=(),
            )
            if goal is not None and transition.lost:
                keeps = transition.kept_while_lost(has) & self.pool
                cpus = len({cpu // self.chunk for cpu in keeps}) * self.chunk
                least = max(1, cpus)
                state = replace(state, minimum=least, maximum=least, demand=cpus, may_rest=not cpus)
            states.append(state)
        pool = PoolState(len(self.pool), self.chunk, self.now_s, tuple(states))
        decision = decide(pool, self.policy, {}, self.memory)
        self.memory = decision.memory
        placed = (decision.allocations, decision.sharing, decision.suspended, frozenset(self.offline))
        if placed != self.placed or any(name not in self.goals for name in self.domains):
            self.place(decision, pool)
            self.placed = placed

    def place(self, decision: Decision, pool: PoolState) -> None:
        held = {name: transition.claim for name, transition in self.transitions.items()}
        target = place(self.topology, held, decision.allocations, decision.sharing)
        competition = sum(1 for one in pool.domains if one.demand) > 1
        self.goals = {
            one.name: Goal(
                target[one.name],
                whole(largest(one, self.chunk), self.chunk),
                competition,
                one.name in decision.suspended,
            )
            for one in pool.domains
        }
        self.sharing = decision.sharing
        for one in pool.domains:
            goal = self.goals[one.name].partition
            assert len(goal) <= largest(one, self.chunk), "goal above the maximum"
            assert bool(goal) == bool(decision.allocations[one.name])
            if goal and not self.sharing and sum(smallest(each, self.chunk) for each in pool.domains) <= pool.cpus:
                assert len(goal) >= smallest(one, self.chunk), "goal below the minimum"
        self.counts["placed"] += 1

    def step(self) -> None:
        """Takes the next steps until there is nothing left to do. This must be soon."""
        self.read_notices()
        for _ in range(len(self.domains) + 2):
            if not self.ask():
                return
        raise AssertionError("there are always more steps although nothing changes")

    def ask(self) -> bool:
        """Takes the next steps and checks them by the laws. False: there were none."""
        before = self.transitions
        steps = next_steps(before, self.goals, self.sharing, self.now_s, TIMING, self.memos)
        again = next_steps(before, self.goals, self.sharing, self.now_s, TIMING)
        assert steps == again, "the steps from memos differ from the steps without"
        self.memos = steps.memos
        assert steps.transitions.keys() == steps.states.keys() == before.keys()
        self.transitions = dict(steps.transitions)
        self.again_at_s = steps.again_at_s
        assert self.again_at_s > self.now_s, "it would ask again at once, in an endless loop"
        for announcement in steps.announcements:
            assert self.transitions[announcement.domain].announced == announcement.announced
            assert self.domains[announcement.domain].stopped_by != US, "told while vscaf has it suspended"
            self.check_announcement(announcement, before[announcement.domain].announced)
            if announcement.again:
                assert self.now_s - self.last_announced_s[announcement.domain] >= TIMING.resend_s - 1e-6
            self.last_announced_s[announcement.domain] = self.now_s
            if self.transitions[announcement.domain].answers:
                self.domains[announcement.domain].guest.announced.append(announcement.announced)
            self.counts["tell"] += 1
        for call in steps.calls:
            self.begin(call, before[call.domain].claim)
        overlapping = self.nowhere_to_wait(before)
        self.check_overlaps(overlapping)
        self.check_deadlines(steps.states, overlapping)
        return bool(steps.announcements or steps.calls)

    # Calls

    def begin(self, call: Action, claimed: frozenset[int]) -> None:
        domain, transition = self.domains[call.domain], self.transitions[call.domain]
        assert domain.flight is None, "a second call while one is under way"
        assert transition.moving
        left: list[object] = []
        if isinstance(call, Apply):
            known, wanted = transition.affinity, call.affinity
            assert known is not None, "it changes pins that it has not read"
            assert call.partition <= transition.claim
            if call.partition:
                goal = self.goals[call.domain].partition
                assert len(call.partition) <= max(1, len(goal)), "more pCPUs than were decided"
                assert wanted.reach <= call.partition
            else:
                assert wanted.reach <= transition.treatment.rest_area
            left = [vcpu for vcpu, cpus in wanted.vcpus.items() if known.vcpus.get(vcpu) != cpus]
            left += [
                part for part in ("emulator", "iothreads", "shares") if getattr(wanted, part) != getattr(known, part)
            ]
            changes = transition.resting == bool(call.partition) or transition.claim != call.partition
            assert left or changes or transition.meant_to_rest, "a call that changes nothing"
        elif isinstance(call, Look):
            left = ["read"]
        elif isinstance(call, Suspend):
            assert self.goals[call.domain].suspended, "suspended without a decision"
            assert transition.suspended_by_us and not transition.known_suspended
            left = ["suspend"]
        elif isinstance(call, Resume):
            goal = self.goals[call.domain]
            assert not goal.suspended and transition.suspended_by_us and not transition.known_suspended
            assert transition.resting == (not goal.partition)
            late = [one.claim for name, one in self.transitions.items() if name != call.domain]
            assert goal.partition - frozenset[int]().union(*late) <= transition.claim <= goal.partition
            left = ["resume"]
        else:
            assert transition.vcpus != call.vcpus <= transition.vcpus_maximum
            left = ["resize"]
        domain.flight = Flight(call, left, claimed)
        self.counts[type(call).__name__] += 1

    def in_flight(self, choose: Choose) -> Domain | None:
        flying = [domain for _, domain in sorted(self.domains.items()) if domain.flight is not None]
        return flying[choose(len(flying))] if flying else None

    def take_effect(self, domain: Domain, choose: Choose) -> bool:
        """A part of the call under way takes effect. False: it cannot."""
        flight = domain.flight
        assert flight is not None
        call, transition = flight.call, self.transitions[domain.name]
        part = flight.left.pop(choose(len(flight.left)))
        flight.begun = True
        if isinstance(call, Apply):
            if isinstance(part, int):
                if part not in domain.pins:
                    return False
                domain.pins[part] = Pinned(call.affinity.vcpus[part], PARTITION if call.partition else REST)
            elif part == "iothreads":
                domain.iothreads = dict(call.affinity.iothreads)
            else:
                setattr(domain, str(part), getattr(call.affinity, str(part)))
        elif isinstance(call, Look):
            flight.read = (len(domain.pins), domain.affinity())
            flight.shown = [pinned for pinned in domain.pins.values() if pinned.origin == FOREIGN]
        elif isinstance(call, Suspend):
            flight.returned = domain.stopped_by == RUNS
            domain.stopped_by = domain.stopped_by or US
        elif isinstance(call, Resume):
            assert domain.stopped_by != OTHERS or domain.doubtful, "vscaf resumes what somebody else has paused"
            flight.returned = domain.stopped_by != FAULT
            domain.stopped_by = RUNS if flight.returned else FAULT
        else:
            return self.resize(domain, call, transition, choose)
        return True

    def resize(self, domain: Domain, call: Resize, transition: TransitionState, choose: Choose) -> bool:
        """A plug may be refused in part. An unplug may complete late or never, although it was accepted."""
        goal = self.goals[domain.name].partition or self.everywhere
        while len(domain.pins) < min(call.vcpus, domain.plug_limit) and call.vcpus > transition.vcpus:
            domain.pins[len(domain.pins)] = Pinned(goal if choose(2) else self.everywhere, FOREIGN)
        if call.vcpus < transition.vcpus and domain.unplug_works:
            while len(domain.pins) > call.vcpus:
                del domain.pins[max(domain.pins)]
        return len(domain.pins) >= call.vcpus

    def succeed(self, domain: Domain, choose: Choose) -> None:
        """The call under way takes full effect and ends."""
        flight = domain.flight
        assert flight is not None
        while flight.left:
            if not self.take_effect(domain, choose):
                self.fail(domain)
                return
        domain.flight = None
        call, transition = flight.call, self.transitions[domain.name]
        if isinstance(call, Look):
            assert flight.read is not None
            self.transitions[domain.name] = on_read(transition, *flight.read)
            for pinned in flight.shown:
                pinned.origin = SEEN
            if flight.shown:
                self.excuse(domain.name)
        elif isinstance(call, Suspend) and not flight.returned and not call.again:
            self.transitions[domain.name] = on_failed(replace(transition, suspended_by_us=False), call, self.now_s)
        elif isinstance(call, Suspend):
            self.transitions[domain.name] = on_suspended(transition)
            domain.on_external_resume = domain.stopped_by == RUNS
        elif isinstance(call, Resume):
            self.transitions[domain.name] = on_resumed(transition, self.now_s)
            domain.doubtful = domain.on_external_resume = False
        else:
            if isinstance(call, Apply):
                for vcpu, pinned in domain.pins.items():
                    if pinned.origin != FOREIGN and call.affinity.vcpus.get(vcpu) == pinned.cpus:
                        pinned.origin = PARTITION if call.partition else REST
            self.transitions[domain.name] = on_done(transition, call)
            self.leaving_since_s.pop(domain.name, None)

    def fail(self, domain: Domain, choose: Choose = lambda n: 0) -> None:
        """The call under way ends with an error. Parts that have taken effect stay."""
        flight, transition = domain.flight, self.transitions[domain.name]
        assert flight is not None
        domain.flight = None
        begun = flight.begun or choose(2) == 0
        answered = begun and choose(2) == 0
        domain.doubtful |= begun and isinstance(flight.call, Suspend | Resume)
        self.transitions[domain.name] = on_failed(transition, flight.call, self.now_s, begun=begun, answered=answered)
        self.counts["failed"] += 1
        self.counts["not begun"] += not begun

    # Laws

    def pairs(self) -> list[frozenset[str]]:
        """Pairs of domains whose claims overlap."""
        names = sorted(self.transitions)
        return [
            frozenset({one, other})
            for place, one in enumerate(names)
            for other in names[place + 1 :]
            if self.transitions[one].claim & self.transitions[other].claim
        ]

    def excuse(self, name: str) -> None:
        """Overlaps that a domain was found with, or that somebody else caused, are allowed until they are put right."""
        self.excused |= {pair for pair in self.pairs() if name in pair}

    def nowhere_to_wait(self, before: dict[str, TransitionState]) -> Callable[[], frozenset[str]]:
        """The domains that may overlap because no pCPU is free, by the plan from the claims *before*."""

        @cache
        def overlapping() -> frozenset[str]:
            targets = {name: goal.partition for name, goal in self.goals.items()}
            claims = {
                name: one.claim & targets[name] if one.known_suspended and not one.moving else one.claim
                for name, one in before.items()
            }
            return plan(claims, targets, self.sharing).overlapping

        return overlapping

    def check_overlaps(self, overlapping: Callable[[], frozenset[str]] = frozenset) -> None:
        pairs = self.pairs()
        for pair in pairs:
            allowed = pair in self.excused or pair <= self.sharing
            if not allowed and pair & overlapping():
                allowed = True
                self.counts["overlapping"] += 1
            assert allowed, f"{sorted(pair)} were apart and claim a pCPU together"
        self.excused = set(pairs)

    def check_truth(self) -> None:
        """No vCPU computes outside its domain's claim, except at rest or by pins that vscaf cannot know yet."""
        for name, domain in self.domains.items():
            transition = self.transitions[name]
            assert transition.moving == (domain.flight is not None)
            assert transition.affinity is None or transition.affinity_before is None
            assert transition.claim or transition.resting or transition.meant_to_rest or transition.known_suspended
            assert domain.stopped_by != US or transition.suspended_by_us, (
                f"{name} is suspended, and nothing will resume it"
            )
            if transition.known_suspended:
                assert transition.suspended_by_us and (domain.stopped_by != RUNS or domain.on_external_resume), (
                    f"{name} is known as suspended and runs"
                )
            else:
                assert not transition.latent_claim
            at_rest = transition.resting or transition.meant_to_rest
            for vcpu, pinned in domain.pins.items():
                its_rest = pinned.origin in (REST, SEEN) or pinned.cpus == transition.treatment.rest_area
                if pinned.origin == FOREIGN or (at_rest and its_rest):
                    continue
                assert pinned.cpus <= transition.claim | transition.latent_claim, (
                    f"vCPU {vcpu} of {name} runs outside the claim"
                )

    def check_announcement(self, announcement: Announcement, before: AnnouncedSize | None) -> None:
        """A guest is told a larger size only after its pins are there."""
        domain = self.domains[announcement.domain]
        most = before.cpus if before else 0
        had = self.transitions[announcement.domain].claim if domain.flight is None else domain.flight.claimed
        most = max(most, len(had))
        assert announcement.announced.cpus <= most, "told a larger size before its pins are there"

    def check_deadlines(self, states: Mapping[str, State], overlapping: Callable[[], frozenset[str]]) -> None:
        """A domain that has had to leave a pCPU for the guest's deadline is being moved off it."""
        for name, transition in self.transitions.items():
            goal = self.goals[name].partition
            late = transition.claim - goal
            if not late or transition.claim.isdisjoint(goal) or states[name] == State.UNKNOWN or name in overlapping():
                self.leaving_since_s.pop(name, None)
                continue
            since_s = self.leaving_since_s.setdefault(name, self.now_s)
            if self.now_s - since_s >= TIMING.deadline_s:
                assert transition.moving or self.now_s < transition.retry_at_s, f"{name} is not contained in time"
            elif not transition.moving:
                assert self.again_at_s <= max(since_s + TIMING.deadline_s, transition.retry_at_s), (
                    "no step will come in time"
                )
        for name, transition in self.transitions.items():
            if self.goals[name].suspended and not transition.known_suspended and states[name] != State.UNKNOWN:
                retry_at_s = max(transition.retry_at_s, transition.suspend_backoff.retry_at_s)
                assert transition.moving or self.now_s < retry_at_s, f"no step suspends {name}"
                assert transition.moving or self.again_at_s <= retry_at_s
            announced = transition.announced is not None and transition.answers and not transition.acknowledged
            if (
                announced
                and not transition.moving
                and states[name] in (State.RESTING, State.COOPERATING, State.CONTAINED)
            ):
                assert self.again_at_s <= transition.sent_at_s + TIMING.resend_s, f"no step will tell {name} again"

    # From here on without failures

    def come_to_rest(self, choose: Choose, decide_again: bool) -> None:
        """Without failures and news every goal is reached in bounded time, and after that no calls go on."""
        for domain in self.domains.values():
            self.notice(domain)
        chain_s = (len(self.domains) + 2) * (TIMING.deadline_s + 8 * CALL_S)
        in_time_s = self.now_s + RETRY_MOST_S + chain_s
        if any(domain.stopped_by != RUNS for domain in self.domains.values()):
            in_time_s += RETRY_MOST_S  # a suspend may find first that somebody else paused it
        quiet_s = in_time_s + TIMING.unplug_after_s + 1.0
        end_s = quiet_s + 5.0
        rounds = 0
        busy_at_s: dict[str, float] = {}
        while self.now_s < end_s:
            rounds += 1
            assert rounds < 600, "it never comes to rest"
            if decide_again and self.now_s < in_time_s - chain_s:
                self.decide()
            elif any(
                self.goals[name].suspended and domain.stopped_by != RUNS and not self.transitions[name].suspended_by_us
                for name, domain in self.domains.items()
            ):
                self.decide()  # as after the next look: a paused domain has no demand
            self.see_states()
            calls = self.counts["Apply"] + self.counts["Look"] + self.counts["Resize"]
            self.step()
            if calls != self.counts["Apply"] + self.counts["Look"] + self.counts["Resize"]:
                busy_at_s["call"] = self.now_s
            self.check_truth()
            flying = [domain for domain in self.domains.values() if domain.flight is not None]
            heard = [
                domain
                for domain in self.domains.values()
                if domain.guest.manner == "good" and domain.guest.announced and domain.stopped_by != US
            ]
            for domain in flying:
                self.succeed(domain, choose)
            for domain in heard:
                self.acknowledge(domain)
            self.check_truth()
            self.check_overlaps()
            if flying or heard:
                self.now_s += CALL_S
            elif self.again_at_s == float("inf"):
                break
            else:
                self.now_s = max(self.again_at_s, self.now_s)
            if self.now_s >= in_time_s:
                self.check_reached()
        self.check_reached()
        assert busy_at_s.get("call", 0.0) < quiet_s, "calls never end"
        for name, domain in self.domains.items():
            wanted = min(len(self.goals[name].partition), domain.vcpus_maximum)
            assert len(domain.pins) >= wanted or self.transitions[name].vcpus_refused == wanted, (
                f"no vCPU is plugged for {name}, although no plug was refused"
            )
            if domain.guest.manner == "good" and not self.goals[name].suspended:
                assert self.transitions[name].acknowledged
            if domain.guest.manner == "gone":
                assert self.last_announced_s.get(name, 0.0) < quiet_s

    def check_reached(self) -> None:
        for name, domain in self.domains.items():
            transition, goal = self.transitions[name], self.goals[name]
            assert transition.claim == goal.partition, f"{name} has not come to its goal"
            assert transition.suspended_by_us == transition.known_suspended == goal.suspended
            assert domain.stopped_by != RUNS or not transition.known_suspended
            if goal.suspended:
                continue
            assert domain.stopped_by != US and transition.resting == (not goal.partition)
            assert transition.failures == 0 or domain.flight is not None or self.now_s < transition.retry_at_s
            where = goal.partition or transition.treatment.rest_area
            if transition.affinity is not None and transition.vcpus == len(domain.pins) and domain.flight is None:
                assert domain.affinity() == transition.affinity
                assert domain.affinity().reach <= where


def whole(cpus: int, chunk: int) -> int:
    """*cpus*, rounded up to whole chunks."""
    return -(-cpus // chunk) * chunk
