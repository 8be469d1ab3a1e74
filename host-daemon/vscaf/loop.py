"""The daemon: observe -> model -> decide -> place -> plan -> act -> record, every period and on news.

Everything between observe and act is a pure function from `core`; this module holds what lives longer than a period.
It looks at the host once a period and when a guest's demand or a domain's state changes, and then sets the goals. It
takes the next steps towards them whenever anything has happened: a call that ended, an acknowledgement, a deadline.
"""

import asyncio
import logging
import operator
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

from vscaf_policies import DomainState, Policy, PolicyError, PoolState
from vscaf_policies.registry import load_policy

from vscaf.agentlink.link import AgentLink
from vscaf.config import Config, PolicyConfig
from vscaf.core.decide import DecideMemory, Decision, decide
from vscaf.core.foreign import foreign_changes
from vscaf.core.invariants import check_partitions
from vscaf.core.placement import place
from vscaf.core.transition import (
    Affinity,
    Call,
    Goal,
    Look,
    Standing,
    Timing,
    next_steps,
)
from vscaf.cpulist import format_cpu_list
from vscaf.errors import DomainGone, HypervisorError, UsageError
from vscaf.eventlog import EventLog, Kind
from vscaf.hypervisor.interface import Hypervisor
from vscaf.hypervisor.values import DomainKey, DomainSeen, HostCpus
from vscaf.journal import Journal, LeftAlone
from vscaf.managed import ManagedDomain, agent_link
from vscaf.pool import HostPool
from vscaf.rules import DomainRules, rules_for
from vscaf.sight import infer

log = logging.getLogger(__name__)

HEARING_S = 1.0  # how long the first decision waits for agents that have not spoken yet
LOOK_GAP_S = 0.02  # between looks, however many guests have news
IDLE_S = 60.0  # the longest wait for anything
AUDITS = 16  # domains whose pins are read each period where the host does not tell of changes
AUDITS_TOLD = 1  # where it does: a call that gets lost is found all the same
FIGURES = re.compile(r"[0-9.]+")
STEPS_MOST = 8  # that follow from one another at once; the rest waits for the next turn
HOST_CPUS_S = 1.0  # between looks at which pCPUs are online


class Daemon:
    """Shares the pool of *config* among its domains until stop(). `journal` is open and stays the caller's."""

    def __init__(
        self, config: Config, host: Hypervisor, cpus: HostCpus, journal: Journal, events: EventLog | None = None
    ) -> None:
        self.config = config
        self.managed: dict[DomainKey, ManagedDomain] = {}
        self.events = events or EventLog()
        self.policy = config.policy
        self.former_policy: PolicyConfig | None = None
        self.transitions = 0
        self.violations: list[str] = []
        self.unknown_since_s: float | None = None
        self.decision: Decision | None = None
        self.journal = journal
        self.ended = asyncio.Event()
        self.not_put_back: list[str] = []
        self.pool = HostPool(config, cpus)
        self._host = host
        self._cpus_at_s = time.monotonic()
        self._policy = chosen_policy(config.policy, empty_pool(self.pool))
        self._memory = DecideMemory()
        self._placed: tuple[object, ...] = ()
        self._timing = Timing(config.deadline_ms / 1000, unplug_after_s=config.unplug_after_s)
        self._news = asyncio.Event()
        self._look_wanted = True
        self._seen_any = False
        self._look_begun_s = self._look_ended_s = float("-inf")
        self._again_at_s = float("inf")
        self._stopping = False
        self._started_s = time.monotonic()
        self._said: dict[str, str] = {}
        self._calls: set[asyncio.Task[object]] = set()
        self._journal_turn = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._audit_turn = 0
        self._hear_all = False
        self._stepped: list[object] = []
        self._stepped_sharing: frozenset[str] = frozenset()

    @property
    def policy_name(self) -> str:
        """The policy that decides."""
        return self.policy.name

    @property
    def policy_options(self) -> Mapping[str, Any]:
        """Its options."""
        return self.policy.options

    @property
    def policy_previous(self) -> str | None:
        """The policy that a rollback goes back to; None: there is none."""
        return self.former_policy.name if self.former_policy is not None else None

    @property
    def reserve(self) -> frozenset[int]:
        """pCPUs for domains at rest and for emulators."""
        return self.pool.reserve

    @staticmethod
    def check(config: Config, cpus: HostCpus) -> None:
        """UsageError where a daemon of this configuration could not work on a host of these pCPUs."""
        chosen_policy(config.policy, empty_pool(HostPool(config, cpus)))

    def wake(self) -> None:
        """Lets the loop look at the host again at once."""
        self._look_wanted = True
        self._news.set()

    def tuned(self, key: DomainKey) -> None:
        """Somebody, perhaps this daemon, has changed pins, weight or vCPUs of a domain: they are read soon."""
        domain = self.managed.get(key)
        if domain is not None:
            domain.audit_due = True
            self._news.set()

    def stop(self) -> None:
        """Ends run() after what is under way."""
        self._stopping = True
        self._news.set()

    async def run(self) -> bool:
        """Runs until stop(); then puts everything back. False: something could not be, and the journal keeps it."""
        try:
            await self._until_stopped()
        finally:
            if self._looking is not None:
                self._looking.cancel()
        self.not_put_back = await self._give_all_back()
        self.ended.set()
        return not self.not_put_back

    async def _until_stopped(self) -> None:
        while not self._stopping:
            if self._looking is not None and self._looking.done():
                self._looking.result()
                self._looking = None
            if self._looking is None and time.monotonic() >= self._look_due_s():
                self._looking = asyncio.create_task(self._look_once())
            # Steps do not wait for a look: libvirt may take its time, and guests that answer would wait with it.
            self._news.clear()
            self._step()
            due_s = self._again_at_s if self._looking is not None else min(self._look_due_s(), self._again_at_s)
            try:
                async with asyncio.timeout(min(IDLE_S, max(0.0, due_s - time.monotonic()))):
                    await self._news.wait()
            except TimeoutError:
                pass
        if self._looking is not None:
            await self._looking
            self._looking = None

    async def _look_once(self) -> None:
        self._look_wanted = False
        self._look_begun_s = time.monotonic()
        try:
            await self._look()
        finally:
            self._hear_all = True
            self._look_ended_s = time.monotonic()
            self._news.set()

    async def _give_all_back(self) -> list[str]:
        """Puts everything back, also what an earlier daemon has changed and this one has not read yet; as give_back."""
        unread = [
            domain
            for domain in self.managed.values()
            if domain.found is None and not domain.given_back and domain.seen.key in self.journal.entries
        ]
        await asyncio.gather(*(self._adopt_one(domain) for domain in unread))
        left = set(await self.give_back(self.managed.values()))
        left |= {domain.name for domain in unread if not domain.given_back}
        if not self._seen_any:
            left |= {entry.name for entry in self.journal.entries.values()}
        return sorted(left)

    def _look_due_s(self) -> float:
        """A period after the last look began, or with news sooner; looks leave time for everything else."""
        rest_s = self._look_ended_s + LOOK_GAP_S
        return rest_s if self._look_wanted else max(rest_s, self._look_begun_s + self.config.period_ms / 1000)

    async def close(self) -> None:
        """Ends the links to the guests and what is under way."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await asyncio.gather(*(one.link.stop() for one in self.managed.values() if one.link is not None))
        self.events.close()

    async def _look(self) -> None:
        """Sees what there is and sets the goals."""
        try:
            await self._look_at_cpus()
            seen = await self._host.observe()
        except HypervisorError as error:
            if self.unknown_since_s is None:
                self.unknown_since_s = time.monotonic()
                self.events.record(Kind.UNKNOWN, None, why=f"what domains do is unknown, nothing is changed: {error}")
            return
        if self.unknown_since_s is not None:
            silent_s = round(time.monotonic() - self.unknown_since_s, 1)
            self.events.record(Kind.KNOWN, None, why=f"libvirt answers again after {silent_s} s")
            self.unknown_since_s = None
            for domain in self.managed.values():
                domain.audit_due = True
        self._seen_any = True
        await self._note(seen)
        self._step()  # first: where reading takes longer than a period, it would keep everything else from being begun
        self._audit()
        self._adopt()
        if self._waiting_for_agents():
            return
        pool = self.pool_state()
        try:
            decision = decide(pool, self._policy, self.policy.options, self._memory)
        except Exception as error:  # noqa: BLE001  policies are other people's code
            self.say_once("policy", f"policy {self.policy.name}: {error!r}; allocations stay as they are")
            return
        self._said.pop("policy", None)
        self._memory = decision.memory
        self.decision = decision
        if decision.managed:
            await self._set_goals(pool, decision)
        elif any(domain.found is not None for domain in self.managed.values()):
            await self.give_back(self.managed.values())

    async def _look_at_cpus(self) -> None:
        """pCPUs that went offline leave the pool, those that are back come back: whole chunks of it."""
        if time.monotonic() - self._cpus_at_s < HOST_CPUS_S:
            return
        self._cpus_at_s = time.monotonic()
        version = self.pool.version
        before = self.pool.renew(await self._host.host_cpus())
        if before is not None:
            was, now = format_cpu_list(before.cpus), format_cpu_list(self.pool.cpus)
            self.events.record(Kind.POOL, None, before=was, after=now, why="pCPUs went offline or came back")
        if self.pool.version != version:
            for domain in self.managed.values():
                self._renew_ways(domain)

    async def _note(self, seen: Iterable[DomainSeen]) -> None:
        """Keeps the records of active domains: new ones are linked, ended ones forgotten, others given back."""
        now_s = time.monotonic()
        present: dict[DomainKey, tuple[DomainSeen, DomainRules | None]] = {}
        for one in seen:
            rules = rules_for(self.config, one.name, one.rules)
            if rules is not None or one.key in self.journal.entries or one.key in self.managed:
                present[one.key] = (one, rules)
        for key in [key for key in self.managed if key not in present]:
            gone = self.managed.pop(key)
            self.say_no_more(gone.name)
            self.events.record(Kind.GONE, gone.name, before=format_cpu_list(gone.held) or None)
            if gone.link is not None:
                self._background(gone.link.stop())
        for key, (one, rules) in present.items():
            if key not in self.managed:
                self._appear(one, rules or DomainRules())
            domain = self.managed[key]
            domain.listed = rules is not None
            self._see(domain, one, rules or domain.rules, now_s)
        await self._give_back_unlisted()
        self._give_back_left_alone()
        if any(key not in self.managed for key in self.journal.entries):
            await self._write_journal()

    def _appear(self, seen: DomainSeen, rules: DomainRules) -> None:
        domain = self.managed[seen.key] = ManagedDomain(seen, rules, self._host, self._link(seen))
        alone = self.journal.left_alone.get(seen.key.uuid)
        if alone is not None:
            domain.left_alone, domain.state = alone.why, alone.state
        self.events.record(Kind.APPEARED, seen.name, vcpus=seen.vcpus, agent_channel=seen.agent_socket is not None)

    def _see(self, domain: ManagedDomain, seen: DomainSeen, rules: DomainRules, now_s: float) -> None:
        if seen.agent_socket != domain.seen.agent_socket:  # its channel was plugged, unplugged or moved
            if domain.link is not None:
                self._background(domain.link.stop())
            domain.relink(self._link(seen))
            domain.audit_due = True
        if seen.rules_error and seen.rules_error != domain.seen.rules_error:
            self.say_once(f"rules {seen.name}", f"domain {seen.name}: {seen.rules_error}", seen.name)
        domain.seen = seen
        if rules != domain.rules:
            self.events.record(Kind.RULES, seen.name, before=domain.rules.words(), after=rules.words())
            domain.rules = rules
            self._renew_ways(domain)
        standing = domain.standing
        if standing is not None and not standing.moving:
            if standing.vcpus != seen.vcpus:
                domain.standing = replace(standing, vcpus=seen.vcpus, affinity=None, vcpus_refused=None)
                self._vcpus_changed(domain, standing.vcpus, seen.vcpus)
            elif standing.vcpus_maximum != seen.vcpus_maximum:
                domain.standing = replace(standing, vcpus_maximum=seen.vcpus_maximum)
        infer(domain, self._maximum(domain), now_s)

    def _vcpus_changed(self, domain: ManagedDomain, before: int, now: int) -> None:
        """Another number of vCPUs was seen: that was asked for, and may come late, or somebody else did it."""
        asked = domain.vcpus_asked == now
        why = "as was asked for" if asked else "somebody else changed it"
        self.events.record(Kind.VCPUS, domain.name, before=before, after=now, why=why)
        if asked or domain.found is None:
            return
        domain.found = replace(domain.found, vcpus=now)  # the count to be put back is theirs
        if self.config.foreign_changes == "respect":
            why = f"somebody else changed its vCPUs from {before} to {now}"
            domain.set_aside(why)
            self._background(self.leave_alone(domain, "unmanaged", why))

    async def _give_back_unlisted(self) -> None:
        """Gives back domains that are neither in the configuration nor tagged by their metadata (any more)."""
        unlisted = [domain for domain in self.managed.values() if not domain.listed and not domain.adopting]
        await self.give_back(domain for domain in unlisted if domain.found is not None)
        for domain in unlisted:
            if domain.found is None and domain.seen.key not in self.journal.entries:
                log.info("domain %s: neither configured nor tagged: it is not managed", domain.name)
                del self.managed[domain.seen.key]
                if domain.link is not None:
                    await domain.link.stop()

    def _give_back_left_alone(self) -> None:
        """Tries again for who is left alone and could not be put back as found."""
        for domain in self.managed.values():
            if domain.left_alone and domain.found is not None and not domain.lock.locked():
                self._background(self._give_back_again(domain))

    async def _give_back_again(self, domain: ManagedDomain) -> None:
        alone = self.journal.left_alone.get(domain.seen.key.uuid)
        if not await self.give_back([domain], domain.spared) and alone is not None:
            domain.enter(alone.state)

    async def _write_journal(self) -> bool:
        """Brings the journal to what it has to say now. False: it could not be written, and says what it said."""
        if not self._seen_any:  # who has ended is not known yet
            return True
        async with self._journal_turn:
            ended = [entry for key, entry in self.journal.entries.items() if key not in self.managed]
            entries = {key: entry for key, entry in self.journal.entries.items() if key in self.managed}
            for key, domain in self.managed.items():
                if domain.given_back:
                    entries.pop(key, None)
                elif domain.found is not None and domain.goal is not None:
                    entries[key] = domain.entry()
            if entries == self.journal.entries:
                return True
            return await self._write(lambda: self.journal.write(entries, ended))

    async def _write(self, work: Callable[[], None]) -> bool:
        """Writes on a worker thread, since a disk may be slow. The journal's turn has been taken."""
        try:
            await asyncio.to_thread(work)
        except OSError as error:
            words = error.strerror or str(error)
            words = f"journal {self.journal.path}: {words}: nothing is changed until it can be written"
            self.say_once("journal", words)
            return False
        self.say_no_more("journal")
        return True

    async def _write_left_alone(self, uuid: str, one: LeftAlone | None) -> None:
        async with self._journal_turn:
            await self._write(lambda: self.journal.leave_alone(one, uuid))

    def _audit(self) -> None:
        """Reads the pins of some domains again, to find what somebody else has changed."""
        settled = [
            domain
            for domain in self.managed.values()
            if domain.standing is not None and domain.standing.affinity is not None and not domain.standing.moving
        ]
        if not settled:
            return
        count = AUDITS_TOLD if self._host.tells_of_tuning else AUDITS
        turn = self._audit_turn % len(settled)
        self._audit_turn = turn + count
        chosen = {domain.seen.key: domain for domain in (settled[turn:] + settled[:turn])[:count]}
        chosen |= {domain.seen.key: domain for domain in settled if domain.audit_due}
        for domain in chosen.values():
            domain.audit_due = False
            assert domain.standing is not None  # of the settled
            domain.standing = replace(domain.standing, moving=True)
            self._background(self._carry_out(domain, Look(domain.name), domain.standing))

    def _adopt(self) -> None:
        """Reads what domains have that take part from now on. A policy that manages nothing needs none of it."""
        if self.decision is not None and not self.decision.managed:
            return
        for domain in self.managed.values():
            # Who is left alone is read too where an earlier daemon could not give it back.
            due = domain.found is None and not domain.given_back and domain.seen.key in self.journal.entries
            if domain.standing is None and not domain.adopting and (due or not domain.left_alone):
                domain.adopting = True
                self._background(self._adopt_one(domain))

    async def _adopt_one(self, domain: ManagedDomain) -> None:
        try:
            entry = self.journal.entries.get(domain.seen.key)
            departed = self.journal.departed.get(domain.seen.key.uuid)
            await domain.adopt(entry, departed, self.pool)
            self.say_no_more(domain.name)
            if domain.left_alone:  # since before, or meanwhile
                domain.set_aside(domain.left_alone)
            if entry is not None:
                where = "rests" if domain.standing and domain.standing.resting else format_cpu_list(domain.held)
                self.events.record(Kind.ADOPTED, domain.name, after=where, why="as an earlier daemon left it")
        except HypervisorError as error:
            self._refused(domain, error)
        finally:
            domain.adopting = False
        self.wake()

    def _renew_ways(self, domain: ManagedDomain) -> None:
        """Brings changed rules or pCPUs into how the domain is treated."""
        if domain.standing is not None and domain.found is not None:
            ways = self.pool.ways(domain.rules, domain.found, domain.seen.accelerated)
            domain.standing = replace(domain.standing, ways=ways)

    def _maximum(self, domain: ManagedDomain) -> int:
        return self.pool.maximum(domain.rules, domain.seen.vcpus_maximum)

    def _waiting_for_agents(self) -> bool:
        """Whether the daemon has just started and some agent, or some domain's first vCPU time, is to come."""
        if time.monotonic() - self._started_s > HEARING_S:
            return False
        return any(
            domain.adopting or not domain.usage_known or (domain.link is not None and not domain.heard())
            for domain in self.managed.values()
            if not domain.left_alone and not domain.seen.paused
        )

    def _taking_part(self) -> dict[str, ManagedDomain]:
        return {one.name: one for one in self.managed.values() if one.standing is not None and one.listed}

    def pool_state(self) -> PoolState:
        """The pool and the domains that take part, as policies see them."""
        now_s = time.monotonic()
        return PoolState(
            cpus=len(self.pool.cpus),
            chunk=self.pool.topology.chunk,
            time_s=now_s,
            domains=tuple(self._state(domain, now_s) for domain in self._taking_part().values()),
        )

    def _state(self, domain: ManagedDomain, now_s: float) -> DomainState:
        rules, maximum = domain.rules, self._maximum(domain)
        has = domain.goal.partition if domain.goal is not None else domain.held & self.pool.cpus
        since_s = domain.demand_since_s
        state = DomainState(
            name=domain.name,
            minimum=min(rules.minimum, maximum),
            maximum=maximum,
            weight=rules.weight,
            priority=rules.priority,
            demand=domain.demand,
            allocation=len(has),
            may_rest=self.pool.rest_of(rules) != "keep",
            scaf_weight=domain.scaf_weight,
            newcomer=since_s is not None and now_s - since_s < self.config.newcomer_ms / 1000,
            points=domain.points,
        )
        if domain.goal is None or domain.standing is None or not self._stuck(domain.standing):
            return state
        # Nobody knows where it runs: it keeps what it was to have, and nobody else gets it.
        return replace(state, minimum=max(1, len(has)), maximum=max(1, len(has)), demand=len(has), may_rest=not has)

    @staticmethod
    def _stuck(standing: Standing) -> bool:
        """Whether calls on the domain have failed lately, or one has not come back for long."""
        return standing.affinity is None and standing.failures > 1

    async def _set_goals(self, pool: PoolState, decision: Decision) -> None:
        """Places the decision where anything about it is new, and writes the journal before it is brought about."""
        by_name = self._taking_part()
        competition = sum(1 for one in pool.domains if one.demand) > 1
        homes = {name: one.seen.home_nodes for name, one in by_name.items() if one.seen.home_nodes}
        placed = (decision.allocations, decision.sharing, self.pool.version, homes)
        if placed != self._placed or any(domain.goal is None for domain in by_name.values()):
            self._place(pool, decision, by_name, homes)
            self._placed = placed
        for domain in by_name.values():
            assert domain.goal is not None  # placed above
            limit = self._maximum(domain)
            if (domain.goal.limit, domain.goal.competition) != (limit, competition):
                domain.goal = replace(domain.goal, limit=limit, competition=competition)
        if all(domain.seen.key in self.journal.entries for domain in by_name.values()):
            # What was found is on disk. What is meant now may come later: whoever takes over looks at the pins too.
            self._background(self._write_journal())
        else:
            await self._write_journal()

    def _place(
        self,
        pool: PoolState,
        decision: Decision,
        by_name: Mapping[str, ManagedDomain],
        homes: Mapping[str, frozenset[int]],
    ) -> None:
        held = {name: domain.held for name, domain in by_name.items()}
        target = place(self.pool.topology, held, decision.allocations, decision.sharing, homes)
        bounds = {one.name: (one.minimum, one.maximum) for one in pool.domains}
        self.violations = check_partitions(target, decision.allocations, bounds, self.pool.topology, decision.sharing)
        for violation in self.violations:
            self.say_once(f"law {violation}", f"the partition breaks a law, please report it: {violation}")
        news = False
        for name, domain in by_name.items():
            before = domain.goal.partition if domain.goal is not None else domain.held
            if before != target[name] or (domain.goal is None and not target[name]):
                news = True
                words = [format_cpu_list(cpus) or "rest" for cpus in (before, target[name])]
                why = decision.reasons.get(name, "placement")
                self.events.record(Kind.ALLOCATION, name, before=words[0], after=words[1], why=why)
            domain.goal = Goal(target[name], self._maximum(domain), False)
        self.transitions += news

    def _step(self) -> None:
        """Takes the steps that can be taken now."""
        if self.unknown_since_s is not None or self.decision is None or not self.decision.managed:
            self._again_at_s, self._stepped = float("inf"), []
            return
        # What is not in the journal is not touched.
        by_name = {
            name: domain
            for name, domain in self._taking_part().items()
            if domain.goal is not None and domain.seen.key in self.journal.entries
        }
        if self._hear_all:  # who fell silent says nothing of it
            self._hear_all = False
            for domain in by_name.values():
                domain.hear()
        standings = {name: domain.standing for name, domain in by_name.items() if domain.standing is not None}
        goals = {name: domain.goal for name, domain in by_name.items() if domain.goal is not None}
        about = [*standings.values(), *goals.values()]
        same = len(about) == len(self._stepped) and all(map(operator.is_, about, self._stepped))
        if same and self.decision.sharing == self._stepped_sharing and time.monotonic() < self._again_at_s:
            return
        for _ in range(STEPS_MOST):
            if not self._step_once(by_name, standings, goals, self.decision.sharing):
                break
            standings = {name: domain.standing for name, domain in by_name.items() if domain.standing is not None}
        self._stepped = [*(domain.standing for domain in by_name.values()), *goals.values()]
        self._stepped_sharing = self.decision.sharing

    def _step_once(
        self,
        by_name: Mapping[str, ManagedDomain],
        standings: Mapping[str, Standing],
        goals: Mapping[str, Goal],
        sharing: frozenset[str],
    ) -> bool:
        """Takes steps; whether there were any."""
        steps = next_steps(standings, goals, sharing, time.monotonic(), self._timing)
        self._again_at_s = steps.again_at_s
        for name, domain in by_name.items():
            domain.standing = steps.standings[name]
            domain.enter(steps.states[name])
        for tell in steps.tells:
            by_name[tell.domain].tell(tell.told, tell.again, self._timing.deadline_s)
        for call in steps.calls:
            domain = by_name[call.domain]
            assert domain.standing is not None
            self._background(self._carry_out(domain, call, domain.standing))
        for name, holders in steps.waits.items():
            log.debug("domain %s: waits for pCPUs that %s still claim", name, ", ".join(holders))
        return bool(steps.tells or steps.calls)

    async def _carry_out(self, domain: ManagedDomain, call: Call, before: Standing) -> None:
        """Makes a call; what comes of it is seen at the next step."""
        try:
            read = await domain.carry_out(call)
        except HypervisorError as error:
            self._refused(domain, error)
        else:
            self.say_no_more(domain.name)
            if read is not None:
                vcpus, affinity = read
                if vcpus != before.vcpus:
                    self._vcpus_changed(domain, before.vcpus, vcpus)
                if before.affinity is not None:
                    self._compare(domain, before.affinity, affinity)
        self._news.set()

    def _refused(self, domain: ManagedDomain, error: HypervisorError) -> None:
        if isinstance(error, DomainGone):
            log.info("domain %s: went away while it was being changed", domain.name)
            self.wake()
        else:
            self.say_once(domain.name, f"domain {domain.name}: {error}", domain.name)

    def _compare(self, domain: ManagedDomain, known: Affinity, read: Affinity) -> None:
        """Somebody else's changes are put right by the next step, or respected: then the domain is not managed."""
        changes = foreign_changes(known, read)
        if not changes or domain.standing is None:
            return
        words = "; ".join(changes.values())
        respected = self.config.foreign_changes == "respect"
        what = "respected: not managed until `vscaf manage`" if respected else "put right"
        self.events.record(Kind.FOREIGN, domain.name, why=f"somebody changed {words}: {what}")
        if respected:
            why = f"somebody changed {words}"
            domain.set_aside(why)  # before the next step would put it right
            self._background(self.leave_alone(domain, "unmanaged", why, frozenset(changes)))

    async def leave_alone(self, domain: ManagedDomain, state: str, why: str, but: frozenset[str] = frozenset()) -> bool:
        """Gives the domain back and manages it no more until manage(). False: something could not be put back."""
        domain.set_aside(why)
        domain.spared = but
        one = LeftAlone(uuid=domain.seen.key.uuid, state=state, why=why)
        await self._write_left_alone(one.uuid, one)
        done = not await self.give_back([domain], but)
        domain.enter(state)
        self.events.record(Kind.RELEASED if state == "released" else Kind.UNMANAGED, domain.name, why=why)
        self.wake()
        return done

    async def manage(self, domain: ManagedDomain) -> None:
        """Undoes leave_alone."""
        domain.left_alone, domain.state = "", "unmanaged"
        await self._write_left_alone(domain.seen.key.uuid, None)
        self.events.record(Kind.MANAGED, domain.name)
        self.wake()

    async def give_back(self, domains: Iterable[ManagedDomain], but: frozenset[str] = frozenset()) -> list[str]:
        """Puts domains back as they were found; names of those that could not be. They are not managed any more.

        A domain that has ended needs nothing put back. One that could not be keeps its entry in the journal.
        """
        changed = [domain for domain in domains if domain.found is not None]
        outcomes = await asyncio.gather(*(self._give_back_one(domain, but) for domain in changed))
        left = {domain.seen.key: domain.name for domain, done in zip(changed, outcomes, strict=True) if not done}
        if left:
            try:
                active = {one.key for one in await self._host.observe()}
                left = {key: name for key, name in left.items() if key in active}
            except HypervisorError as error:
                log.error("whether the rest still runs is unknown (%s); the journal keeps what was found", error)
        for domain in changed:
            domain.given_back |= domain.seen.key not in left
        await self._write_journal()
        self._placed = ()
        return sorted(left.values())

    async def _give_back_one(self, domain: ManagedDomain, but: frozenset[str]) -> bool:
        try:
            await domain.give_back(self._timing.deadline_s, but)
        except HypervisorError as error:
            self._refused(domain, error)
            return False
        domain.enter("unmanaged")
        if domain.seen.key in self.journal.entries:
            self.events.record(Kind.GIVEN_BACK, domain.name)
        return True

    def use_policy(self, chosen: PolicyConfig, policy: Policy) -> None:
        """Decides by *policy* from the next look on."""
        self.events.record(Kind.POLICY, None, before=self.policy.name, after=chosen.name)
        self.former_policy = self.policy
        self.policy, self._policy, self._memory = chosen, policy, DecideMemory()
        self.wake()

    def _link(self, seen: DomainSeen) -> AgentLink | None:
        return agent_link(seen, lambda: self._heard(seen.key))

    def _heard(self, key: DomainKey) -> None:
        """A guest said something: demand is looked at, an acknowledgement takes the next step."""
        domain = self.managed.get(key)
        if domain is not None:
            self._look_wanted |= domain.news()
            domain.hear()
            self._news.set()

    def _background(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._calls.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("please report this: %r", error, exc_info=error)
        self._news.set()

    def say_once(self, about: str, words: str, domain: str | None = None) -> None:
        """Warns, unless the last warning about this said the same."""
        said = FIGURES.sub("#", words)  # what differs in a figure only says the same again
        if self._said.get(about) != said:
            self._said[about] = said
            self.events.record(Kind.REFUSED, domain, why=words)

    def say_no_more(self, about: str) -> None:
        """What was said about this is over."""
        self._said.pop(about, None)


def empty_pool(pool: HostPool) -> PoolState:
    """The pool without a domain: to try a policy and its options on."""
    return PoolState(len(pool.cpus), pool.topology.chunk, 0.0, ())


def chosen_policy(chosen: PolicyConfig, pool: PoolState) -> Policy:
    """The policy that *chosen* names, after it has shared *pool* once. UsageError where that cannot be."""
    try:
        policy = load_policy(chosen.name)
        decide(pool, policy, chosen.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # policies are other people's code: they may raise anything
        raise UsageError(f"policy {chosen.name} failed on the pool as it is: {error!r}: mend it first") from error
    return policy
