"""The next steps that bring each domain to its partition and nowhere else.

A transition does not follow a script. After each event (a new decision, an acknowledgement, a call that ended or
failed, a deadline), `next_steps` compares the present state with the goal and returns what can be done at once. So a
transition may be interrupted at any point, by a decision or by a domain that ends, and never has to be undone.

Its safety depends on one field, `TransitionState.claim`: every pCPU that a domain's vCPUs may compute on, as far as is
known. It grows before a call that widens pins. It shrinks after a call that narrowed them has succeeded. No domain is
let onto a pCPU that another domain claims. A domain that vscaf has suspended, and that was seen paused since, claims
nothing. Before it is resumed, it claims its partition again and gets its pins there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vscaf.core.reconcile.pins import pinned_alone, vcpu_pins
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
    narrowed,
)
from vscaf.values import State


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a domain: its partition (empty: it rests), and what its guest is told in addition to its size.

    suspended: its partition is empty, and instead of resting it must not run at all.
    """

    partition: frozenset[int]
    limit: int
    competition: bool
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """deadline_s: a guest that has not shrunk after this time is contained. resend_s: an allocation that is not
    acknowledged is sent again after this time.

    unplug_after_s: a vCPU that was not used for this time is unplugged, if that works.
    """

    deadline_s: float
    resend_s: float = 1.0
    unplug_after_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Announcement:
    """Send the guest its size. This takes no time and cannot fail: a guest that does not receive it is contained."""

    domain: str
    announced: AnnouncedSize
    again: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps to take now, with at most one call for each domain.

    transitions, states: the states of all domains once the steps are begun. waits: for each domain that cannot grow
    yet, the domains whose pCPUs it waits for. again_at_s: when to call next_steps again at the latest. memos: see
    next_steps.
    """

    announcements: tuple[Announcement, ...]
    calls: tuple[Action, ...]
    transitions: Mapping[str, TransitionState]
    states: Mapping[str, State]
    waits: Mapping[str, tuple[str, ...]]
    again_at_s: float
    memos: "Mapping[str, StepMemo]"


@dataclass(frozen=True, slots=True)
class StepMemo:
    """A domain that needs no step, as long as these are the same objects."""

    transition: TransitionState
    goal: Goal
    state: State


def next_steps(  # noqa: PLR0917 (what a step depends on)
    transitions: Mapping[str, TransitionState],
    goals: Mapping[str, Goal],
    sharing: frozenset[str],
    now_s: float,
    timing: Timing,
    memos: Mapping[str, StepMemo] = {},
) -> Steps:
    """The steps that can be taken now. Both mappings name the same domains.

    memos: the memos that the last call with this timing returned. They only save work: a domain that needs no step is
    skipped until something about it changes.

    goals: their partitions are disjoint, except those of *sharing*. The order within a domain: a shrink tells the
    guest, waits until it has confirmed or its deadline has passed, and then narrows the pins. A grow widens the pins
    and then tells the guest. A suspend does not ask the guest. A resume comes after the pins are set, and the guest is
    told its size when it runs. Between domains: no domain grows onto a pCPU that another one claims.

    No domain waits for long for one that was never moved to a partition and cannot be. That one may run anywhere, like
    a domain that is not managed, so waiting could last for ever. No domain waits for long for one that is late in
    leaving, because a call on it hangs or fails. The waiting domain then gets the free part of its partition, and the
    rest later.

    Laws: once the claims of two domains are disjoint, they stay so, unless both are in sharing, or the plan must let
    one overlap because there is no free pCPU (TransitionPlan.overlapping). If the calls succeed, a domain leaves pCPUs
    that are not in its goal within deadline_s. Without new events and failures all goals are reached.
    """
    return _Stepper(transitions, goals, sharing, now_s, timing).steps(memos)


_ARRIVED = frozenset({State.RESTING, State.COOPERATING, State.CONTAINED, State.SUSPENDED})


class _Stepper:
    """The working state of one call of next_steps."""

    def __init__(
        self,
        transitions: Mapping[str, TransitionState],
        goals: Mapping[str, Goal],
        sharing: frozenset[str],
        now_s: float,
        timing: Timing,
    ) -> None:
        # A suspended domain leaves a pCPU as soon as the pCPU is not in its goal.
        self.now = {
            name: narrowed(one, goals[name].partition)
            if one.known_suspended and not one.moving and not one.claim <= goals[name].partition
            else one
            for name, one in transitions.items()
        }
        self.sharing = sharing
        self.now_s = now_s
        self.timing = timing
        self.announcements: list[Announcement] = []
        self.calls: list[Action] = []
        self.states: dict[str, State] = {}
        self.waits: dict[str, tuple[str, ...]] = {}
        self.again_at_s = float("inf")
        self.begun_count = 0
        """How many announcements, calls and times to ask again there were so far."""
        self.goals = self.without_overdue(goals)
        target = {name: goal.partition for name, goal in self.goals.items()}
        self.transition_plan = plan({name: one.claim for name, one in self.now.items()}, target, sharing)

    def without_overdue(self, goals: Mapping[str, Goal]) -> Mapping[str, Goal]:
        """The goals, without the pCPUs that another domain still claims long after it should have left them."""
        late: set[int] = set()
        for name, transition in self.now.items():
            goal = goals[name]
            since_s = transition.overdue_since_s
            if transition.claim is goal.partition or transition.claim <= goal.partition:
                since_s = None
            elif since_s is None:
                since_s = self.now_s
            if since_s != transition.overdue_since_s:
                self.now[name] = replace(transition, overdue_since_s=since_s)
            if since_s is not None and transition.placed and self.now_s >= self.late_at_s(since_s):
                late |= transition.claim - goal.partition
        if not late:
            return goals
        free = {
            name: goal.partition - (late - self.now[name].claim)
            for name, goal in goals.items()
            if not late.isdisjoint(goal.partition) and name not in self.sharing
        }
        return {name: replace(goal, partition=free[name]) if free.get(name) else goal for name, goal in goals.items()}

    def late_at_s(self, since_s: float) -> float:
        """When a domain that should leave pCPUs since *since_s* is late: one deadline for the guest, one for calls."""
        return since_s + 2.0 * self.timing.deadline_s

    def steps(self, memos: Mapping[str, StepMemo]) -> Steps:
        keeps = {shrink.domain: shrink.keep for shrink in self.transition_plan.shrinks}
        grows = [grow.domain for grow in self.transition_plan.grows]
        growing = set(grows)
        kept: dict[str, StepMemo] = {}
        for name in sorted(self.now):
            transition, goal = self.now[name], self.goals[name]
            known, begun_before = memos.get(name), self.begun_count
            if known is not None and known.transition is transition and known.goal is goal:
                self.states[name], kept[name] = known.state, known
                continue
            if transition.affinity is None or transition.vcpus != len(transition.affinity.vcpus):
                self.look(name)
            elif goal.suspended:
                self.suspend(name)
            elif not goal.partition:
                self.rest(name)
            elif transition.moving_to == goal.partition:
                self.arrive(name)
            elif name in keeps:
                self.shrink(name, keeps[name])
            elif name not in growing:
                self.settle(name)
            # The steps so far depend only on the domain itself. As long as it claims exactly its partition, no other
            # domain affects it.
            in_place = transition.claim == goal.partition
            if in_place and self.begun_count == begun_before and self.now[name] is transition:
                kept[name] = StepMemo(transition, goal, self.states[name])
        for name in grows:
            if name not in self.states:
                self.grow(name)
        for name, state in self.states.items():
            self.reset_failures(name, state)
        return Steps(
            tuple(self.announcements), tuple(self.calls), self.now, self.states, self.waits, self.again_at_s, kept
        )

    def reset_failures(self, name: str, state: State) -> None:
        """Forgets failures once there is nothing to try again. A successful look is not enough for that."""
        transition = self.now[name]
        idle = not transition.moving and self.now_s >= transition.retry_at_s
        if transition.failures and idle and state in _ARRIVED:
            self.now[name] = replace(transition, failures=0, retry_at_s=float("-inf"))

    def look(self, name: str) -> None:
        """Its pins are unknown: reads them before any other step."""
        self.states[name] = State.UNKNOWN
        self.begin(Look(name))

    def suspend(self, name: str) -> None:
        """Suspends it. The guest is not asked, because it needs to do nothing. If the suspend fails, it rests."""
        transition = self.staying(name)
        if transition.known_suspended:
            self.states[name] = State.SUSPENDED
            return
        if transition.suspend_backoff.failures:
            self.rest(name)
        if transition.suspend_backoff.due(self.now_s):
            self.begin(Suspend(name, transition.suspended_by_us))
        else:
            self.again(transition.suspend_backoff.retry_at_s)
        self.states[name] = State.SHRINKING

    def resume(self, name: str) -> None:
        """Sets the pins to the partition that it claims, then resumes it. A suspended guest is told nothing."""
        self.states[name] = State.GROWING
        transition, partition = self.now[name], self.goals[name].partition
        wanted = self.placed(transition, partition)
        if transition.affinity != wanted or transition.resting or transition.meant_to_rest:
            self.begin(Apply(name, partition, wanted))
        else:
            self.begin(Resume(name))

    def rest(self, name: str) -> None:
        """Moves its vCPUs to the rest area, because it has no demand. Then its pCPUs are free. Waits for nothing."""
        transition = self.now[name]
        self.states[name] = State.RESTING if transition.resting else State.SHRINKING
        if transition.suspended_by_us:
            self.states[name] = State.GROWING
        self.announce(name, 0)
        transition = self.staying(name)
        treatment = transition.treatment
        assert transition.affinity is not None  # as steps() has seen
        pins = vcpu_pins(treatment.rest_area, transition.affinity.vcpus, None, cooperating=False)
        wanted = self.affinity(transition, pins, treatment.emulator_area or treatment.rest_area, treatment.rest_shares)
        if not transition.resting or transition.affinity != wanted:
            self.begin(Apply(name, frozenset(), wanted))
            return
        if transition.claim and not transition.moving:
            # All its vCPUs are known to be at rest. So the pCPUs that a failed grow had claimed are free again.
            self.now[name] = replace(transition, claim=frozenset())
        if transition.suspended_by_us and not self.goals[name].suspended:
            self.begin(Resume(name))

    def shrink(self, name: str, keep: frozenset[int]) -> None:
        """Makes it leave pCPUs: first the guest is told, and at the deadline the domain is contained."""
        self.states[name] = State.SHRINKING
        transition = self.now[name]
        if transition.leaving_since_s is None:
            transition = self.now[name] = replace(transition, leaving_since_s=self.now_s)
        # If it moves on the way, it may keep more pCPUs than it has now. It is told the larger size when it is there.
        self.announce(name, min(len(keep), len(transition.claim)))
        transition = self.now[name]
        assert transition.leaving_since_s is not None  # set above
        deadline_s = transition.leaving_since_s + self.timing.deadline_s
        if transition.answers and not transition.acknowledged and self.now_s < deadline_s:
            self.again(deadline_s)
        elif holders := self.holders(name, keep - transition.claim):
            self.waits[name] = holders
        else:
            self.begin(Apply(name, keep, self.placed(transition, keep)))

    def grow(self, name: str) -> None:
        """Gives it pCPUs once no other domain claims them: first the pins, then the guest is told."""
        self.states[name] = State.GROWING
        self.staying(name)
        partition = self.goals[name].partition
        if holders := self.holders(name, partition - self.now[name].claim):
            self.waits[name] = holders
            for holder in holders:
                since_s = self.now[holder].overdue_since_s
                if since_s is not None and self.now_s < self.late_at_s(since_s):
                    self.again(self.late_at_s(since_s))
            return
        transition = self.now[name]
        assert transition.affinity is not None  # as steps() has seen
        if transition.known_suspended:  # its guest does not change meanwhile, so its final pins can be set at once
            wanted = self.placed(transition, partition)
            if transition.affinity != wanted or transition.resting or transition.meant_to_rest:
                self.begin(Apply(name, partition, wanted))
            else:
                self.now[name] = replace(transition, claim=partition, latent_claim=frozenset())
                self.begin(Resume(name))
            return
        pins = vcpu_pins(partition, transition.affinity.vcpus, None, cooperating=False)
        emulator = transition.treatment.emulator_area or partition
        self.begin(Apply(name, partition, self.affinity(transition, pins, emulator, transition.treatment.shares)))

    def staying(self, name: str) -> TransitionState:
        """Notes that it has no pCPUs to leave, or that no other domain waits for it."""
        if self.now[name].leaving_since_s is not None:
            self.now[name] = replace(self.now[name], leaving_since_s=None)
        return self.now[name]

    def used(self, name: str) -> None:
        """Notes that it has no unused vCPU."""
        if self.now[name].unused_since_s is not None:
            self.now[name] = replace(self.now[name], unused_since_s=None)

    def arrive(self, name: str) -> None:
        """It is being moved to its partition. Its guest is told a larger size when it is there."""
        self.states[name] = State.GROWING if self.now[name].leaving_since_s is None else State.SHRINKING

    def settle(self, name: str) -> None:
        """Fits guest, pins and vCPUs to its partition, which is exactly what it claims."""
        goal = self.goals[name]
        if self.staying(name).suspended_by_us:
            self.resume(name)
            return
        self.announce(name, len(goal.partition))
        transition = self.now[name]
        affinity = transition.affinity
        assert affinity is not None  # as steps() has seen
        if not transition.placed and affinity.reach <= goal.partition:  # although a call for it failed
            transition = self.now[name] = replace(transition, placed=True)
        wanted = self.placed(transition, goal.partition)
        due_s = transition.announced_at_s + self.timing.deadline_s
        if transition.answers and not transition.acknowledged and self.now_s < due_s:
            # Its answer may still come. Until then its present pins are right.
            self.again(due_s)
            own = self.pins(transition, goal.partition, cooperating=True)
            self.states[name] = State.COOPERATING if affinity.vcpus == own else State.GROWING
            if transition.resting or not affinity.reach <= goal.partition:
                self.begin(Apply(name, goal.partition, wanted))
            return
        self.states[name] = State.COOPERATING if transition.cooperates(goal.partition) else State.CONTAINED
        if transition.resting or affinity != wanted:
            self.begin(Apply(name, goal.partition, wanted))
        else:
            self.resize(name)

    def resize(self, name: str) -> None:
        """Plugs vCPUs up to the size of the partition. Unplugs vCPUs that were not used for long, if that works."""
        transition = self.now[name]
        size = len(self.goals[name].partition)
        wanted = min(size, transition.vcpus_maximum)
        if transition.vcpus < wanted:
            self.used(name)
            self.begin_resize(name, wanted)
            return
        fewest = max(size, transition.treatment.vcpus_found)
        if not transition.treatment.unplug or transition.vcpus <= fewest:
            self.used(name)
            return
        if transition.unused_since_s is None:
            self.now[name] = replace(transition, unused_since_s=self.now_s)
        due_s = (
            self.now_s if transition.unused_since_s is None else transition.unused_since_s
        ) + self.timing.unplug_after_s
        if self.now_s < due_s:
            self.again(due_s)
        else:
            self.begin_resize(name, fewest)

    def begin_resize(self, name: str, vcpus: int) -> None:
        """Begins to plug or unplug, unless that was refused, or the wait after no answer has not passed."""
        transition = self.now[name]
        if vcpus == transition.vcpus_refused:
            return
        if transition.resize_backoff.due(self.now_s):
            self.begin(Resize(name, vcpus))
        else:
            self.again(transition.resize_backoff.retry_at_s)

    def announce(self, name: str, cpus: int) -> None:
        """Tells the guest its size if it is new, or if the guest has not confirmed it for resend_s."""
        transition, goal = self.now[name], self.goals[name]
        announced = AnnouncedSize(cpus, goal.limit, goal.competition)
        if transition.suspended_by_us:
            return  # it does not run, or perhaps not
        if transition.moving_to is not None and cpus > (
            transition.announced.cpus if transition.announced is not None else 0
        ):
            return  # it is told a larger size only when its pins are there
        again = announced == transition.announced
        if again and (transition.acknowledged or not transition.answers):
            return
        if again and self.now_s < transition.sent_at_s + self.timing.resend_s:
            self.again(transition.sent_at_s + self.timing.resend_s)
            return
        self.begun_count += 1
        self.announcements.append(Announcement(name, announced, again))
        if transition.answers:
            self.again(self.now_s + self.timing.resend_s)
        announced_at_s = transition.announced_at_s if again else self.now_s
        self.now[name] = replace(
            transition, announced=announced, announced_at_s=announced_at_s, sent_at_s=self.now_s, acknowledged=False
        )

    def placed(self, transition: TransitionState, partition: frozenset[int]) -> Affinity:
        """Its affinity on *partition*: each vCPU on its own pCPU if it cooperates, else all vCPUs over all pCPUs."""
        pins = self.pins(transition, partition, cooperating=transition.cooperates(partition))
        return self.affinity(
            transition, pins, transition.treatment.emulator_area or partition, transition.treatment.shares
        )

    @staticmethod
    def pins(
        transition: TransitionState, partition: frozenset[int], *, cooperating: bool
    ) -> Mapping[int, frozenset[int]]:
        assert transition.affinity is not None  # as steps() has seen
        return vcpu_pins(
            partition,
            transition.affinity.vcpus,
            transition.online,
            cooperating=cooperating,
            guest=transition.guest,
            layout=transition.treatment.layout,
            before=transition.last_cpu or pinned_alone(transition.affinity.vcpus),
        )

    @staticmethod
    def affinity(
        transition: TransitionState, pins: Mapping[int, frozenset[int]], emulator: frozenset[int], shares: int | None
    ) -> Affinity:
        assert transition.affinity is not None  # known before anything is planned
        iothreads = dict.fromkeys(transition.affinity.iothreads, emulator)
        shares = None if transition.affinity.shares is None else shares
        return Affinity(pins, emulator, iothreads, shares, transition.affinity.online)

    def holders(self, name: str, cpus: frozenset[int]) -> tuple[str, ...]:
        """The other domains that claim some of *cpus* and must leave them first."""
        if not cpus:
            return ()
        return tuple(
            other
            for other in sorted(self.now)
            if other != name
            and not cpus.isdisjoint(self.now[other].claim)
            and not {name, other} <= self.sharing
            and other not in self.transition_plan.overlapping
            and not self.placement_overdue(other)
        )

    def placement_overdue(self, name: str) -> bool:
        """Whether it is still where it was found, although there was time to move it."""
        transition = self.now[name]
        if transition.placed:
            return False
        due_s = self.late_at_s(transition.found_at_s)
        if transition.failures or self.now_s >= due_s:
            return True
        self.again(due_s)
        return False

    def begin(self, call: Action) -> None:
        """Begins *call*, unless a call is under way or the wait after a failure has not passed."""
        transition = self.now[call.domain]
        if transition.moving:
            return
        if self.now_s < transition.retry_at_s:
            self.again(transition.retry_at_s)
            return
        self.begun_count += 1
        self.calls.append(call)
        transition = replace(transition, moving=True)
        if isinstance(call, Apply):
            transition = replace(
                transition,
                claim=transition.claim | call.partition,
                moving_to=call.partition if transition.resting or transition.claim != call.partition else None,
                meant_to_rest=transition.meant_to_rest or not call.partition,
            )
        elif isinstance(call, Suspend):
            transition = replace(transition, suspended_by_us=True)
        elif isinstance(call, Resume):
            transition = replace(
                transition, known_suspended=False, latent_claim=frozenset()
            )  # its pins are within its claim
        self.now[call.domain] = transition

    def again(self, at_s: float) -> None:
        self.begun_count += 1
        self.again_at_s = min(self.again_at_s, at_s)
