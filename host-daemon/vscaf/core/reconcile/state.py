"""The state of one domain's transition to its partition, and how the outcome of a call changes that state.

The calls (`Apply`, `Look`, `Resize`, `Suspend`, `Resume`) are plain values. steps.py decides which calls to make. The
caller reports their outcome with `on_done`, `on_read`, `on_suspended`, `on_resumed` or `on_failed`.

A suspended domain computes nowhere, so it claims nothing. The pCPUs that it would compute on if somebody resumed it are
its `latent_claim`. They become its claim as soon as somebody resumes it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vscaf.core.backoff import Backoff, wait_s
from vscaf.core.reconcile.pins import UNKNOWN, HostLayout, pinned_alone
from vscaf.values import GuestTopology

LOST_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a domain's threads may run, and its CPU weight: everything that the host changes of it, except its vCPUs.

    vcpus: pins by vCPU. iothreads: pins by I/O thread. shares: cgroup weight; None: this host has no controller.
    online: see DomainSettings, as of the last reading.
    """

    vcpus: Mapping[int, frozenset[int]]
    emulator: frozenset[int]
    iothreads: Mapping[int, frozenset[int]] = field(default_factory=dict)
    shares: int | None = None
    online: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def reach(self) -> frozenset[int]:
        """The pCPUs that some vCPU may run on."""
        return frozenset().union(*set(self.vcpus.values()))  # many vCPUs have equal pins: each set is used once


@dataclass(frozen=True, slots=True)
class Treatment:
    """How a domain is treated, according to the configuration and the found settings.

    rest_area: pCPUs that its vCPUs float over while it rests. rest_shares, shares: its weight while it rests, and
    otherwise. emulator_area: pCPUs of its emulator and I/O threads; empty: its partition. unplug: whether a vCPU that
    was not used for long may be unplugged, down to vcpus_found. layout: the host's cores.
    """

    rest_area: frozenset[int]
    rest_shares: int | None
    shares: int | None
    emulator_area: frozenset[int]
    vcpus_found: int
    unplug: bool = False
    layout: HostLayout = UNKNOWN


@dataclass(frozen=True, slots=True)
class AnnouncedSize:
    """The size that the guest was told. limit: the most pCPUs that may ever come. competition: others want pCPUs."""

    cpus: int
    limit: int
    competition: bool


@dataclass(frozen=True, slots=True)
class TransitionState:
    """The known state of one domain. steps.py explains what a claim is."""

    name: str
    vcpus: int
    """vCPUs that are plugged now."""
    vcpus_maximum: int
    treatment: Treatment
    claim: frozenset[int]
    """Empty only while it rests, or while it is suspended."""
    affinity: Affinity | None
    """As last read or set. None: unknown. It is then read before anything else is done."""
    resting: bool = False
    moving: bool = False
    """A call is under way. No other call is begun before it has ended."""
    moving_to: frozenset[int] | None = None
    """The partition that this call moves it to, if that differs from the partition that it claims."""
    answers: bool = False
    """An agent is there and reports."""
    acknowledged: bool = False
    """The agent has confirmed the size that was announced last."""
    online: tuple[int, ...] | None = None
    """The vCPUs of the guest that are online, as its agent reports."""
    announced: AnnouncedSize | None = None
    announced_at_s: float = float("-inf")
    """When that size was announced first."""
    sent_at_s: float = float("-inf")
    """When that size was announced last."""
    leaving_since_s: float | None = None
    """Since when it has had pCPUs to leave."""
    meant_to_rest: bool = False
    """It was meant to rest, and has had no partition since. vCPUs that are at rest already claim nothing new."""
    failures: int = 0
    """Failed calls in a row."""
    retry_at_s: float = float("-inf")
    """No call is begun before this time."""
    suspend_backoff: Backoff = field(default_factory=Backoff)
    """Failed suspends in a row. They delay the next suspend, and no other call."""
    vcpus_refused: int | None = None
    """A number of vCPUs that was asked for and was not reached. It is not asked for again."""
    resize_backoff: Backoff = field(default_factory=Backoff)
    """Plugs or unplugs in a row that got no answer. They delay the next one, and no other call."""
    unused_since_s: float | None = None
    """Since when it has had more vCPUs than its partition has pCPUs."""
    suspended_by_us: bool = False
    """vscaf has begun to suspend it, and has not seen it resumed since. So vscaf has to resume it."""
    known_suspended: bool = False
    """It is suspended_by_us and was seen paused. No call to resume it has been begun since."""
    latent_claim: frozenset[int] = frozenset()
    """While it is known_suspended: the pCPUs outside its claim that its vCPUs may be pinned to."""
    guest: GuestTopology | None = None
    """The CPU topology that the guest sees. None: each vCPU is a core."""
    last_cpu: Mapping[int, int] = field(default_factory=dict)
    """The pCPU of its partition that each vCPU last had to itself."""
    placed: bool = True
    """vscaf has once moved its threads to some partition. Until then they are where they were found."""
    found_at_s: float = float("-inf")
    """When it was found there."""
    overdue_since_s: float | None = None
    """Since when it has claimed pCPUs that are not in its goal."""
    affinity_before: Affinity | None = None
    """While the affinity is unknown only because a look failed: what it was before. vscaf has changed nothing since."""

    @property
    def last_affinity(self) -> Affinity | None:
        """The affinity if only somebody else has changed it. None: vscaf may have changed it."""
        return self.affinity if self.affinity is not None else self.affinity_before

    @property
    def lost(self) -> bool:
        """Whether several calls on it in a row have failed, so that it is unknown where it runs."""
        return self.affinity is None and self.failures >= LOST_FAILURES

    @property
    def occupied(self) -> frozenset[int]:
        """The pCPUs that vscaf's pins let its vCPUs compute on, also if somebody else resumes it.

        Empty for a domain that was never moved to a partition: it may run anywhere.
        """
        if not self.placed:
            return frozenset()
        return self.claim | self.latent_claim if self.latent_claim else self.claim

    def kept_while_lost(self, meant: frozenset[int]) -> frozenset[int]:
        """The pCPUs that no other domain gets while it is lost: all that it may run on.

        A domain that was never moved to a partition may run anywhere. It keeps what it was *meant* to have.
        """
        return self.claim if self.placed else meant

    def cooperates(self, partition: frozenset[int]) -> bool:
        """Whether the guest has confirmed what it was told and has no more CPUs online than *partition* has pCPUs."""
        online = self.online
        return self.answers and self.acknowledged and online is not None and len(online) <= len(partition)


@dataclass(frozen=True, slots=True)
class Apply:
    """Set `affinity`. The domain then holds `partition` (empty: it rests)."""

    domain: str
    partition: frozenset[int]
    affinity: Affinity


@dataclass(frozen=True, slots=True)
class Look:
    """Read how many vCPUs and what affinity the domain has."""

    domain: str


@dataclass(frozen=True, slots=True)
class Resize:
    """Plug vCPUs, or unplug some, until there are `vcpus`."""

    domain: str
    vcpus: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend the domain. again: an earlier try may have succeeded, so if it is paused, vscaf has paused it."""

    domain: str
    again: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume the domain, which vscaf has suspended."""

    domain: str


Action = Apply | Look | Resize | Suspend | Resume


def on_found_meant_to_rest(transition: TransitionState) -> TransitionState:
    """The state of a domain that an earlier daemon meant to rest, which it may have done only in part, or not at all.

    A vCPU with other pins than those at rest may compute on them, so they are claimed.
    """
    assert transition.affinity is not None  # it was read just now
    pins = transition.affinity.vcpus.values()
    claim = frozenset[int]().union(*(cpus for cpus in pins if cpus != transition.treatment.rest_area))
    return replace(transition, claim=claim, resting=not claim, meant_to_rest=True)


def on_treatment(
    transition: TransitionState, treatment: Treatment, added: frozenset[int] = frozenset()
) -> TransitionState:
    """The state once another treatment is in force. added: pCPUs that have just come to the pool.

    A domain at rest still runs on those of them that its rest area had before. It claims them until it has moved.
    """
    left = (transition.treatment.rest_area - treatment.rest_area) & added
    transition = replace(transition, treatment=treatment)
    if not left or not (transition.resting or transition.meant_to_rest):
        return transition
    if transition.known_suspended:
        return replace(transition, latent_claim=transition.latent_claim | left)
    return replace(transition, claim=transition.claim | left)


def on_done(transition: TransitionState, call: Apply | Resize) -> TransitionState:
    """The state after *call* succeeded. After a resize, a look reads how many vCPUs there are."""
    transition = replace(transition, moving=False, moving_to=None, failures=0, retry_at_s=float("-inf"))
    if isinstance(call, Resize):
        # An unplug may never complete. It is asked for only once, until a look shows that it has completed.
        return replace(transition, affinity=None, vcpus_refused=call.vcpus, resize_backoff=Backoff())
    return replace(
        transition,
        claim=call.partition,
        affinity=call.affinity,
        resting=not call.partition,
        meant_to_rest=False,
        leaving_since_s=None,
        latent_claim=frozenset(),
        last_cpu=_last_cpu(transition, call),
        placed=True,
    )


def _last_cpu(transition: TransitionState, call: Apply) -> Mapping[int, int]:
    """Where each vCPU last had a pCPU to itself, once *call* is done. Where it rests does not count."""
    known = dict(transition.last_cpu)
    if transition.affinity is not None and not transition.resting:
        known.update(pinned_alone(transition.affinity.vcpus))
    if call.partition:
        known.update(pinned_alone(call.affinity.vcpus))
    return known


def on_suspended(transition: TransitionState) -> TransitionState:
    """The state after a Suspend, once the domain was seen paused and vscaf's suspend is the only possible cause."""
    return narrowed(
        replace(
            transition,
            moving=False,
            moving_to=None,
            failures=0,
            retry_at_s=float("-inf"),
            suspend_backoff=Backoff(),
            leaving_since_s=None,
            suspended_by_us=True,
            known_suspended=True,
        ),
        frozenset(),
    )


def narrowed(transition: TransitionState, keep: frozenset[int]) -> TransitionState:
    """The state of a suspended domain that claims at most *keep*. It runs nowhere, so it has left all other pCPUs."""
    return replace(
        transition, claim=transition.claim & keep, latent_claim=transition.latent_claim | (transition.claim - keep)
    )


def on_resumed(transition: TransitionState, now_s: float) -> TransitionState:
    """The state after a Resume: the domain runs, or it is paused for a reason that is not vscaf's.

    Its guest could not answer before, so the announced size counts as announced now.
    """
    return replace(
        transition,
        moving=False,
        moving_to=None,
        failures=0,
        retry_at_s=float("-inf"),
        suspended_by_us=False,
        announced_at_s=now_s,
    )


def on_external_resume(transition: TransitionState) -> TransitionState:
    """The state once a suspended domain was seen to run: somebody else has resumed it, and it computes."""
    claim = transition.claim | transition.latent_claim
    return replace(transition, suspended_by_us=False, known_suspended=False, claim=claim, latent_claim=frozenset())


def on_read(transition: TransitionState, vcpus: int, affinity: Affinity) -> TransitionState:
    """The state after a look has read *affinity*, with the pins of all *vcpus*.

    A domain that rests, or was meant to, may run on its rest area without claiming it: it claims nothing new.
    """
    at_rest = transition.resting or transition.meant_to_rest
    if transition.known_suspended:
        reach = affinity.reach & transition.latent_claim if at_rest else affinity.reach
        claim, latent = transition.claim, reach - transition.claim
    else:
        claim, latent = affinity.reach & transition.claim if at_rest else affinity.reach, frozenset[int]()
    came_about = vcpus == transition.vcpus_refused or vcpus != transition.vcpus
    return replace(
        transition,
        moving=False,
        moving_to=None,
        vcpus=vcpus,
        affinity=affinity,
        affinity_before=None,
        claim=claim,
        latent_claim=latent,
        vcpus_refused=None if came_about else transition.vcpus_refused,
    )


def on_failed(
    transition: TransitionState, call: Action, now_s: float, *, begun: bool = True, answered: bool = True
) -> TransitionState:
    """The state after *call* failed. Its effect is unknown: the change may be done, done in part, or not done.

    The claim stays as wide as it was made when the call began. The next call waits, longer after each failure.

    begun: False: it is known that nothing was changed. answered: False: the failure says nothing about what was asked
    for, so a number of vCPUs may be asked for again.
    """
    if isinstance(call, Suspend):  # it does not affect the pins, so the domain can rest, and can have its turn
        return replace(
            transition,
            moving=False,
            moving_to=None,
            suspend_backoff=transition.suspend_backoff.failed(now_s),
            suspended_by_us=transition.suspended_by_us if begun else call.again,
        )
    if isinstance(call, Resume):  # it does not affect its pins either
        return replace(
            transition,
            moving=False,
            moving_to=None,
            failures=transition.failures + 1,
            retry_at_s=now_s + wait_s(transition.failures),
        )
    refused = transition.vcpus_refused
    if isinstance(call, Resize) and answered:
        refused = call.vcpus
    elif isinstance(call, Resize):
        transition = replace(transition, resize_backoff=transition.resize_backoff.failed(now_s))
        if not begun:
            return replace(transition, moving=False, moving_to=None)
    return replace(
        transition,
        moving=False,
        moving_to=None,
        affinity=None,
        affinity_before=transition.last_affinity if isinstance(call, Look) else None,
        failures=transition.failures + 1,
        retry_at_s=now_s if isinstance(call, Resize) else now_s + wait_s(transition.failures),
        vcpus_refused=refused,
    )
