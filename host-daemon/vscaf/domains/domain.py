"""One managed domain: its lifecycle, and the calls on it.

core/reconcile/steps.py decides what to do and when. This module carries it out. A call that failed is noted in the
domain's transition state. It is never repeated here.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from vscaf import clock
from vscaf.agentlink.interface import Link
from vscaf.agentlink.link import STALE_REPORT_S
from vscaf.core.backoff import Backoff
from vscaf.core.model.trust import believed_online
from vscaf.core.reconcile.pins import guest_numbering
from vscaf.core.reconcile.state import (
    LOST_FAILURES,
    Action,
    Affinity,
    AnnouncedSize,
    Apply,
    Look,
    Resize,
    Resume,
    Suspend,
    TransitionState,
    on_done,
    on_external_resume,
    on_failed,
    on_found_meant_to_rest,
    on_read,
    on_resumed,
    on_suspended,
)
from vscaf.core.reconcile.steps import Goal
from vscaf.domains.actuator import Actuator
from vscaf.domains.agent_session import AgentSession
from vscaf.domains.agent_trust import AgentTrust
from vscaf.domains.containment import Fault
from vscaf.domains.inferred import Inferred
from vscaf.domains.journal_match import came_back, is_of, left_suspended
from vscaf.domains.pool import HostPool
from vscaf.domains.restore import put_pins_back, unplug_again
from vscaf.domains.rules import DomainRules
from vscaf.errors import HypervisorError, HypervisorUnreachable
from vscaf.hypervisor.interface import Hypervisor
from vscaf.journal import FoundSettings, JournalEntry
from vscaf.values import DomainKey, DomainSeen, DomainSettings, State

log = logging.getLogger(__name__)


class ManagedDomain:
    """A run of a domain, from when it is first seen until it ends."""

    def __init__(self, seen: DomainSeen, rules: DomainRules, host: Hypervisor, link: Link | None) -> None:
        self.seen = seen
        # This run was once seen to have begun with a boot. So it has no settings of an earlier run.
        self.booted = seen.booted
        # It is managed according to the configuration or its metadata.
        self.listed = True
        self.rules = rules
        # The most pCPUs that it may have.
        self.maximum = 1
        self.session = AgentSession(link)
        # Whether its agent is believed.
        self.trust = AgentTrust()
        # Its demand and its speedup.
        self.inferred = Inferred()

        # Its settings before the first change. None: nothing of it is changed.
        self.found: DomainSettings | None = None
        # None: it is not managed.
        self.transition: TransitionState | None = None
        # What the reconciler should bring about. None: nothing is decided yet.
        self.goal: Goal | None = None
        self.state = State.UNMANAGED
        # Why it gets no pCPU although it has demand. Empty: it gets some, or has no demand.
        self.waiting = ""
        # The number of vCPUs that the last plug or unplug may still lead to. None: there was none.
        self.vcpus_asked: int | None = None
        # When its vCPUs were last counted, or plugged or unplugged. A listing that was begun before may be out of date.
        self.counted_at_s = float("-inf")
        # When it was last suspended or resumed.
        self.switched_at_s = float("-inf")
        # Its pins must be read again soon.
        self.audit_due = False
        # See domains/containment.py.
        self.fault: Fault | None = None

        # Its settings are being read, before it is managed.
        self.adopting = False
        # How often it was adopted.
        self.adoptions = 0
        # The journal's entry under its key, if that is about an earlier run.
        self.outdated_entry: JournalEntry | None = None
        # Why it is not managed although it could be. Empty: it is managed.
        self.left_alone = ""
        # Parts that somebody else has changed and that are not put back: see core/reconcile/drift.py.
        self.spared: frozenset[str] = frozenset()
        # It is being given back.
        self.giving_back = False
        # It is as it was found, and must not stay in the journal.
        self.given_back = False
        # When it may be adopted or given back again.
        self.retry = Backoff()
        # Held during each call on it.
        self.lock = asyncio.Lock()

        self._host = host
        self._actuator = Actuator(host)
        # vscaf had suspended it when it was set aside, and has not resumed it since.
        self._suspended_when_set_aside = False
        # Its transition state comes from the journal: see assume().
        self._assumed = False
        # The transition state after process_reports, and what it was made from. None: it has to be made again.
        self._processed: tuple[TransitionState, tuple[object, ...]] | None = None
        # The last journal entry, and the values that it was made from.
        self._entry: tuple[tuple[object, ...], JournalEntry] | None = None

    @property
    def name(self) -> str:
        return self.seen.name

    @property
    def link(self) -> Link | None:
        """The channel to its guest; None: it has none."""
        return self.session.link

    @property
    def held(self) -> frozenset[int]:
        """The pCPUs that its vCPUs may compute on; empty while it rests or is not managed."""
        return self.transition.claim if self.transition is not None else frozenset()

    @property
    def unmanaged_why(self) -> str:
        return self.left_alone or self.waiting

    @property
    def suspended_by_us(self) -> bool:
        """Whether vscaf has suspended it and has not seen it resumed, so that vscaf has to resume it."""
        return self.transition.suspended_by_us if self.transition is not None else self._suspended_when_set_aside

    @property
    def unread(self) -> bool:
        """Whether its settings were not read yet: its state is unknown, or comes only from the journal."""
        return self.transition is None or self._assumed

    @property
    def faulty(self) -> bool:
        """Whether it is at fault: see domains/containment.py."""
        return self.fault is not None and not self.fault.over

    def contain(self) -> None:
        """Ignores its agent from now on."""
        if self.transition is not None and (self.transition.answers or self.transition.online is not None):
            self.transition = replace(self.transition, answers=False, acknowledged=False, online=None)

    def silence_s(self) -> float:
        """Seconds for which a report of its agent is due, counted from its resume if that was later; 0: suspended."""
        if self.link is None or self.suspended_by_us:
            return 0.0
        return max(0.0, min(self.link.age_s(), clock.now_s() - self.switched_at_s))

    def _heard(self, link: Link) -> bool:
        """Whether its agent has reported and is not silent for too long."""
        if link.demand is None:
            return False
        return link.age_s() < STALE_REPORT_S or self.silence_s() < STALE_REPORT_S

    def agent_demand(self) -> int | None:
        """The number of CPUs that its agent reports it could use. None: no agent reports, or it is quiet."""
        link = self.session.link
        return link.demand if link is not None and not link.quiet and self._heard(link) else None

    def agent_is_quiet(self) -> bool:
        """Whether its agent has told that it reports again only when something changes."""
        return self.link is not None and self.link.quiet

    def has_reported(self) -> bool:
        """Whether the agent has reported since the channel was opened."""
        return self.link is not None and self.link.demand is not None

    def set_aside(self, why: str) -> None:
        """Takes no more steps for it. Its found settings still have to be put back."""
        self._suspended_when_set_aside = self.suspended_by_us
        self.left_alone, self.transition, self.goal, self.waiting = why, None, None, ""

    def online_vcpus(self) -> tuple[int, ...] | None:
        """The vCPUs that the guest reports as online. None: unknown, or its report cannot be true."""
        if self.link is None or self.transition is None or self.transition.affinity is None:
            return None  # no agent reports, or it is unknown which vCPUs are plugged
        plugged = guest_numbering(self.transition.affinity.vcpus, self.seen.enabled_order)
        return believed_online(self.link.online, plugged)

    def process_reports(self) -> None:
        """Brings the guest's reports into the transition state."""
        transition, link = self.transition, self.session.link
        if transition is None or link is None or self.faulty:
            return
        answers = link.connected and self._heard(link)
        heard = self._heard_so_far(link, answers)
        if (transition, heard) == self._processed:
            return
        self._processed = None
        confirmed = answers and self.session.acknowledged
        self.trust.follow(self.name, link, self.session.sequence, confirmed, transition.vcpus)
        if self.session.starts_over and transition.announced is not None and not self.trust.unsteady:
            transition = replace(transition, announced=None, acknowledged=False)  # after a hello it must be told again
            self.trust.start_over()
        acknowledged = transition.announced is not None and self.session.acknowledged
        contained = self.trust.distrusted or self.trust.unsteady
        online, guest = None if contained else self.online_vcpus(), self.seen.topology
        reported = (answers, acknowledged, online, guest)
        if reported != (transition.answers, transition.acknowledged, transition.online, transition.guest):
            transition = replace(transition, answers=answers, acknowledged=acknowledged, online=online, guest=guest)
        self.transition = transition
        if not self.trust.unsteady:  # else it depends on the time
            self._processed = (transition, self._heard_so_far(link, answers))

    def _heard_so_far(self, link: Link, answers: bool) -> tuple[object, ...]:
        """All that process_reports depends on, except the transition state, the time and an unsteady agent."""
        return (
            answers,
            link,
            link.generation,
            link.acknowledged,
            link.online,
            self.session.sequence,
            self.session.starts_over,
            self.trust.distrusted,
            self.seen.topology,
            self.seen.enabled_order,
        )

    def assume(self, entry: JournalEntry, pool: HostPool) -> None:
        """Sets a transition state from *entry*, to be used until adopt() has read the real settings.

        The domain claims the pCPUs that it had or should have according to *entry*, and no step is begun.
        """
        frozen = entry.suspended and self.seen.paused
        known = frozenset((*entry.claim, *entry.partition)) or frozenset(entry.reach if entry.suspended else ())
        if entry.suspended and not known:  # it was never pinned
            known = frozenset().union(*entry.found.settings().vcpu_pins.values())
        claim = frozenset[int]() if frozen else known
        self.transition = TransitionState(
            name=self.name,
            vcpus=self.seen.vcpus,
            vcpus_maximum=self.seen.vcpus_maximum,
            treatment=pool.treatment(self.rules, entry.found.settings(), self.seen.accelerated),
            claim=claim,
            affinity=None,
            resting=not claim and not frozen,
            moving=True,
            failures=LOST_FAILURES,
            suspended_by_us=entry.suspended,
            known_suspended=frozen,
            latent_claim=known - claim,
        )
        self._assumed = True

    def in_journal(self, entries: Mapping[DomainKey, JournalEntry]) -> bool:
        """Whether *entries* contain the found settings of this run. Before that, nothing of it may be changed."""
        entry = entries.get(self.seen.key)
        return entry is not None and entry is not self.outdated_entry

    async def adopt(
        self, entry: JournalEntry | None, departed: JournalEntry | None, pool: HostPool
    ) -> JournalEntry | None:
        """Reads the domain's settings. The domain is managed from then on.

        entry: the journal's entry under this run's key. departed: its entry about an earlier run of the domain, which
        may have been saved with the pins that vscaf gave it. Settings that this daemon has found itself come before
        both. Returns the entry that applies, or None. HypervisorError if the settings or the description are not known,
        or while the domain starts.
        """
        if self.seen.starting:
            raise HypervisorError(f"domain {self.name}: is being started: try again when it runs")
        if not self.seen.described:  # whether vCPUs can be unplugged and where its agent is would be taken for absent
            raise HypervisorError(f"domain {self.name}: its description could not be read yet")
        async with self.lock:  # while the domain is given back, its pins are about to change
            now = await self._host.settings(self.seen.key)
            outdated: JournalEntry | None = None
            if self.given_back:
                entry = departed = None
            if entry is not None and not is_of(entry, self.seen, self.booted, now.vcpu_pins, pool):
                entry, departed, outdated = None, entry, entry  # that run has ended, and libvirt has reused its key
            affinity, suspended_by_us = affinity_of(now), self._suspended_when_set_aside
            known = self.found is not None or entry is not None
            entry_in_force: JournalEntry | None = None
            if self.found is not None:  # it could not be given back
                pass
            elif entry is not None:
                self.found, self.session.announced_any, suspended_by_us, entry_in_force = (
                    entry.found.settings(),
                    True,
                    entry.suspended,
                    entry,
                )
            elif departed is not None and came_back(departed, self.seen, self.booted, now.vcpu_pins, pool):
                self.found, entry_in_force = departed.found.settings(), departed
                suspended_by_us = left_suspended(departed, self.seen)
                log.info("domain %s: came back with vscaf's pins; the settings that were found before apply", self.name)
            else:
                self.found, self.outdated_entry = now, outdated
            self.given_back = self._assumed = False
            self.adoptions += 1
            self.counted_at_s = clock.now_s()
            self.transition = TransitionState(
                name=self.name,
                vcpus=now.vcpus,
                vcpus_maximum=self.seen.vcpus_maximum,
                treatment=pool.treatment(self.rules, self.found, self.seen.accelerated),
                claim=affinity.reach,
                affinity=affinity,
                suspended_by_us=suspended_by_us,
                placed=known or entry_in_force is not None,
                found_at_s=clock.now_s(),
            )
            if entry is not None and not (entry.partition or entry.suspended or suspended_by_us):
                # It was meant to rest.
                self.transition = on_found_meant_to_rest(self.transition)
            if entry is not None and entry is entry_in_force:
                self.vcpus_asked = _asked_before(self.transition, len(entry.partition))
            return entry_in_force

    def entry(self) -> JournalEntry:
        """The entry that must be in the journal before any step towards the goal."""
        assert self.found is not None and self.transition is not None and self.goal is not None
        treatment, goal = self.transition.treatment, self.goal
        stays = self.transition.affinity if goal.suspended else None
        occupied = self.transition.occupied
        inputs = (
            self.name,
            self.found,
            goal.partition,
            goal.suspended,
            treatment.rest_area,
            self.transition.suspended_by_us,
            stays,
            occupied,
        )
        if self._entry is None or self._entry[0] != inputs:
            reach: Iterable[int] = goal.partition or treatment.rest_area
            if stays is not None:
                reach = stays.reach if stays.vcpus != self.found.vcpu_pins else ()
            elif goal.suspended:  # unknown just now
                reach = self._entry[1].reach if self._entry is not None else ()
            entry = JournalEntry(
                name=self.name,
                uuid=self.seen.key.uuid,
                run_id=self.seen.key.run_id,
                found=FoundSettings.of(self.found),
                partition=sorted(goal.partition),
                reach=sorted(reach),
                suspended=self.transition.suspended_by_us,
                started_ns=self.seen.started_ns,
                claim=sorted(occupied | goal.partition),
            )
            self._entry = (inputs, entry)
        return self._entry[1]

    async def carry_out(self, call: Action, adoptions: int) -> tuple[int, Affinity] | None:
        """Makes *call* and brings its outcome into the transition state. A look returns what it has read.

        adoptions: the number of adoptions when the call was begun. The call is not made if the domain was set aside
        since. HypervisorError if the call fails. The transition state then has the failure.
        """
        async with self.lock:
            if not self._holds(call, adoptions):
                return None
            assert self.transition is not None  # _holds() has checked it
            try:
                if isinstance(call, Look):
                    settings = await self._host.settings(self.seen.key)
                    affinity = affinity_of(settings)
                    if len(affinity.vcpus) != settings.vcpus:
                        raise HypervisorError(
                            f"libvirt reports pins of {len(affinity.vcpus)} vCPUs, but {settings.vcpus} vCPUs: "
                            "see `virsh vcpuinfo`; restarting libvirtd may help"
                        )
                    self._now_known(lambda transition: on_read(transition, settings.vcpus, affinity))
                    return settings.vcpus, affinity
                if isinstance(call, Suspend | Resume):
                    await self._switch(call)
                    return None
                if isinstance(call, Apply):
                    assert self.transition.affinity is not None  # the step was taken from it
                    await self._actuator.apply(self.seen, self.transition.affinity, call.affinity)
                else:
                    before, claim = self.transition.vcpus, self.transition.claim
                    done = await self._actuator.resize(self.seen, before, call.vcpus, claim)
                    # A plug has ended. An unplug may go on.
                    self.vcpus_asked = min(done.vcpus, call.vcpus) if call.vcpus > before else call.vcpus
                self._now_known(lambda transition: on_done(transition, call))
            except Exception as error:  # after any error the call has ended; the caller gets the exception
                self._failed(call, error)
                raise
            finally:
                if isinstance(call, Look | Resize):
                    self.counted_at_s = clock.now_s()
        return None

    def _failed(self, call: Action, error: Exception) -> None:
        begun = not (isinstance(error, HypervisorError) and error.not_begun)
        if isinstance(call, Suspend) and not begun:
            self.not_begun(call, self.adoptions)
            return
        if isinstance(call, Resize) and begun:
            self.vcpus_asked = call.vcpus
        answered = not isinstance(error, HypervisorUnreachable)
        self._now_known(lambda transition: on_failed(transition, call, clock.now_s(), begun=begun, answered=answered))

    async def _switch(self, call: Suspend | Resume) -> None:
        """Suspends or resumes the domain."""
        if isinstance(call, Suspend):
            stopped = await self._host.suspend(self.seen.key)
            self.switched_at_s = clock.now_s()
            if not stopped and not call.again:
                self._suspended_when_set_aside = False
                self._now_known(lambda transition: replace(transition, suspended_by_us=False))
                raise HypervisorError(f"domain {self.name}: somebody else has paused it: vscaf leaves it paused")
            self._now_known(on_suspended)
            return
        runs = await self._host.resume(self.seen.key)
        self.switched_at_s = now_s = clock.now_s()
        if not runs:
            log.warning("domain %s: was not paused by vscaf: it stays paused", self.name)
        self._suspended_when_set_aside = False
        self._now_known(lambda transition: on_resumed(transition, now_s))

    def not_begun(self, call: Suspend, adoptions: int) -> None:
        """Notes that the suspend was not tried."""
        if self._holds(call, adoptions):
            self._now_known(lambda transition: on_failed(transition, call, clock.now_s(), begun=False))

    def _holds(self, call: Action, adoptions: int) -> bool:
        """Whether it was managed all the time since *call* was begun. If not, the call must not be made."""
        if self.transition is None and isinstance(call, Suspend):
            self._suspended_when_set_aside = self._suspended_when_set_aside and call.again
        return self.transition is not None and self.adoptions == adoptions

    def note_external_resume(self) -> None:
        """Notes that it runs although vscaf had suspended it. From now on it claims the pCPUs that it runs on."""
        self._now_known(on_external_resume)

    def _now_known(self, change: Callable[[TransitionState], TransitionState]) -> None:
        if self.transition is not None:  # else it was set aside while the call was under way
            self.transition = change(self.transition)

    async def give_back(self, deadline_s: float) -> bool:
        """Puts everything back as it was found, except the parts in `spared`. The domain is not managed any more.

        False: this was done before. deadline_s: how long the guest has to use all its CPUs again. HypervisorError if
        libvirt refuses. `found` is then still set.
        """
        async with self.lock:
            self.set_aside(self.left_alone)  # its pins change from here on, so its transition state is void
            if self.found is None:
                return False
            try:
                now = await put_pins_back(self._host, self.seen.key, self.found, self.spared)
                if "shares" not in self.spared:
                    await self._actuator.set_weight(self.seen, now.cpu_shares, self.found.cpu_shares)
            finally:  # also after an error: a domain that is never resumed would be worse than wrong pins
                if self.suspended_by_us:
                    await self._switch(Resume(self.name))
            if self.session.announced_any:
                announced = AnnouncedSize(min(now.vcpus, self.found.vcpus), self.seen.vcpus_maximum, competition=False)
                if not await self.session.announce_all_cpus(announced, deadline_s):
                    log.info("domain %s: did not acknowledge its %d CPUs when given back", self.name, announced.cpus)
            if now.vcpus > self.found.vcpus:
                await unplug_again(self._host, self.seen, now.vcpus, self.found.vcpus)
            self.found = None
            self.given_back = True
            return True

    def wait(self, waits: bool, reason: str) -> None:
        """Notes whether the policy keeps it waiting, and why. *reason*: "from -> to: why", or empty if unchanged."""
        self.waiting = (reason.partition(": ")[2] or self.waiting) if waits else ""

    def enter(self, state: State) -> None:
        """Notes the state, and logs it if it changed. A domain that rests because it is queued is QUEUED."""
        if state == State.RESTING and self.waiting:
            state = State.QUEUED
        if state != self.state:
            log.info("domain %s: %s -> %s", self.name, self.state, state)
            self.state = state


def _asked_before(transition: TransitionState, size: int) -> int:
    """The number of vCPUs that an earlier daemon, which gave *size* pCPUs, may have asked for just before it ended."""
    if transition.vcpus < size:
        return min(size, transition.vcpus_maximum)
    least = max(size, transition.treatment.vcpus_found)
    return min(least, transition.vcpus) if transition.treatment.unplug else transition.vcpus


def affinity_of(settings: DomainSettings) -> Affinity:
    """The affinity in *settings*."""
    return Affinity(
        settings.vcpu_pins, settings.emulator_pin, settings.iothread_pins, settings.cpu_shares, settings.online
    )
