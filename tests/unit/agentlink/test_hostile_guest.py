"""However a guest lies, the work that it causes in the daemon is bounded, and no other domain loses by it.

The real daemon runs on a simulated host in virtual time. The channel is real too, except epoll: the test decides when
the channel is read.
"""

import asyncio
import contextlib
import json
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_link import HELLO, REPORT
from vscaf.agentlink.hub import AgentHub
from vscaf.agentlink.link import NEWS_AT_ONCE, NEWS_PER_SECOND, AgentLink
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.core.model.trust import TURNS_AT_ONCE, TURNS_PER_SECOND, DemandLimits
from vscaf.daemon.loop import Daemon
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.simulate.engine.run import MemoryJournal
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.values import DomainKey, DomainSeen, HostCpus

VCPUS = 4
POOL = 8
SECONDS = 16.0
PERIOD_S = 0.25
SETTLING_S = 4.0
NUMBERS = frozenset(range(POOL))


class Turns(AgentHub):
    """Serves its links only when the test calls `serve`."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[int, Any] = {}
        self.reading: dict[int, bool] = {}

    def add(self, descriptor: int, link: Any) -> None:
        self.links[descriptor], self.reading[descriptor] = link, True

    def remove(self, descriptor: int) -> None:
        del self.links[descriptor], self.reading[descriptor]

    def watch(self, descriptor: int, *, reading: bool, writing: bool) -> None:
        self.reading[descriptor] = reading

    def serve(self) -> None:
        loop = asyncio.get_running_loop()
        for descriptor, link in list(self.links.items()):
            while self.reading.get(descriptor) and link.serve(loop.time(), 64.0)[1]:
                pass


@dataclass
class Guest:
    """An agent that obeys the daemon, or sends what the test wants."""

    channel: socket.socket
    hostile: bool = False
    online: int = VCPUS
    sequence: int = 0
    held: bytes = b""

    def send(self, *messages: dict[str, Any]) -> None:
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
        with contextlib.suppress(BlockingIOError):  # the daemon does not read it now, so its buffer is full
            self.channel.send(data)

    def report(self, **changes: Any) -> dict[str, Any]:
        online = list(range(self.online))
        return {**REPORT, "sequence": self.sequence, "online": online, "demand": VCPUS, **changes}

    def ack(self, **changes: Any) -> dict[str, Any]:
        online = list(range(self.online))
        return {"v": 1, "type": "ack", "sequence": self.sequence, "online": online, "sections_ended": True, **changes}

    def receive(self) -> None:
        try:
            *lines, self.held = (self.held + self.channel.recv(1 << 20)).split(b"\n")
        except BlockingIOError:
            return
        for line in lines:
            order = json.loads(line) if line else {}
            if order.get("type") == "hello":
                self.send({**HELLO, "cpus": {"possible": VCPUS, "present": VCPUS, "online": list(range(self.online))}})
            elif order.get("type") == "allocate":
                self.sequence = order["sequence"]
                self.online = min(VCPUS, order["cpus"]) or self.online
                if not self.hostile:
                    self.send(self.ack(), self.report())


SAYINGS: dict[str, Callable[[Guest], list[dict[str, Any]]]] = {
    "right": lambda guest: [guest.ack(), guest.report()],
    "nothing confirmed": lambda guest: [guest.report(sequence=0)],
    "confirmed": lambda guest: [guest.ack()],
    "all online": lambda guest: [guest.ack(online=list(range(VCPUS)))],
    "one online": lambda guest: [guest.ack(online=[0])],
    "others online": lambda guest: [guest.report(online=[0, VCPUS - 1])],
    "idle": lambda guest: [guest.report(demand=0)],
    "wants one": lambda guest: [guest.report(demand=1)],
    "wants two": lambda guest: [guest.report(demand=2)],
    "hello": lambda guest: [HELLO, guest.report()],
    "silence": lambda guest: [],
}


@dataclass
class Counted:
    """What the daemon did during SECONDS."""

    calls: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    unsteady: bool = False
    neighbour: str = ""
    neighbour_unsteady: bool = False
    own: str = ""


class Lines(logging.Handler):
    def __init__(self, counted: Counted) -> None:
        super().__init__(logging.INFO)
        self.counted = counted

    def emit(self, record: logging.LogRecord) -> None:
        self.counted.lines.append(record.getMessage())


class World:
    """A daemon and two guests that compute, each on half of the pool. One of them may be hostile."""

    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.hub = Turns()
        self.guests: dict[str, Guest] = {}
        self.servers: dict[str, socket.socket] = {}
        cores = tuple(frozenset({cpu}) for cpu in sorted(NUMBERS))
        self.host = SimulatedHost(HostCpus(NUMBERS, cores, dict.fromkeys(NUMBERS, 0)), clock=loop.time)
        for name in ("hostile", "neighbour"):
            server = self.servers[name] = socket.socket(socket.AF_UNIX)
            path = directory / f"{name}.sock"
            path.unlink(missing_ok=True)
            server.bind(str(path))
            server.listen(1)
            key = self.host.start(name, VCPUS, agent_socket=str(path))
            self.host.compute(key, dict.fromkeys(range(VCPUS), 0.95))
        config = Config(
            pool=f"0-{POOL - 1}",
            policy=PolicyConfig(name="equipartition"),
            domains={name: DomainConfig() for name in self.servers},
        )
        self.daemon = Daemon(config, self.host, self.host.cpus, MemoryJournal(), links=self._link)
        self._running = loop.create_task(self.daemon.run())

    def _link(self, seen: DomainSeen, on_news: Callable[[], None]) -> AgentLink:
        assert seen.agent_socket is not None
        link = AgentLink(seen.name, Path(seen.agent_socket), on_news, self.hub)
        link.start()
        self.guests[seen.name] = Guest(self.servers[seen.name].accept()[0])
        self.guests[seen.name].channel.setblocking(False)
        return link

    async def until(self, end_s: float, script: Sequence[tuple[str, float]]) -> None:
        """Goes on until *end_s*. The hostile guest follows *script*, if it is not empty."""
        loop = asyncio.get_running_loop()
        next_s, number, report_s = loop.time(), 0, loop.time()
        while loop.time() < end_s:
            if self.guests and loop.time() >= report_s:
                report_s += PERIOD_S
                for guest in self.guests.values():
                    if not guest.hostile:
                        guest.send(guest.report())
            if script and loop.time() >= next_s:
                what, gap_s = script[number % len(script)]
                self.guests["hostile"].send(*SAYINGS[what](self.guests["hostile"]))
                next_s, number = next_s + gap_s, number + 1
            for guest in self.guests.values():
                guest.receive()
            self.hub.serve()
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        for guest in self.guests.values():
            guest.hostile = False
        self.daemon.stop()
        await self.until(asyncio.get_running_loop().time() + 1.0, ())
        await self._running
        await self.daemon.close()
        for one in (*self.servers.values(), *(guest.channel for guest in self.guests.values())):
            one.close()


def run(directory: Path, script: Sequence[tuple[str, float]]) -> Counted:
    """Runs a guest that repeats *script*: (name of what it sends, seconds until the next). Returns what it caused."""
    counted = Counted()

    async def work() -> None:
        world = World(directory)
        names = {key: domain.name for key, domain in world.host.domains.items()}

        def called(call: str, key: DomainKey | None) -> None:
            counted.calls[call, names.get(key) if key is not None else None] += 1

        await world.until(SETTLING_S, ())
        world.guests["hostile"].hostile = True
        world.host.fault = called
        handler, logger = Lines(counted), logging.getLogger("vscaf")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        await world.until(SETTLING_S + SECONDS, script)
        logger.removeHandler(handler)
        world.host.fault = lambda call, key: None
        domains = {domain.name: domain for domain in world.daemon.managed.values()}
        counted.own, counted.neighbour = domains["hostile"].state, domains["neighbour"].state
        counted.unsteady = domains["hostile"].trust.unsteady
        counted.neighbour_unsteady = domains["neighbour"].trust.unsteady
        assert not world.daemon.violations
        await world.end()

    run_virtual(work())
    return counted


MOST_NEWS = NEWS_AT_ONCE + NEWS_PER_SECOND * SECONDS
MOST_TURNS = TURNS_AT_ONCE + TURNS_PER_SECOND * SECONDS
MOST_DEMANDS = DemandLimits().burst + DemandLimits().per_second * SECONDS

REGULAR_LOOKS = SECONDS / PERIOD_S + 2
CALLS_A_TURN = 2  # to contain it, and to believe it again
CALLS_A_DEMAND = 3  # to rest or shrink, to grow, and to match what the guest answered
LINES_A_TURN = 2 * CALLS_A_TURN
LINES_A_DEMAND = 8  # two domains: for each one event, and the states on the way


def check(counted: Counted) -> None:
    """The bounds of host-daemon/README.md, section Security."""
    looks = counted.calls["observe", None]
    assert looks <= REGULAR_LOOKS + MOST_NEWS, f"{looks} looks"
    pinned = counted.calls["pin_vcpus", "hostile"]
    assert pinned <= CALLS_A_TURN * MOST_TURNS + CALLS_A_DEMAND * MOST_DEMANDS, f"{pinned} times pinned"
    lines = len(counted.lines)
    assert lines <= LINES_A_TURN * MOST_TURNS + LINES_A_DEMAND * MOST_DEMANDS, f"{lines} lines in the log"
    assert not counted.neighbour_unsteady


FLIPS = [("nothing confirmed", 0.01), ("confirmed", 0.01)]
ONLINES = [("all online", 0.01), ("one online", 0.01), ("others online", 0.01)]
DEMANDS = [("idle", 0.02), ("confirmed", 0.01), ("wants two", 0.02), ("confirmed", 0.01)]
HELLOS = [("hello", 0.01), ("right", 0.01)]


@pytest.mark.parametrize("script", [FLIPS, ONLINES, DEMANDS, HELLOS], ids=["flips", "onlines", "demands", "hellos"])
def test_what_one_guest_causes_is_bounded(tmp_path: Path, script: list[tuple[str, float]]) -> None:
    check(run(tmp_path, script))


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(SAYINGS)), st.sampled_from([0.01, 0.06, 0.3])), min_size=1, max_size=8)
)
@example([("nothing confirmed", 0.3), ("right", 0.3)])
def test_whatever_a_guest_alternates_what_it_causes_is_bounded(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, float]]
) -> None:
    check(run(tmp_path_factory.mktemp("g"), script))


def test_who_only_flips_is_contained_and_pinned_a_few_times(tmp_path: Path) -> None:
    """It moves no other domain, so all that is done for it is bounded by its own turns."""
    counted = run(tmp_path, [("nothing confirmed", 0.3), ("right", 0.3)])
    assert counted.own == "contained" and counted.unsteady and counted.neighbour == "cooperating"
    assert counted.calls["pin_vcpus", "hostile"] <= CALLS_A_TURN * MOST_TURNS
    assert counted.calls["pin_vcpus", "neighbour"] == 0


def test_who_stops_to_flip_is_believed_again(tmp_path: Path) -> None:
    flips = [("nothing confirmed", 0.1), ("right", 0.1)] * 20
    counted = run(tmp_path, [*flips, *[("right", 0.25)] * 200])
    assert counted.own == "cooperating" and not counted.unsteady


def test_an_honest_guest_is_left_in_peace(tmp_path: Path) -> None:
    counted = run(tmp_path, [("right", 0.25)])
    assert counted.own == counted.neighbour == "cooperating"
    assert counted.lines == [] and counted.calls["pin_vcpus", "hostile"] == 0
    assert counted.calls["observe", None] <= REGULAR_LOOKS
