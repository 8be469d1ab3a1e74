"""What is known of one domain's way to its partition, and what a call on it that ended adds to that.

The calls themselves (`Apply`, `Look`, `Resize`, `Suspend`, `Resume`) are plain values: `core.transition` says which to
make, and whoever makes them brings what came of it back by `finished`, `looked`, `suspended`, `resumed` or `failed`.

A domain that vscaf has suspended computes nowhere, so it claims nothing: what it would compute on if somebody resumed
it is kept as `dormant`, and becomes its claim again the moment that somebody does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from vscaf.core.backoff import wait_s
from vscaf.core.pins import UNKNOWN, Guest, HostLayout, pinned_alone

LOST_FAILURES = 2


class State(StrEnum):
    """What a managed domain is doing, in a word."""

    RESTING = "resting"
    COOPERATING = "cooperating"
    CONTAINED = "contained"
    SHRINKING = "shrinking"
    GROWING = "growing"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a domain's threads may run, and its CPU weight: all that is changed of it from the host's side.

    vcpus: pins by vCPU. iothreads: pins by I/O thread. shares: cgroup weight; None: this host has no controller.
    """

    vcpus: Mapping[int, frozenset[int]]
    emulator: frozenset[int]
    iothreads: Mapping[int, frozenset[int]] = field(default_factory=dict)
    shares: int | None = None

    @property
    def reach(self) -> frozenset[int]:
        """The pCPUs that some vCPU may run on."""
        return frozenset().union(*set(self.vcpus.values()))  # many have the same: each is gone through once


@dataclass(frozen=True, slots=True)
class Ways:
    """How a domain is treated, by configuration and by what was found.

    rest_area: pCPUs that its vCPUs float over while it rests. rest_shares, shares: its weight then and otherwise.
    emulator_area: pCPUs of its emulator and I/O threads; empty: its partition. unplug: whether a vCPU that has been of
    no use for long may be unplugged, down to vcpus_found. layout: the host's cores.
    """

    rest_area: frozenset[int]
    rest_shares: int | None
    shares: int | None
    emulator_area: frozenset[int]
    vcpus_found: int
    unplug: bool = False
    layout: HostLayout = UNKNOWN


@dataclass(frozen=True, slots=True)
class Told:
    """What the guest was told last. limit: the most pCPUs that may ever come. competition: others want pCPUs."""

    cpus: int
    limit: int
    competition: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """One domain, as far as is known.

    claim: see core/transition.py; empty only while it rests or is frozen. affinity: as last read or set; None:
    unknown, and to be read before anything else. vcpus, vcpus_maximum: plugged now, and at most. moving: a call is
    under way; nothing is begun before it has ended. onto: the partition that this call brings it to, where it claims
    another now. answers: an agent is there and reports. acknowledged: it has confirmed what it was told last. online:
    the guest's CPUs as its agent says. told_at_s, sent_at_s: when it was told that first, and when last.
    leaving_since_s: since when it has had pCPUs to leave. retiring: it was meant to rest and has had no partition
    since, so that vCPUs which are at rest already claim nothing new. failures: in a row, so that no call is begun
    before retry_at_s. vcpus_refused: a number of vCPUs that was asked for and has not come about. unused_since_s:
    since when it has had more vCPUs than its partition has pCPUs. ours: vscaf has begun to suspend it and has not seen
    it resumed since, so that it is for vscaf to resume. frozen: it is ours and was seen paused, and no call has been
    begun to let it run. dormant: while it is frozen, the pCPUs beside its claim that its vCPUs are pinned to for all
    that is known. guest: the CPUs as the guest is shown them, None: each vCPU is a core. last_cpu: the pCPU of its
    partition that each vCPU last had to itself. placed: its threads were brought somewhere by vscaf once; until then
    they are where they were found, at the time found_at_s. overstays_since_s: since when it has claimed pCPUs that its
    goal lacks.
    """

    name: str
    vcpus: int
    vcpus_maximum: int
    ways: Ways
    claim: frozenset[int]
    affinity: Affinity | None
    resting: bool = False
    moving: bool = False
    onto: frozenset[int] | None = None
    answers: bool = False
    acknowledged: bool = False
    online: tuple[int, ...] | None = None
    told: Told | None = None
    told_at_s: float = float("-inf")
    sent_at_s: float = float("-inf")
    leaving_since_s: float | None = None
    retiring: bool = False
    failures: int = 0
    retry_at_s: float = float("-inf")
    vcpus_refused: int | None = None
    unused_since_s: float | None = None
    ours: bool = False
    frozen: bool = False
    dormant: frozenset[int] = frozenset()
    guest: Guest | None = None
    last_cpu: Mapping[int, int] = field(default_factory=dict)
    placed: bool = True
    found_at_s: float = float("-inf")
    overstays_since_s: float | None = None

    @property
    def lost(self) -> bool:
        """Whether calls on it have failed in a row, so that nobody knows where it runs."""
        return self.affinity is None and self.failures >= LOST_FAILURES

    def cooperates(self, partition: frozenset[int]) -> bool:
        """Whether the guest has confirmed what it was told and has no more CPUs online than *partition* has pCPUs."""
        online = self.online
        return self.answers and self.acknowledged and online is not None and len(online) <= len(partition)


@dataclass(frozen=True, slots=True)
class Apply:
    """Bring `affinity` about; the domain then holds `partition` (empty: it rests)."""

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
    """Stop all vCPUs. again: an earlier try may have come about, so that one who is paused was paused by vscaf."""

    domain: str
    again: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Let the domain run that vscaf has suspended."""

    domain: str


Call = Apply | Look | Resize | Suspend | Resume


def left_behind(standing: Standing) -> Standing:
    """What is known of a domain that an earlier daemon meant to rest. It may not have come to that, or not wholly.

    A vCPU with other pins than those at rest computes on them for all that is known, so they are claimed.
    """
    assert standing.affinity is not None  # it was read just now
    pins = standing.affinity.vcpus.values()
    astray = frozenset[int]().union(*(cpus for cpus in pins if cpus != standing.ways.rest_area))
    return replace(standing, claim=astray, resting=not astray, retiring=True)


def finished(standing: Standing, call: Apply | Resize) -> Standing:
    """What is known after *call* succeeded. A resize is followed by a look: how many vCPUs came of it is read."""
    standing = replace(standing, moving=False, onto=None, failures=0, retry_at_s=float("-inf"))
    if isinstance(call, Resize):
        # An unplug that libvirt has begun may never complete: asked for once, until a look shows that it came about.
        return replace(standing, affinity=None, vcpus_refused=call.vcpus)
    return replace(
        standing,
        claim=call.partition,
        affinity=call.affinity,
        resting=not call.partition,
        retiring=False,
        leaving_since_s=None,
        dormant=frozenset(),
        last_cpu=_last_cpu(standing, call),
        placed=True,
    )


def _last_cpu(standing: Standing, call: Apply) -> Mapping[int, int]:
    """Where each vCPU last had a pCPU to itself, once *call* is done. Where it rests does not count."""
    known = dict(standing.last_cpu)
    if standing.affinity is not None and not standing.resting:
        known.update(pinned_alone(standing.affinity.vcpus))
    if call.partition:
        known.update(pinned_alone(call.affinity.vcpus))
    return known


def suspended(standing: Standing) -> Standing:
    """What is known after a Suspend, once the domain was seen paused and no other pause can be meant."""
    return relinquished(
        replace(
            standing,
            moving=False,
            onto=None,
            failures=0,
            retry_at_s=float("-inf"),
            leaving_since_s=None,
            ours=True,
            frozen=True,
        ),
        frozenset(),
    )


def relinquished(standing: Standing, keep: frozenset[int]) -> Standing:
    """A frozen domain that claims *keep* at most: it runs nowhere, so it has left the rest."""
    return replace(standing, claim=standing.claim & keep, dormant=standing.dormant | (standing.claim - keep))


def resumed(standing: Standing, now_s: float) -> Standing:
    """What is known after a Resume: the domain runs, or it is paused for a reason that is not vscaf's.

    Its guest could not answer before, so what it was told counts as told now.
    """
    return replace(standing, moving=False, onto=None, failures=0, retry_at_s=float("-inf"), ours=False, told_at_s=now_s)


def woken(standing: Standing) -> Standing:
    """What is known once a frozen domain was seen to run: somebody else has resumed it, and it computes."""
    claim = standing.claim | standing.dormant
    return replace(standing, ours=False, frozen=False, claim=claim, dormant=frozenset())


def looked(standing: Standing, vcpus: int, affinity: Affinity) -> Standing:
    """What is known after a look: *affinity*, with the pins of all *vcpus*.

    Who rests, or was on its way to, may run on its rest area without claiming it: it claims nothing new.
    """
    at_rest = standing.resting or standing.retiring
    if standing.frozen:
        astray = affinity.reach & standing.dormant if at_rest else affinity.reach
        claim, dormant = standing.claim, astray - standing.claim
    else:
        claim, dormant = affinity.reach & standing.claim if at_rest else affinity.reach, frozenset[int]()
    came_about = vcpus == standing.vcpus_refused or vcpus != standing.vcpus
    return replace(
        standing,
        moving=False,
        onto=None,
        vcpus=vcpus,
        affinity=affinity,
        claim=claim,
        dormant=dormant,
        vcpus_refused=None if came_about else standing.vcpus_refused,
    )


def failed(standing: Standing, call: Call, now_s: float) -> Standing:
    """What is known after *call* failed: nothing of what it was to change, which may be done, in part or not at all.

    The claim stays as wide as it was made when the call began. The next call waits, longer after each failure.
    """
    if isinstance(call, Suspend | Resume):  # neither changes what is known of its pins
        return replace(
            standing,
            moving=False,
            onto=None,
            failures=standing.failures + 1,
            retry_at_s=now_s + wait_s(standing.failures),
        )
    refused = call.vcpus if isinstance(call, Resize) else standing.vcpus_refused
    return replace(
        standing,
        moving=False,
        onto=None,
        affinity=None,
        failures=standing.failures + 1,
        retry_at_s=now_s if isinstance(call, Resize) else now_s + wait_s(standing.failures),
        vcpus_refused=refused,
    )
