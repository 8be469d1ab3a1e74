"""A daemon on libvirt's test driver. Random things happen to it, and its laws are checked after every step it takes."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libvirt
import msgspec
from vscaf import clock
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.core.reconcile.plan import plan
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.domains.domain import ManagedDomain
from vscaf.errors import HypervisorError, VscafError
from vscaf.journal import Journal
from vscaf.lab.polling import HANG_S
from vscaf.values import DomainKey
from vscaf_policies.gang import gang

from .faults import BROKEN_PIPE, Fault, Faults
from .hosts import ONLINE
from .node import write_node
from .stand_ins import Agent, BusyHost

CPUS = 5
POOL = "0,2,4"
PERIOD_MS = 50
CALL_TIMEOUT_S = 1.0
GANGS = (PolicyConfig(name="gang", options={"slice_s": 0.3}), gang)
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
READS = ("XMLDesc", "vcpuPinInfo", "emulatorPinInfo", "vcpusFlags", "getAllDomainStats", "listDomainsID", "getCPUMap")
ACTS = (
    *("pinVcpu", "pinVcpu", "pinVcpu", "pinEmulator", "setVcpusFlags", "setSchedulerParametersFlags"),
    *("suspend", "suspend", "resume", "resume"),
)
CODES = (
    libvirt.VIR_ERR_INTERNAL_ERROR,
    libvirt.VIR_ERR_OPERATION_FAILED,
    libvirt.VIR_ERR_OPERATION_INVALID,
    libvirt.VIR_ERR_OPERATION_TIMEOUT,
    libvirt.VIR_ERR_NO_DOMAIN,
    libvirt.VIR_ERR_RPC,
    libvirt.VIR_ERR_SYSTEM_ERROR,
    BROKEN_PIPE,
    libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
)

# libvirt's answers about a domain that has ended, and about no other. By a race an event may act on such a domain.
ENDED = (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID)


class CheckedDaemon(Daemon):
    """Calls `check` after each step, with the pCPUs that each domain held before it."""

    check: Callable[[dict[str, frozenset[int]]], None]

    def _step(self) -> None:
        before = {one.name: one.held for one in self.managed.values() if one.transition is not None}
        super()._step()
        self.check(before)


@dataclass
class History:
    """One random history. `log` has everything that happened, for the message if a law is broken."""

    seed: int
    directory: Path
    log: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    foreign: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    excused: set[frozenset[str]] = field(default_factory=set)
    known: dict[str, object] = field(default_factory=dict)
    found: dict[str, list[list[frozenset[int]]]] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    hung: list[Fault] = field(default_factory=list)
    offline: list[Fault] = field(default_factory=list)
    paused: set[str] = field(default_factory=set)
    checks: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        shapes = [(2, 2), (3, 3), (1, 1), (1, 2), (4, 4)]
        self.domains = {name: self.chance.choice(shapes) for name in "abcd"[: self.chance.randint(2, 4)]}
        self.gone: set[str] = set()
        self.faults = Faults()
        self.uri = write_node(self.directory, CPUS, self.domains)
        self.config = Config(
            uri=self.uri,
            pool=POOL if self.chance.random() < 0.6 else "2,4",
            state_directory=str(self.directory / "state"),
            control_socket=str(self.directory / "control.sock"),
            period_ms=PERIOD_MS,
            deadline_ms=50,
            foreign_changes="mend",
            domains={name: DomainConfig() for name in self.domains},
            policy=PolicyConfig(name="equipartition"),
        )
        self.daemon: Any = None  # a CheckedDaemon, once it is started
        self.agents = {
            name: Agent(self.directory / f"{name}.sock", most)
            for name, (_now, most) in self.domains.items()
            if self.chance.random() < 0.6
        }

    # The daemon

    async def start(self) -> None:
        self.host = BusyHost(
            self.uri,
            CALL_TIMEOUT_S,
            self.wake,
            self.tuned,
            opener=self.faults.open,
        )
        self.host.agents = self.agents
        await self.host.open()
        for name in self.domains:
            self.host.be_busy(name, self.agents[name].demand if name in self.agents else 1.0)
        self.journal = Journal(Path(self.config.state_directory), "boot")
        self.daemon = CheckedDaemon(self.config, self.host, await self.host.host_cpus(), self.journal)
        self.daemon.check = self.check
        if self.chance.random() < 0.5:
            self.daemon.use_policy(*GANGS)
        self.known.clear()
        self.leaving.clear()
        self.task = asyncio.create_task(self.daemon.run())

    def wake(self) -> None:
        if self.daemon is not None:
            self.daemon.wake()

    def tuned(self, key: DomainKey) -> None:
        if self.daemon is not None:
            self.daemon.tuned(key)

    async def kill(self) -> None:
        """Kills the daemon. Nothing is restored, and libvirt finishes the calls that it has begun."""
        self.faults.clear()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.daemon.close()
        await self.host.close()
        self.journal.close()
        while any(line.stuck for line in self.host._lines.values()):  # noqa: ASYNC110  (they end in libvirt's threads)
            await asyncio.sleep(0.005)

    # What there is

    def real_pins(self, name: str) -> list[frozenset[int]] | None:
        """The pins of the domain's vCPUs, read from libvirt without faults. None: it does not run."""
        try:
            masks = self.faults.real.lookupByName(name).vcpuPinInfo(LIVE)
        except libvirt.libvirtError:
            return None
        return [frozenset(cpu for cpu, there in enumerate(mask) if there) for mask in masks]

    def check(self, before: dict[str, frozenset[int]]) -> None:
        """Checks the laws of transitions and of trust after a step. A broken law is noted, not raised in the daemon."""
        self.checks += 1
        transition = {one.name: one for one in self.daemon.managed.values() if one.transition is not None}
        for name, one in transition.items():
            if self.known.get(name) is not one.found:  # it has just been adopted
                self.known[name] = one.found
                self.excused |= {frozenset({name, other}) for other in transition if other != name}
        for name in self.known.keys() - transition.keys():
            del self.known[name]
        self.leaving &= transition.keys()
        self.check_overlaps(transition, before)
        for name, one in transition.items():
            self.check_domain(name, one)

    def runs(self, name: str) -> bool:
        """Whether its vCPUs may compute, read from libvirt without faults."""
        return bool(self.raw(name).state()[0] != libvirt.VIR_DOMAIN_PAUSED)

    def is_over(self, one: ManagedDomain) -> bool:
        """Whether this run of the domain has ended. The daemon may not know it yet."""
        return self.real_pins(one.name) is None or self.raw(one.name).ID() != one.seen.key.run_id

    def check_domain(self, name: str, one: ManagedDomain) -> None:
        transition = one.transition
        pins = self.real_pins(name)
        assert transition is not None
        if pins is None or name in self.leaving or self.is_over(one):
            return
        if transition.known_suspended and not self.runs(name):
            return
        if one.unread:  # it claims what the journal says, even if it had not got there before the daemon ended
            return
        at_rest = transition.resting or transition.meant_to_rest
        allowed = transition.claim | (transition.treatment.rest_area if at_rest else frozenset())
        outside = frozenset().union(*pins) - allowed
        if transition.affinity is not None:
            self.counted[name] = len(transition.affinity.vcpus)
        known = transition.affinity is not None and dict(enumerate(pins)) == dict(transition.affinity.vcpus)
        if name in self.foreign:
            if known and not outside and not transition.moving:
                self.foreign.discard(name)
        elif len(pins) != self.counted.get(name):  # a vCPU plugged just now must be read first
            self.foreign.add(name)
        elif outside:
            self.law(f"{name} may run on {sorted(outside)} outside its claim, {sorted(transition.claim)}")

    def check_overlaps(self, transition: dict[str, ManagedDomain], before: dict[str, frozenset[int]]) -> None:
        names = sorted(transition)
        pairs = {
            frozenset({one, other})
            for place, one in enumerate(names)
            for other in names[place + 1 :]
            if transition[one].held & transition[other].held
        }
        sharing = self.daemon.decision.sharing if self.daemon.decision is not None else frozenset()
        for pair in pairs - self.excused:
            if pair <= sharing or pair & self.foreign or any(self.is_over(transition[name]) for name in pair):
                continue
            # It is still as it was found, or it will soon be so again, and may then run anywhere.
            if any(not self.takes_steps(transition[name]) for name in pair):
                continue
            taking_steps = {name: one for name, one in transition.items() if self.takes_steps(one)}
            goals = {name: one.goal.partition for name, one in taking_steps.items() if one.goal is not None}
            # One never pinned that cannot be pinned runs anywhere: none waits for it (_Stepper.placement_overdue).
            if any(self.placement_overdue(transition[name]) for name in pair):
                continue
            if not pair & plan({name: before.get(name, frozenset()) for name in goals}, goals, sharing).overlapping:
                self.law(f"{sorted(pair)} were apart and claim a pCPU together")
        self.excused = pairs

    def placement_overdue(self, one: ManagedDomain) -> bool:
        """Whether vscaf has never pinned it, although a call on it has failed or two deadlines have passed."""
        known = one.transition
        if known is None or known.placed:
            return False
        return known.failures > 0 or clock.now_s() >= known.found_at_s + 2 * self.daemon.config.deadline_ms / 1000

    def takes_steps(self, one: ManagedDomain) -> bool:
        """Whether it is to be managed, has a goal, and what was found is in the journal. Else it takes no steps."""
        return one.listed and one.goal is not None and one.seen.key in self.journal.entries

    def law(self, message: str) -> None:
        known = [
            f"{one.name}, run {one.seen.key.run_id}: {one.goal}, {one.transition}"
            for one in self.daemon.managed.values()
        ]
        events = [event.line() for event in self.daemon.events.since(0)]
        self.broken.append("\n  ".join([f"after {len(self.log)} events: {message}", *known, *events]))

    # What happens

    async def run(self, events: int) -> None:
        """Runs the history: *events* random events, then a time without trouble, then the end."""
        for agent in self.agents.values():
            await agent.start()
        await self.start()
        for name in self.domains:
            self.found[name] = [self.pins_or_fail(name)]
        try:
            for _ in range(events):
                await self.one_event()
                await asyncio.sleep(self.chance.choice((0.0, 0.01, 0.03, 0.1)))
                assert not self.broken, self.broken[0]
                assert not self.task.done(), "the daemon has ended"
            await self.peace()
            await self.end()
        finally:
            self.faults.clear()
            if not self.task.done():
                await self.kill()
            for agent in self.agents.values():
                await agent.stop()

    def pins_or_fail(self, name: str) -> list[frozenset[int]]:
        pins = self.real_pins(name)
        assert pins is not None
        return pins

    async def one_event(self) -> None:
        kinds = {
            self.domain_stops_or_starts: 3,
            self.domain_pauses: 2,
            self.domain_is_undefined: 0.3,
            self.demand_changes: 8,
            self.agent_changes: 4,
            self.call_fails: 8,
            self.call_hangs: 2,
            self.listing_is_partial: 1,
            self.faults_end: 3,
            self.somebody_pins: 3,
            self.daemon_is_killed: 1,
            self.policy_changes: 1,
            self.configuration_changes: 1,
            self.released_or_managed: 2,
            self.time_passes: 3,
        }
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        await kind()

    def note(self, message: str) -> None:
        self.log.append(f"{len(self.log)}. {message}")

    def some_domain(self) -> str:
        return self.chance.choice(sorted(self.domains.keys() - self.gone) or ["a"])

    def raw(self, name: str) -> Any:
        return self.faults.real.lookupByName(name)

    async def domain_stops_or_starts(self) -> None:
        name = self.some_domain()
        if name in self.gone:
            return
        if self.raw(name).isActive():
            self.note(f"destroy {name}")
            if not self.raw(name).isPersistent():
                self.gone.add(name)
            self.raw(name).destroy()
            if name in self.agents:
                self.agents[name].hang_up()
        else:
            self.note(f"start {name}")
            self.paused.discard(name)
            self.raw(name).create()
            self.found[name] = [self.pins_or_fail(name)]
            self.foreign.discard(name)

    async def domain_pauses(self) -> None:
        name = self.some_domain()
        if self.real_pins(name) is not None:
            paused = self.raw(name).info()[0] == libvirt.VIR_DOMAIN_PAUSED
            self.note(f"{'resume' if paused else 'suspend'} {name}")
            (self.paused.discard if paused else self.paused.add)(name)
            if paused:  # the daemon cannot know it before its next look
                self.foreign.add(name)
            (self.raw(name).resume if paused else self.raw(name).suspend)()

    async def domain_is_undefined(self) -> None:
        name = self.some_domain()
        if self.real_pins(name) is not None and self.raw(name).isPersistent():
            self.note(f"undefine {name}")
            self.raw(name).undefine()

    async def demand_changes(self) -> None:
        name, cpus = self.some_domain(), self.chance.choice((0, 1, 2, 3))
        self.note(f"{name} uses {cpus}")
        self.host.be_busy(name, cpus)
        if name in self.agents:
            self.agents[name].demand = min(cpus, self.agents[name].cpus)
            self.agents[name].report()

    async def agent_changes(self) -> None:
        if self.agents:
            name = self.chance.choice(sorted(self.agents))
            self.agents[name].manner = self.chance.choice(("good", "good", "mute", "liar", "silent"))
            self.note(f"agent of {name}: {self.agents[name].manner}")
            if self.chance.random() < 0.5:
                self.agents[name].hang_up()
            else:
                self.agents[name].report()

    async def call_fails(self) -> None:
        method = self.chance.choice(ACTS if self.chance.random() < 0.7 else READS)
        codes = CODES if method in ACTS else tuple(code for code in CODES if code not in ENDED)
        options: dict[str, Any] = {
            "times": self.chance.choice((1, 1, 2, 4)),
            "skip": self.chance.choice((0, 0, 1, 2)),
            "error": self.chance.choice(codes),
            "acts": self.chance.random() < 0.4,
        }
        self.note(f"{method} fails: {options}")
        fault = self.faults.inject(method, **options)
        if method == "pinVcpu" and options["error"] == libvirt.VIR_ERR_SYSTEM_ERROR:
            self.offline.append(fault)

    async def call_hangs(self) -> None:
        method = self.chance.choice(ACTS + READS[:5])
        acts = self.chance.random() < 0.5
        self.note(f"{method} hangs, acts {'before' if acts else 'after'}")
        self.hung.append(self.faults.inject(method, hang=True, acts=acts))

    async def listing_is_partial(self) -> None:
        times = self.chance.choice((1, 2, 3))
        self.note(f"the next {times} listings leave out domains")
        self.faults.inject("getAllDomainStats", times=times, result=lambda rows: rows[:1])

    async def faults_end(self) -> None:
        self.note("no more faults")
        self.faults.clear()

    async def somebody_pins(self) -> None:
        name = self.some_domain()
        pins = self.real_pins(name)
        if pins is None:
            return
        cpus = frozenset(self.chance.choice(((0,), (2,), (4,), (0, 2), (0, 2, 4))))
        vcpu = self.chance.randrange(len(pins))
        self.note(f"somebody pins vCPU {vcpu} of {name} to {sorted(cpus)}")
        self.foreign.add(name)
        self.raw(name).pinVcpu(vcpu, tuple(cpu in cpus for cpu in range(8)))
        one = next((one for one in self.daemon.managed.values() if one.name == name), None)
        known = one is not None and not self.is_over(one)  # the record is of this run
        journaled = known and one.seen.key in self.journal.entries and one.found is not None
        # True also if it is managed again already: it is adopted after it has been given back.
        being_given_back = one is not None and one.transition is None and one.lock.locked()
        if not journaled:  # vscaf has changed nothing yet, so this may be what was found
            self.found[name].append(self.pins_or_fail(name))
        elif being_given_back or name in self.leaving or (one is not None and one.left_alone):
            # This pin may stay and be found later. The pins of the other vCPUs may still be put back.
            self.found[name] += [[*each[:vcpu], cpus, *each[vcpu + 1 :]] for each in self.found[name]]

    async def daemon_is_killed(self) -> None:
        self.note("the daemon is killed, another one starts")
        await self.kill()
        await self.start()

    async def policy_changes(self) -> None:
        name = self.chance.choice(("equipartition", "max-speedup", "gang", "gang", "unmanaged", "rollback", "nonsense"))
        self.note(f"policy {name}")
        operations = Operations(self.daemon)
        with contextlib.suppress(VscafError):
            if name == "rollback":
                await operations.rollback_policy()
            elif name == "gang":
                self.daemon.use_policy(*GANGS)
            else:
                await operations.set_policy(name, {})

    async def configuration_changes(self) -> None:
        """Another pool, and for each domain another bound, or it is not managed."""
        pool = self.chance.choice((POOL, POOL, "2,4", "0,2"))
        rules = [DomainConfig(), DomainConfig(), DomainConfig(maximum=1), DomainConfig(managed=False)]
        await self.reload(pool, {name: self.chance.choice(rules) for name in self.domains})

    async def reload(self, pool: str, domains: dict[str, DomainConfig]) -> None:
        self.note(f"reload: pool {pool}, {domains}")
        with contextlib.suppress(VscafError):
            cpus = await self.host.host_cpus()
            self.leaving |= {name for name, rules in domains.items() if not rules.managed}
            # Those at rest may have other pins than the new rest area until they are moved.
            known = {one.name: one.transition for one in self.daemon.managed.values() if one.transition is not None}
            self.foreign |= {name for name, one in known.items() if one.resting or one.meant_to_rest}
            self.config = msgspec.structs.replace(self.config, pool=pool, domains=domains)
            self.daemon.configure(self.config, cpus)

    async def released_or_managed(self) -> None:
        name = self.some_domain()
        one = next((one for one in self.daemon.managed.values() if one.name == name), None)
        operations = Operations(self.daemon)
        with contextlib.suppress(VscafError):
            if one is not None and one.left_alone:
                self.note(f"manage {name}")
                await operations.manage(name)
            else:
                self.note(f"release {name}")
                self.leaving.add(name)
                await operations.release(name)

    async def time_passes(self) -> None:
        await asyncio.sleep(0.3)

    # From here on without trouble

    async def peace(self) -> None:
        """Without trouble every managed domain reaches its goal."""
        self.note("peace")
        self.faults.clear()
        await self.reload(self.config.pool, {name: DomainConfig() for name in self.domains})
        if self.daemon.policy_name == "unmanaged":
            await Operations(self.daemon).set_policy("equipartition", {})
        for agent in self.agents.values():
            agent.manner = "good"
            agent.report()
        end_s = time.monotonic() + 5 * HANG_S  # this loop's clock goes as slowly as a busy machine
        while late := self.not_settled():
            assert not self.broken, self.broken[0]
            assert not self.task.done(), "the daemon has ended"
            assert time.monotonic() < end_s, f"without trouble, but {late}"
            for agent in self.agents.values():
                agent.report()
            await asyncio.sleep(0.05)

    def not_settled(self) -> str:
        managed = {one.name: one for one in self.daemon.managed.values()}
        for name in self.domains:
            pins = self.real_pins(name)
            if pins is None:
                if name in managed:
                    return f"{name} does not run, and is managed"
                continue
            one = managed.get(name)
            if one is None:
                return f"{name} is not managed"
            if one.left_alone:
                continue
            transition, goal = one.transition, one.goal
            if transition is None or goal is None or transition.claim != goal.partition or transition.moving:
                return f"{name} is not at its goal: {goal}, {transition}"
            if goal.suspended != transition.known_suspended or transition.suspended_by_us != transition.known_suspended:
                return f"{name} is not where it should be: {goal}, {transition}"
            if not self.runs(name) and name not in self.paused and not transition.suspended_by_us:
                return f"{name} is suspended, and nothing will resume it"
            if transition.known_suspended:
                continue
            outside = frozenset().union(*pins) - (goal.partition or transition.treatment.rest_area)
            if outside:
                return f"{name} runs on {sorted(outside)} too"
        return ""

    def same(self, name: str, pins: list[frozenset[int]], found: list[frozenset[int]]) -> bool:
        """Whether these are the pins that were found. If libvirt has refused a pin of this domain as it does for
        offline CPUs, offline CPUs may be missing in a pin."""
        refused = any(name in fault.affected for fault in self.offline)
        return len(pins) == len(found) and all(
            now == then or (refused and now == then & ONLINE) for now, then in zip(pins, found, strict=True)
        )

    async def end(self) -> None:
        """The daemon stops, and everything is as it was found."""
        for name in self.domains:
            self.leaving.add(name)
        self.daemon.stop()
        assert await self.task, f"not put back: {self.daemon.not_put_back}"
        for name in self.domains:
            pins = self.real_pins(name)
            if pins is not None:
                now, _most = self.domains[name]
                found = [each[:now] for each in self.found[name]]
                assert any(self.same(name, pins[:now], each) for each in found), (
                    f"{name} is left with {pins}, and was found with one of {found}"
                )
                assert self.runs(name) or name in self.paused, f"{name} is left suspended"
        assert not self.journal.entries, f"the journal keeps what was put back: {self.journal.entries}"
        await self.daemon.close()
        await self.host.close()
        self.journal.close()
        assert not self.broken, self.broken[0]


async def live(seed: int, directory: Path, events: int) -> History:
    """Runs a history. An AssertionError names its seed and lists what happened."""
    history = History(seed, directory)
    try:
        await history.run(events)
    except (AssertionError, HypervisorError) as error:
        steps = "\n  ".join(history.log)
        raise AssertionError(f"history {seed} of {history.domains}: {error}\n  {steps}") from error
    return history
