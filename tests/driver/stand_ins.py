"""Stand-ins for guests: their agents, and the CPU time that they use."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vscaf import clock
from vscaf.agentlink import messages
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.values import DomainSeen


class Agent:
    """A guest's agent behind a UNIX socket. manner: good, mute (never acknowledges), liar, silent (says nothing).

    runs: whether the guest's vCPUs run. While they do not, it says nothing, and it reads messages only later.
    """

    def __init__(self, path: Path, cpus: int) -> None:
        self.path, self.cpus = path, cpus
        self.manner, self.demand = "good", cpus
        self.runs: Callable[[], bool] = lambda: True
        self.online = list(range(cpus))
        self.sequence = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        self.hang_up()
        if self._server is not None:
            self._server.close()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def report(self) -> None:
        if self.manner == "silent" or not self.runs():
            return
        self._say(type="report", sequence=self.sequence, online=self.online, demand=self.demand, busy=0.0, processes=[])

    def _say(self, **fields: Any) -> None:
        for writer in self._writers:
            writer.write(json.dumps({"v": 1, **fields}).encode() + b"\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                while not self.runs():  # noqa: ASYNC110  (a guest has no event of it either)
                    await asyncio.sleep(0.005)
                if line != b"\n":
                    self._answer(messages.decode_from_host(line))
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, message: messages.FromHost) -> None:
        if self.manner == "silent":
            return
        if isinstance(message, messages.HostHello):
            cpus = {"possible": self.cpus, "present": self.cpus, "online": self.online}
            self._say(type="hello", agent="stand-in", boot_id="x", cpus=cpus, capabilities=[])
            self.report()
        elif isinstance(message, messages.Allocate) and self.manner != "mute":
            self.sequence = message.sequence
            self.online = list(range(max(1, min(self.cpus, message.cpus))))
            if self.manner == "liar":
                self.online = [0]
            self._say(type="ack", sequence=message.sequence, online=self.online, sections_ended=True)


class BusyHost(LibvirtHost):
    """A real connection. Its domains have agents and use the CPU time that is set in `busy`."""

    agents: dict[str, Agent]
    busy: dict[str, float]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.agents, self.busy = {}, {}
        self._used: dict[str, float] = {}
        self._at_s = 0.0

    async def observe(self) -> tuple[DomainSeen, ...]:
        return tuple(self._lively(one) for one in await super().observe())

    def _lively(self, one: DomainSeen) -> DomainSeen:
        agent = self.agents.get(one.name)
        # This counter only grows, whatever `busy` was before.
        used_s = self._used.get(one.name, 0.0) + self.busy.get(one.name, 0.0) * (clock.now_s() - self._at_s)
        return replace(
            one, vcpu_time_s={0: used_s}, agent_socket=str(agent.path) if agent is not None else one.agent_socket
        )

    def be_busy(self, name: str, cpus: float) -> None:
        now_s = clock.now_s()
        for each, busy in self.busy.items():
            self._used[each] = self._used.get(each, 0.0) + busy * (now_s - self._at_s)
        self._at_s = now_s
        self.busy[name] = cpus
