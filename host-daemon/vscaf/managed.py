"""One managed domain: what vscaf has done to it, and the levers on it (DESIGN section 7).

Every lever ends within its deadline and leaves the domain inside its partition, whether or not the guest plays along.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from vscaf.agentlink.link import AgentLink
from vscaf.agentlink.messages import Allocate
from vscaf.core.demand import AgentDemand, DemandMemory
from vscaf.core.pins import vcpu_pins
from vscaf.cpulist import format_cpu_list
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable
from vscaf.hypervisor.libvirt_host import LibvirtHost
from vscaf.hypervisor.values import DomainSeen, DomainSettings
from vscaf.journal import FoundSettings, JournalEntry

log = logging.getLogger(__name__)

LEAST_SHARES = 2  # libvirt's "cpu_shares" is cgroup v1's shares, from 2 (default 1024), or v2's weight, from 1 (100)
RESEND_S = 1.0
BUSY_PERIODS = 8  # a claimed speedup is held against the busiest of so many: a serial phase is no lie
STALE_REPORT_S = 1.5
GUEST_DEADLINE_SHARE = 0.6  # of the deadline: the guest still has to offline CPUs after its sections have ended


class ManagedDomain:
    """A run of a domain, from when it is first seen until it ends or is given back.

    `held`: pCPUs that its vCPUs may compute on; empty while it rests. `found`: None until vscaf is about to change it.
    """

    def __init__(self, seen: DomainSeen, host: LibvirtHost, link: AgentLink | None, deadline_s: float) -> None:
        self.seen = seen
        self.link = link
        self.found: DomainSettings | None = None
        self.held: frozenset[int] = frozenset()
        self.resting = False
        self.demand_memory = DemandMemory()
        self.demand = 0
        self.demand_since_s: float | None = None
        self.vcpu_time_s: float | None = None
        self.vcpu_time_at_s = 0.0
        self.usage_known = False
        self.busy_cpus = 0.0
        self.busy_recently: deque[float] = deque(maxlen=BUSY_PERIODS)
        self.scaf_weight: float | None = None
        self.limit = 0
        self.competition = False
        self.sequence = 0
        self.state = "found"
        self._host = host
        self._deadline_s = deadline_s
        self._cpus_told = 0
        self._sent_at_s = float("-inf")
        self._sent_to = -1
        self._pins: dict[int, frozenset[int]] = {}
        self._emulator_pin: frozenset[int] | None = None
        self._shares: int | None = None
        self._weightless_said = False
        self._plug_refused = 0

    @property
    def name(self) -> str:
        return self.seen.name

    def agent_demand(self) -> AgentDemand | None:
        """What the agent last said it could use; None where nobody speaks for the guest."""
        if self.link is None or self.link.report is None:
            return None
        return AgentDemand(demand=self.link.report.demand, busy=self.link.report.busy, age_s=self.link.age_s())

    def heard(self) -> bool:
        """Whether the agent has reported since the channel was opened."""
        return self.link is not None and self.link.report is not None

    async def adopt(self, entry: JournalEntry | None) -> None:
        """Reads what is there. A journal *entry* of this very run says what was found first and what was meant last."""
        now = await self._host.settings(self.seen.key)
        self.found = entry.found.settings() if entry is not None else now
        self._pins = dict(now.vcpu_pins)
        self._emulator_pin = now.emulator_pin
        self._shares = now.cpu_shares
        self.resting = entry is not None and not entry.partition
        self.held = frozenset() if self.resting else frozenset[int]().union(*now.vcpu_pins.values())
        self.sequence = entry.sequence if entry is not None else 0
        self._cpus_told = len(entry.partition) if entry is not None else 0
        if entry is not None:
            where = "rests" if self.resting else f"runs on pCPUs {format_cpu_list(self.held)}"
            log.info("domain %s: taken over as an earlier daemon left it: it %s", self.name, where)

    def entry(self, partition: frozenset[int]) -> JournalEntry:
        """What the journal has to say before *partition* (empty: rest) is brought about."""
        assert self.found is not None
        return JournalEntry(
            name=self.name,
            uuid=self.seen.key.uuid,
            run_id=self.seen.key.run_id,
            found=FoundSettings.of(self.found),
            partition=sorted(partition),
            sequence=self.sequence,
        )

    def cooperates(self) -> bool:
        """Whether the agent has acknowledged the newest allocation and still reports."""
        link = self.link
        return (
            link is not None
            and link.connected
            and link.acknowledged == self.sequence
            and link.generation == self._sent_to
            and link.age_s() < STALE_REPORT_S
        )

    async def shrink(self, keep: frozenset[int]) -> None:
        """Leaves all pCPUs but *keep*: the guest first; at the deadline it is contained by pinning."""
        await self._tell(len(keep))
        leaving = self.held - keep
        present = self._emulator_pin or keep
        await self._pin(keep, present if present.isdisjoint(leaving) else keep)

    async def rest(self, area: frozenset[int], weight_percent: int) -> None:
        """Gives up all pCPUs: from now on the vCPUs run over *area*, at that much of their weight."""
        assert self.found is not None
        await self._weigh(max(LEAST_SHARES, (self.found.cpu_shares or 0) * weight_percent // 100))
        self.resting = True
        self.held = frozenset()
        self._next_sequence(0)
        self._send()
        await self._apply_pins(vcpu_pins(area, self.seen.vcpus, None, cooperating=False), area)
        self._enter("resting")

    async def grow(self, partition: frozenset[int], emulator: frozenset[int]) -> None:
        """Takes *partition*, which nobody else holds now: CPUs first, team sizes after."""
        assert self.found is not None
        if self.resting:
            if self.found.cpu_shares is not None and self._shares != self.found.cpu_shares:
                await self._weigh(self.found.cpu_shares)
            self.resting = False
        self.held = partition  # from here on, even where the next call fails half-way
        await self._apply_pins(vcpu_pins(partition, self.seen.vcpus, None, cooperating=False), emulator)
        await self._tell(len(partition))
        await self._pin(partition, emulator)

    async def settle(self, area: frozenset[int], emulator: frozenset[int]) -> None:
        """Brings pins and the guest to what is meant: an agent came back or fell silent, or CPUs changed."""
        link = self.link
        if not self.sequence:  # it has what it was found with, and its guest does not know yet
            self._next_sequence(len(self.held))
        if link is not None and link.connected and not self._told_newest(link):
            due = time.monotonic() - self._sent_at_s >= RESEND_S
            if due or link.generation != self._sent_to:
                self._send()
        if self.resting:
            await self._apply_pins(vcpu_pins(area, self.seen.vcpus, None, cooperating=False), area)
        elif self.held:
            await self._plug()
            if not (self.state == "cooperating" and self._answer_may_come()):
                await self._pin(self.held, emulator)

    def retell(self, cpus_limit: int, competition: bool) -> None:
        """Lets the guest know that its limit or the competition changed, at its present allocation."""
        if (cpus_limit, competition) != (self.limit, self.competition):
            self.limit, self.competition = cpus_limit, competition
            if self.sequence:
                self._next_sequence(self._cpus_told)
                self._send()

    async def give_back(self) -> None:
        """Puts everything back as it was found. HypervisorError where libvirt refuses."""
        found = self.found
        if found is None:
            return
        now = await self._host.settings(self.seen.key)
        self._pins, self._emulator_pin, self._shares = dict(now.vcpu_pins), now.emulator_pin, now.cpu_shares
        self.resting = False
        self.held = frozenset[int]().union(*found.vcpu_pins.values())
        pins = {vcpu: found.vcpu_pins.get(vcpu, self.held) for vcpu in range(now.vcpus)}
        await self._apply_pins(pins, found.emulator_pin)
        if found.cpu_shares is not None:
            await self._weigh(found.cpu_shares)
        if self.sequence:
            self.competition = False
            await self._tell(found.vcpus)
        if now.vcpus > found.vcpus:
            if self.seen.accelerated:
                await self._host.unplug(self.seen.key, found.vcpus)
            else:
                log.warning(
                    "domain %s: keeps %d vCPUs instead of the %d found: without KVM an unplug never completes",
                    self.name,
                    now.vcpus,
                    found.vcpus,
                )
        self.found = None
        self._enter("given back")

    def _told_newest(self, link: AgentLink) -> bool:
        return link.acknowledged == self.sequence and link.generation == self._sent_to

    def _answer_may_come(self) -> bool:
        """Whether the guest was told something that it still has time to acknowledge."""
        link = self.link
        return (
            link is not None
            and link.connected
            and link.generation == self._sent_to
            and not self._told_newest(link)
            and time.monotonic() - self._sent_at_s < self._deadline_s
        )

    def _next_sequence(self, cpus: int) -> None:
        applied = self.link.report.sequence if self.link is not None and self.link.report is not None else 0
        self.sequence = max(self.sequence, applied) + 1
        self._cpus_told = cpus

    def _allocate(self) -> Allocate:
        return Allocate(
            sequence=self.sequence,
            cpus=self._cpus_told,
            limit=self.limit,
            competition=self.competition,
            deadline_ms=int(self._deadline_s * 1000 * GUEST_DEADLINE_SHARE),
        )

    def _send(self) -> None:
        if self.link is not None and self.link.connected:
            self._sent_at_s = time.monotonic()
            self._sent_to = self.link.generation
            self.link.send(self._allocate())

    async def _tell(self, cpus: int) -> None:
        """Tells the guest its allocation, and waits until the deadline where it is known to answer."""
        self._next_sequence(cpus)
        link = self.link
        if link is None or not link.connected:
            return
        if link.report is not None and link.age_s() > STALE_REPORT_S:
            self._send()
            return
        self._sent_at_s = time.monotonic()
        self._sent_to = link.generation
        if await link.allocate(self._allocate(), self._deadline_s) is None:
            log.info("domain %s: did not acknowledge %d CPUs in %.0f ms", self.name, cpus, self._deadline_s * 1000)

    async def _pin(self, partition: frozenset[int], emulator: frozenset[int]) -> None:
        cooperating = self.cooperates()
        online = self.link.online if self.link is not None else None
        cooperating = cooperating and online is not None and len(online) <= len(partition)
        await self._apply_pins(vcpu_pins(partition, self.seen.vcpus, online, cooperating=cooperating), emulator)
        self.held = partition
        self._enter("cooperating" if cooperating else "contained")

    async def _apply_pins(self, pins: Mapping[int, frozenset[int]], emulator: frozenset[int]) -> None:
        changed = {vcpu: cpus for vcpu, cpus in pins.items() if self._pins.get(vcpu) != cpus}
        if changed:
            await self._host.pin_vcpus(self.seen.key, changed)
            self._pins.update(changed)
        if emulator != self._emulator_pin:
            await self._host.pin_emulator(self.seen.key, emulator)
            self._emulator_pin = emulator

    async def _weigh(self, shares: int) -> None:
        if self._shares is None:
            if not self._weightless_said:
                self._weightless_said = True
                log.warning("domain %s: no cgroup CPU controller on this host: it rests at its full weight", self.name)
            return
        if shares != self._shares:
            await self._host.set_cpu_shares(self.seen.key, shares)
            self._shares = shares

    async def _plug(self) -> None:
        """Plugs vCPUs where the partition has more pCPUs than the domain has; a refusal is said once, not repeated."""
        wanted = min(len(self.held), self.seen.vcpus_maximum)
        if wanted <= self.seen.vcpus or wanted == self._plug_refused:
            return
        try:
            await self._host.plug(self.seen.key, wanted)
            log.info("domain %s: vCPUs %d -> %d (plugged)", self.name, self.seen.vcpus, wanted)
            # The new ones may run anywhere until they are pinned, so that comes at once, not at the next look.
            now = await self._host.settings(self.seen.key)
            self._pins = dict(now.vcpu_pins)
            self.seen = replace(self.seen, vcpus=now.vcpus)
        except (DomainGone, HypervisorUnreachable):
            raise
        except HypervisorError as error:
            self._plug_refused = wanted
            log.warning("domain %s: no vCPU plugged (%s); it goes on with %d", self.name, error, self.seen.vcpus)

    def _enter(self, state: str) -> None:
        if state != self.state:
            log.info("domain %s: %s -> %s", self.name, self.state, state)
            self.state = state


def agent_link(seen: DomainSeen, on_news: Callable[[], None]) -> AgentLink | None:
    """A started link to the agent of *seen*; None where the domain has no channel."""
    if seen.agent_socket is None:
        return None
    link = AgentLink(seen.name, Path(seen.agent_socket), on_news)
    link.start()
    return link
