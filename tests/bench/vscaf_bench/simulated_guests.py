"""Guests for benchmarks of the daemon. They only use the agents' protocol, over UNIX sockets.

    python -m vscaf_bench.simulated_guests DIRECTORY NUMBER [CHANGES [HOSTILE [OLDER]]]

serves DIRECTORY/0.sock and so on, one socket for each guest. Each guest looks four times per second, at a time of its
own, like an agent with three programs: figures that differ a little each time. It reports what is news, and the rest
once a second. The last OLDER of them (0) report each time, like agents without the capability `sparse`. Every second,
CHANGES of them (0) start or stop computing. The first HOSTILE of them (0) change their report HOSTILE_PER_SECOND times
per second, about as often as the daemon reads a guest: the demand, the online CPUs, and the acknowledgement.
It prints "ready", and ends when its standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import random
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PERIOD_S = 0.25
UNCHANGED_S = 1.0  # between two reports without news
VCPUS = 4
PROGRAMS = 3
HOSTILE_PER_SECOND = 90


def report_line(rng: random.Random, sequence: int, online: int, computing: bool) -> bytes:
    """A report as an agent writes it, with three programs that run or wait."""
    processes = []
    for number in range(PROGRAMS):
        useful, barrier = rng.uniform(0.85, 0.9), rng.uniform(0.02, 0.04)
        processes.append(
            {
                "pid": 1000 + number,
                "name": ("cg.W.x", "mg.W.x", "simulate")[number],
                "team": max(1, online // PROGRAMS) if computing else 1,
                "malleable": "full",
                "running": computing,
                "points": [
                    {"p": 1, "speedup": 1.0, "standard_error": 0.0, "samples": 40},
                    {
                        "p": 2,
                        "speedup": round(rng.uniform(1.8, 1.84), 4),
                        "standard_error": 0.021,
                        "samples": rng.randrange(40, 60),
                    },
                ],
                "learning": {
                    "cost": round(rng.uniform(0.3, 0.4), 4),
                    "budget": 0.01,
                    "used": 0.0072,
                    "metric": "rate",
                    "counters": True,
                },
                "decomposition": {
                    "useful": round(useful, 4),
                    "inflation": 0.02,
                    "fork": 0.01,
                    "dispatch": 0.01,
                    "barrier": round(barrier, 4),
                    "steal": round(1.0 - useful - barrier - 0.04, 4),
                    "idle_rate": round(barrier + 0.02, 4),
                    "section_ms": 1.2,
                },
            }
        )
    report = {
        "v": 1,
        "type": "report",
        "sequence": sequence,
        "online": list(range(online)),
        "demand": VCPUS if computing else 0,
        "busy": round(online - rng.uniform(0, 0.1), 3) if computing else 0.0,
        "processes": processes,
    }
    return json.dumps(report, separators=(",", ":")).encode() + b"\n"


@dataclass
class Guest:
    server: socket.socket
    due_s: float
    computing: bool
    channel: socket.socket | None = None
    sequence: int = 0
    online: int = VCPUS
    greeted: bool = False
    held: bytes = b""
    lines: dict[tuple[int, int, bool], list[bytes]] = field(default_factory=dict)
    turn: int = 0
    hostile: bool = False
    capabilities: tuple[str, ...] = ("offline", "quiet", "sparse")
    sparse: bool = False  # the host needs no report without news
    reported: tuple[int, int, bool] | None = None
    reported_s: float = 0.0

    def send(self, data: bytes) -> None:
        assert self.channel is not None
        # If the host does not read, an agent drops its reports. receive() notices when the host has gone.
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self.channel.send(data)

    def report(self, rng: random.Random) -> None:
        state = (self.sequence, self.online, self.computing)
        self.reported, self.reported_s = state, time.monotonic()
        if state not in self.lines:
            self.lines = {state: [report_line(rng, *state) for _ in range(16)]}
        self.turn += 1
        self.send(self.lines[state][self.turn % 16])

    def look(self, rng: random.Random) -> None:
        """A period has ended: reports, if there is news or it is time."""
        news = self.reported != (self.sequence, self.online, self.computing)
        if news or not self.sparse or time.monotonic() - self.reported_s > UNCHANGED_S - PERIOD_S / 2:
            self.report(rng)

    def alternate(self) -> None:
        """Sends a report and an acknowledgement in which demand, acknowledgement and online CPUs have changed."""
        self.turn += 1
        if self.turn % 2:
            online = list(range(1 + self.turn // 2 % VCPUS))
            ack = {"v": 1, "type": "ack", "sequence": self.sequence, "online": online, "sections_ended": True}
            self.send(json.dumps(ack).encode() + b"\n")
            return
        report = {"v": 1, "type": "report", "sequence": 0, "online": [0], "demand": self.turn // 2 % (VCPUS + 1)}
        self.send(json.dumps({**report, "busy": 0.0, "processes": []}).encode() + b"\n")

    def receive(self, rng: random.Random) -> bool:
        """Reads from the host. False: the host has gone."""
        assert self.channel is not None
        try:
            data = self.channel.recv(65536)
        except ConnectionResetError:
            return False
        *lines, self.held = (self.held + data).split(b"\n")
        for line in lines:
            order = json.loads(line) if line else {}
            if order.get("type") == "hello":
                cpus = {"possible": VCPUS, "present": VCPUS, "online": list(range(self.online))}
                hello = {"v": 1, "type": "hello", "agent": "simulated", "boot_id": "x", "cpus": cpus}
                self.send(json.dumps({**hello, "capabilities": self.capabilities}).encode() + b"\n")
                self.greeted = True
                self.sparse = "sparse" in self.capabilities and "sparse" in order.get("capabilities", ())
                self.report(rng)
            elif order.get("type") == "allocate":
                self.sequence = order["sequence"]
                self.online = min(VCPUS, order["cpus"]) or self.online
                ack = {"v": 1, "type": "ack", "sequence": self.sequence, "online": list(range(self.online))}
                self.send(json.dumps({**ack, "sections_ended": True}).encode() + b"\n")
                self.report(rng)
        return bool(data)


def serve(directory: Path, number: int, changes: int = 0, hostile: int = 0, older: int = 0) -> None:
    rng = random.Random(5)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    guests = []
    start_s = time.monotonic()
    for index in range(number):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(directory / f"{index}.sock"))
        server.listen(2)
        guest = Guest(server, start_s + PERIOD_S * index / number, computing=index % 2 == 0, hostile=index < hostile)
        if index >= number - older:
            guest.capabilities = ("offline",)
        guests.append(guest)
        selector.register(server, selectors.EVENT_READ, guests[-1])
    print("ready", flush=True)
    change_s = start_s
    while True:
        next_s = min(one.due_s for one in guests)
        for key, _events in selector.select(max(0.0, next_s - time.monotonic())):
            one = key.data
            if one is None:
                return
            if key.fd == one.server.fileno():
                one.channel = one.server.accept()[0]
                one.channel.setblocking(False)
                selector.register(one.channel, selectors.EVENT_READ, one)
            elif not one.receive(rng):
                selector.unregister(one.channel)
                one.channel.close()
                one.channel, one.greeted = None, False
        now_s = time.monotonic()
        if now_s >= change_s:
            change_s += 1.0
            for one in rng.sample(guests, changes):
                one.computing = not one.computing
        for one in guests:
            if now_s >= one.due_s:
                one.due_s += 1.0 / HOSTILE_PER_SECOND if one.hostile else PERIOD_S
                if one.greeted and one.hostile:
                    one.alternate()
                elif one.greeted:
                    one.look(rng)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), *map(int, sys.argv[2:]))
