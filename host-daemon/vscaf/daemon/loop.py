"""The daemon: observe -> model -> decide -> place -> plan -> act -> record, every period and on news.

Everything between observe and act is a pure function from `core`. This module keeps the state between periods. It looks
at the host once a period, less often while it is quiet (quiet.py), and also when a guest's demand or a domain's state
changes, and then sets the goals. It takes the next steps towards the goals after each event: a call that ended, an
acknowledgement, a deadline.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vscaf_policies import Policy, PolicyError, PoolState

from vscaf import clock
from vscaf.agentlink.interface import LinkMaker
from vscaf.config import Config, PolicyConfig
from vscaf.core.backoff import Backoff
from vscaf.core.decide.decision import DecideMemory, Decision
from vscaf.core.fault_isolation import without_the_failing
from vscaf.core.place.invariants import check_partitions
from vscaf.core.place.placement import place
from vscaf.core.reconcile.state import TransitionState
from vscaf.core.reconcile.steps import Goal, StepMemo, Steps, Timing, next_steps
from vscaf.cpulist import format_cpu_list
from vscaf.daemon.decider import Decider
from vscaf.daemon.decision_log import DecisionLog
from vscaf.daemon.quiet import QUIET_PERIODS, is_quiet
from vscaf.domains.agent_session import agent_link
from vscaf.domains.containment import STEPS
from vscaf.domains.deduplicated_warnings import DeduplicatedWarnings
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inventory import Inventory
from vscaf.domains.journal_writer import JournalWriter
from vscaf.domains.pool import HostPool
from vscaf.domains.registry import Registry
from vscaf.errors import HypervisorError
from vscaf.events import EventLog, Kind
from vscaf.hypervisor.interface import Hypervisor
from vscaf.journal import Journal
from vscaf.policy.input import shown_pool
from vscaf.policy.loading import chosen_policy, counts_weights
from vscaf.values import DomainKey, HostCpus

log = logging.getLogger(__name__)

FIRST_REPORT_WAIT_S = 1.0  # how long the first decision waits for agents that have not reported yet
LOOK_GAP_S = 0.02  # least time between looks, however many guests have news
IDLE_S = 60.0  # the longest wait of the loop
STEPS_MOST = 8  # rounds of steps in one turn of the loop; further ones wait for the next turn
HOST_CPUS_S = 1.0  # between checks of which pCPUs are online
STEP_RETRY_S = 1.0  # wait after steps failed with an unexpected error


class Daemon:
    """Shares the pool of *config* among its domains until stop(). The caller opens and closes `journal`.

    `links` makes the channels to guests.
    """

    def __init__(
        self,
        config: Config,
        host: Hypervisor,
        cpus: HostCpus,
        journal: Journal,
        events: EventLog | None = None,
        *,
        links: LinkMaker = agent_link,
    ) -> None:
        self.config = config
        self.events = events or EventLog()
        self.configured_at = self.events.time()
        self.policy = config.policy
        self.former_policy: PolicyConfig | None = None
        self.transitions = 0
        self.violations: list[str] = []
        self.unknown_since_s: float | None = None
        self.has_listed = False
        """Whether libvirt has listed its domains since the daemon started. Before that, nothing is known of any."""
        self.decision: Decision | None = None
        self.journal = journal
        self.ended = asyncio.Event()
        self.not_put_back: list[str] = []
        self.pool = HostPool(config, cpus)
        self._warnings = DeduplicatedWarnings(self.events)
        self._journal_writer = JournalWriter(journal, self._warnings)
        self.inventory = Inventory(
            config,
            host,
            self.pool,
            journal_writer=self._journal_writer,
            warnings=self._warnings,
            events=self.events,
            on_news=self._on_news,
            on_change=self.wake,
        )
        self.registry = Registry(self.inventory, links)
        self._host = host
        self._cpus_at_s = clock.now_s()
        self._policy = chosen_policy(config.policy, shown_pool(self.pool))
        self._memory = DecideMemory()
        self.decider = Decider(config.exploration_percent / 100)
        self.decisions = DecisionLog(config, self.events)
        self._placed: tuple[object, ...] = ()
        self._timing = _timing(config)
        self._news = asyncio.Event()
        self._look_wanted = True
        self._quiet = False
        self._look_begun_s = self._look_ended_s = float("-inf")
        self._again_at_s = float("inf")
        self._stopping = False
        self.handing_over = False
        self._first_listed_s = clock.now_s()
        self._looking: asyncio.Task[None] | None = None
        self._reports_due = False
        self._stepped: list[object] = []
        self._memos: Mapping[str, StepMemo] = {}

    @property
    def managed(self) -> Mapping[DomainKey, ManagedDomain]:
        """The domains that the daemon knows, by their run."""
        return self.inventory.domains

    @property
    def policy_name(self) -> str:
        """The name of the policy in use."""
        return self.policy.name

    @property
    def policy_options(self) -> Mapping[str, Any]:
        """Its options."""
        return self.policy.options

    @property
    def policy_previous(self) -> str | None:
        """The name of the policy that a rollback goes back to; None: there is none."""
        return self.former_policy.name if self.former_policy is not None else None

    @property
    def weights_count(self) -> bool:
        """Whether the policy in use uses the domains' weights."""
        return counts_weights(self._policy)

    @property
    def pool_cpus(self) -> frozenset[int]:
        """The pCPUs of the configured pool that are online now, in whole cores."""
        return self.pool.cpus

    @property
    def reserve(self) -> frozenset[int]:
        """pCPUs for domains at rest and for emulators."""
        return self.pool.reserve

    @staticmethod
    def check(config: Config, cpus: HostCpus) -> None:
        """UsageError if a daemon with this configuration cannot work on a host with these pCPUs."""
        chosen_policy(config.policy, shown_pool(HostPool(config, cpus)))

    @property
    def quiet(self) -> bool:
        """Whether nothing is in doubt or under way, so that the next look comes later than after a period."""
        return self._quiet

    def _on_news(self) -> None:
        self._news.set()

    def wake(self) -> None:
        """Makes the loop look at the host again at once."""
        self._look_wanted = True
        self._news.set()

    def tuned(self, key: DomainKey) -> None:
        """Notes that pins, weight or vCPUs of a domain were changed, perhaps by this daemon. They are read soon."""
        domain = self.managed.get(key)
        if domain is not None:
            domain.audit_due = True
            self._quiet = False
            self._news.set()

    def stop(self, *, hand_over: bool = False) -> None:
        """Ends run() after the look that is under way.

        hand_over: nothing is put back, because the next daemon continues from here. A stop without it always wins.
        """
        self.handing_over = hand_over and (self.handing_over or not self._stopping)
        self._stopping = True
        self._news.set()

    async def run(self) -> bool:
        """Runs until stop(), then puts everything back, unless it hands over.

        False: something could not be put back; the journal keeps it.
        """
        self.decisions.configure(self.config)
        try:
            await self._until_stopped()
        finally:
            if self._looking is not None:
                self._looking.cancel()
        if not self.handing_over:
            self.not_put_back = await self.registry.give_all_back()
        self.ended.set()
        return not self.not_put_back

    async def _until_stopped(self) -> None:
        while not self._stopping:
            if self._looking is not None and self._looking.done():
                self._looking = None
            if self._looking is None and clock.now_s() >= self._look_due_s():
                self._looking = asyncio.create_task(self._look_once())
            # Steps do not wait for a look: libvirt may be slow, and guests that answer would have to wait too.
            if self._news.is_set() or clock.now_s() >= self._again_at_s:
                self._news.clear()
                self._step()
            due_s = self._again_at_s if self._looking is not None else min(self._look_due_s(), self._again_at_s)
            try:
                async with asyncio.timeout(min(IDLE_S, max(0.0, due_s - clock.now_s()))):
                    await self._news.wait()
            except TimeoutError:
                pass
        if self._looking is not None:
            await self._looking
            self._looking = None

    async def _look_once(self) -> None:
        self._look_wanted = self._quiet = False
        self._look_begun_s = clock.now_s()
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001  after any error in a look, the next look is made
            self._unforeseen("look", "a look at the domains", error)
        else:
            self._warnings.clear("look")
        finally:
            self._reports_due = True
            self._look_ended_s = clock.now_s()
            self._news.set()

    def _unforeseen(self, subject: str, work: str, error: Exception) -> None:
        """Reports an unexpected error in work for all domains, once for each cause. The work is tried again."""
        why = f"{work} failed: {error!r}: partitions stay as they are until it works again"
        if self._warnings.warn_once(subject, why, kind=Kind.FAULT):
            log.error("%s failed, please report this: %r", work, error, exc_info=error)

    def _look_due_s(self) -> float:
        """When the next look is due: a period after the last one began, some periods after it if the host is quiet, and
        at once if there is news. The gap leaves time for other work."""
        rest_s = self._look_ended_s + LOOK_GAP_S
        if self._look_wanted:
            return rest_s
        periods = QUIET_PERIODS if self._quiet else 1.0
        return max(rest_s, self._look_begun_s + periods * self.config.period_ms / 1000)

    async def close(self) -> None:
        """Ends the links to the guests and the tasks that are under way."""
        await self.inventory.close()
        await self.decisions.recorder.close()
        self.events.close()

    async def _look(self) -> None:
        """Looks at the host and sets the goals."""
        try:
            await self._look_at_cpus()
            asked_at_s = clock.now_s()
            seen = await self._host.observe()
        except Exception as error:  # after any error there is no listing
            if self.unknown_since_s is None:
                self.unknown_since_s = clock.now_s()
                expected = isinstance(error, HypervisorError)
                why = str(error) if expected else repr(error)
                self.events.record(Kind.UNKNOWN, None, why=f"domains cannot be listed, so nothing is changed: {why}")
                if not expected:
                    log.error("unexpected error, please report this: %r", error, exc_info=error)
            return
        if self.unknown_since_s is not None:
            silent_s = round(clock.now_s() - self.unknown_since_s, 1)
            self.events.record(Kind.KNOWN, None, why=f"libvirt answers again after {silent_s} s")
            self.unknown_since_s = None
            for domain in self.managed.values():
                domain.audit_due = True
                domain.retry = Backoff()
        if not self.has_listed:
            self._first_listed_s = clock.now_s()
        await self.registry.note(seen, asked_at_s)
        self.has_listed = True
        self._step()  # before the audit: if reading takes longer than a period, no other call would ever begin
        self.registry.executor.audit()
        self.registry.adoption.adopt(self.decision is None or self.decision.managed)
        if self._waiting_for_agents():
            return
        pool = self.pool_state()
        decision = self.decisions.decide(self.decider, pool, self._policy, self.policy, self._memory)
        self._handle_policy_errors()
        self._decided(decision)
        if decision.managed:
            await self._set_goals(pool, decision)
            # If the host does not report changes of pins, each look reads some.
            reported = self._host.reports_tuning and not self.decider.searching
            self._quiet = reported and is_quiet(self.managed.values(), pool, decision)
        elif any(domain.found is not None for domain in self.managed.values()):
            for domain in self.managed.values():
                self.registry.release.begin_give_back(domain)
        elif self._journal_writer.stale(self.managed):  # an earlier write after giving back has failed
            await self.inventory.write_journal()

    def _handle_policy_errors(self) -> None:
        """Puts domains at fault whose points made the policy raise. If it raises without points, shares are equal."""
        for name, error in self.decider.faults.items():
            domain = self.inventory.taking_part()[name]
            self.inventory.containment.failed(domain, f"policy {self.policy.name}, with its speedup,", error)
        error_without = self.decider.policy_error
        if error_without is None:
            self._warnings.clear("policy")
        else:
            refuses = isinstance(error_without, PolicyError)
            why = str(error_without) if refuses else f"policy {self.policy.name} always fails: {error_without!r}"
            self._warnings.warn_once("policy", f"{why}: equal shares until it works")

    def _decided(self, decision: Decision) -> None:
        self.decision, self._memory = decision, decision.memory

    async def _look_at_cpus(self) -> None:
        """Takes pCPUs that went offline out of the pool and returns those that came back, in whole chunks."""
        if clock.now_s() - self._cpus_at_s < HOST_CPUS_S:
            return
        self._cpus_at_s = clock.now_s()
        version = self.pool.version
        before = self.pool.renew(await self._host.host_cpus())
        if self.pool.gone:
            self._warnings.warn_once(
                "pool", f"no pCPU of the pool {self.config.pool} is online: partitions stay as they are"
            )
        else:
            self._warnings.clear("pool")
        if before is not None:
            was, now = format_cpu_list(before.cpus), format_cpu_list(self.pool.cpus)
            self.events.record(Kind.POOL, None, before=was, after=now, why="pCPUs went offline or came back")
        if self.pool.version != version:
            for domain in self.managed.values():
                self.registry.renew_treatment(domain)

    def _waiting_for_agents(self) -> bool:
        """Whether the daemon has just started and still waits for an agent or for a domain's first vCPU time."""
        if clock.now_s() - self._first_listed_s > FIRST_REPORT_WAIT_S:
            return False
        return any(
            domain.adopting
            or not domain.inferred.usage_known
            or (domain.link is not None and not domain.has_reported())
            for domain in self.managed.values()
            if not domain.left_alone and not domain.seen.paused
        )

    def pool_state(self) -> PoolState:
        """The pool and the domains that take part, as policies see them."""
        domains = self.inventory.taking_part().values()
        return shown_pool(self.pool, domains, self.config.newcomer_ms / 1000, clock.now_s())

    async def _set_goals(self, pool: PoolState, decision: Decision) -> None:
        """Places the decision if it is new, and writes the journal before anything is changed."""
        by_name = self.inventory.taking_part()
        competition = sum(1 for one in pool.domains if one.demand) > 1
        homes = {name: one.seen.home_nodes for name, one in by_name.items() if one.seen.home_nodes}
        waiting = (decision.queued, decision.suspended)
        placed = (decision.allocations, decision.sharing, waiting, self.pool.version, homes)
        if placed != self._placed or any(domain.goal is None for domain in by_name.values()):
            self._place(pool, decision, by_name, homes, competition)
            self._placed = placed
        for domain in by_name.values():
            goal, limit = domain.goal, domain.maximum
            assert goal is not None  # placed above
            if goal.limit != limit or goal.competition != competition:
                domain.goal = replace(goal, limit=limit, competition=competition)
        if not self._journal_writer.stale(self.managed):
            return
        if all(domain.in_journal(self.journal.entries) for domain in by_name.values()):
            # The found settings are on disk. The new goals may be written later: the next daemon reads the pins too.
            self.inventory.background(self.inventory.write_journal())
        else:
            await self.inventory.write_journal()

    def _place(
        self,
        pool: PoolState,
        decision: Decision,
        by_name: Mapping[str, ManagedDomain],
        homes: Mapping[str, frozenset[int]],
        competition: bool,
    ) -> None:
        held = {name: domain.held for name, domain in by_name.items()}
        target = place(self.pool.topology, held, decision.allocations, decision.sharing, homes)
        bounds = {one.name: (one.minimum, one.maximum) for one in pool.domains}
        self.violations = check_partitions(target, decision.allocations, bounds, self.pool.topology, decision.sharing)
        for violation in self.violations:
            self._warnings.warn_once(f"law {violation}", f"the partition breaks a law, please report this: {violation}")
        news = False
        self.decisions.forget_changes(by_name)
        for name, domain in by_name.items():
            before = domain.goal.partition if domain.goal is not None else domain.held
            domain.wait(name in decision.queued or name in decision.suspended, decision.reasons.get(name, ""))
            if name in decision.queued and name in decision.reasons:
                self.events.record(Kind.QUEUED, name, why=domain.waiting)
            if before != target[name] or (domain.goal is None and not target[name]):
                news = True
                self.decider.begun(name, clock.now_s())
                lists = [format_cpu_list(cpus) or "rest" for cpus in (before, target[name])]
                unchanged = "its first partition" if domain.goal is None else "moved, so that partitions fit the cores"
                why = decision.reasons.get(name, unchanged)
                event = self.events.record(Kind.ALLOCATION, name, before=lists[0], after=lists[1], why=why)
                self.decisions.changes[name] = event
            domain.goal = Goal(target[name], domain.maximum, competition, name in decision.suspended)
        self.transitions += news

    def _step(self) -> None:
        """Takes the steps that can be taken now."""
        try:
            self._take_steps()
        except Exception as error:  # noqa: BLE001  after any error, the next steps are tried
            self._unforeseen("steps", "taking steps", error)
            self._stepped = self._step_inputs(self.decision) if self.decision is not None else []
            self._again_at_s = clock.now_s() + STEP_RETRY_S
        else:
            self._warnings.clear("steps")

    def _take_steps(self) -> None:
        if self.unknown_since_s is not None or self.decision is None or not self.decision.managed:
            self._again_at_s, self._stepped = float("inf"), []
            return
        if self._reports_due:  # an agent that stops to report sends no news of that
            self._reports_due = False
            self.registry.process_all_reports()
        if self._step_inputs(self.decision) == self._stepped and clock.now_s() < self._again_at_s:
            return
        # A domain that is not in the journal is not touched.
        by_name = {
            name: domain
            for name, domain in self.inventory.taking_part().items()
            if domain.goal is not None and domain.in_journal(self.journal.entries)
        }
        transitions = {name: domain.transition for name, domain in by_name.items() if domain.transition is not None}
        goals = {name: domain.goal for name, domain in by_name.items() if domain.goal is not None}
        for _ in range(STEPS_MOST):
            if not self._step_once(by_name, transitions, goals, self.decision.sharing):
                break
            transitions = {name: domain.transition for name, domain in by_name.items() if domain.transition is not None}
        self._stepped = self._step_inputs(self.decision)

    def _step_inputs(self, decision: Decision) -> list[object]:
        """All that the next steps depend on, except the time. Cheap to compare: unchanged parts are the same object."""
        inputs: list[object] = [self.journal.entries, decision.sharing]
        for domain in self.managed.values():
            inputs += (domain.seen.name, domain.listed, domain.transition, domain.goal)
        return inputs

    def _step_once(
        self,
        by_name: Mapping[str, ManagedDomain],
        transitions: Mapping[str, TransitionState],
        goals: Mapping[str, Goal],
        sharing: frozenset[str],
    ) -> bool:
        """Takes one round of steps. Returns whether there were any."""
        around, now_s = self.inventory.containment.around, clock.now_s()
        excluded = frozenset([name for name, one in by_name.items() if one.fault is not None and one.fault.no_steps])

        def attempt(names: frozenset[str]) -> tuple[Steps, frozenset[str]]:
            held = _with_excluded(transitions, names | excluded)
            return next_steps(held, goals, sharing, now_s, self._timing, self._memos), names | excluded

        (steps, excluded), failed = without_the_failing(sorted(by_name.keys() - excluded), attempt)
        self._again_at_s, self._memos = steps.again_at_s, steps.memos
        for name, domain in by_name.items():
            if name in excluded:
                continue
            domain.transition = steps.transitions[name]
            with around(domain, "entering a state"):
                domain.enter(steps.states[name])
        for name, error in failed.items():
            self.inventory.containment.failed(by_name[name], STEPS, error)
        for announcement in steps.announcements:
            with around(by_name[announcement.domain], "telling its guest"):
                by_name[announcement.domain].session.announce(
                    announcement.announced, announcement.again, self._timing.deadline_s
                )
        for call in steps.calls:
            domain = by_name[call.domain]
            assert domain.transition is not None
            self.inventory.background(self.registry.executor.carry_out(domain, call, domain.transition))
        for name, holders in steps.waits.items():
            log.debug("domain %s: waits for pCPUs that %s still claim", name, ", ".join(holders))
        self.decider.seen(steps.states, now_s)
        taken = bool(steps.announcements or steps.calls)
        self._quiet = self._quiet and not taken
        return taken

    def configure(self, config: Config, cpus: HostCpus | None = None, policy: Policy | None = None) -> None:
        """Works by *config* from now on. The caller has checked it (see daemon/reload.py), so this is not refused.

        It is one step that waits for nothing, so no other work sees a part of it. The next look gives back the domains
        that are not managed any more. cpus: the host's present pCPUs; None: the pool is as before. policy: the policy
        of *config*, if it replaces the one in use.
        """
        self.config, self.configured_at = config, self.events.time()
        before = self.pool.cpus
        self.pool.configure(config, cpus)
        self.registry.configure(config, self.pool.cpus - before)
        self._timing, self._memos, self._stepped = _timing(config), {}, []
        self.decider.limit_exploring(config.exploration_percent / 100)
        self.decisions.configure(config)
        if policy is not None:
            self.use_policy(config.policy, policy)
        self.wake()

    def use_policy(self, chosen: PolicyConfig, policy: Policy) -> None:
        """Decides by *policy* from the next look on."""
        self.events.record(Kind.POLICY, None, before=self.policy.name, after=chosen.name)
        self.former_policy = self.policy
        self.policy, self._policy, self._memory = chosen, policy, DecideMemory()
        self.decider.forget()
        self.wake()


def _timing(config: Config) -> Timing:
    return Timing(config.deadline_ms / 1000, unplug_after_s=config.unplug_after_s)


def _with_excluded(transitions: Mapping[str, TransitionState], names: frozenset[str]) -> Mapping[str, TransitionState]:
    """The transition states, changed so that no step is begun for the domains *names*. Each keeps its claim."""
    if not names:
        return transitions
    held = {name: replace(transitions[name], affinity=None, moving=True) for name in names}
    return {**transitions, **held}
