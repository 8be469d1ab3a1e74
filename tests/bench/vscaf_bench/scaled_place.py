"""The scaled machine as a place for programs: two members that share one guest, and a stand-alone agent or none in it.

Every program waits asleep (OMP_WAIT_POLICY=passive), because a spinning vCPU uses up its quota, except under
`unmanaged`. The agent begins each run without what it has learned in earlier ones, but knows the verdicts of the image.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from vscaf.bench.observe.watch import Watch
from vscaf.bench.places.baselines import PASSIVE, setting
from vscaf.bench.places.domains import shell_lines
from vscaf.bench.places.lab import LabMember, LabStarted
from vscaf.bench.places.no_vm import check_policy
from vscaf.bench.places.place import Arranged, PlaceError, WithoutDaemon
from vscaf.cpulist import format_cpu_list
from vscaf.lab import Command, Guest
from vscaf.lab.polling import HANG_S

from .scaled_guest import PERIOD_US, QUOTA_US
from .scaled_watch import ScaledWatch

STATUS_S = 1
# What the agent keeps on disk. The image has the verdicts on its programs there.
_KEPT = "/var/cache/vscaf /var/lib/vscaf"
_KEEP = f"mkdir -p {_KEPT} && tar -cf /root/agent-files.tar {_KEPT}"
_FORGET = f"rm -rf {_KEPT} && tar -xf /root/agent-files.tar -C /"
_ANSWERS = "until vscaf-agent --status > /dev/null 2>&1; do usleep 50000; done"


class ScaledPlace:
    """See the module. `status`: what the agent said in the last run under a policy: host's time and its JSON."""

    members: Sequence[str] = ("first", "second")
    on_one_cpu = "taskset -c 0 "

    def __init__(self, guest: Guest, pool: Sequence[int]) -> None:
        self._guest = guest
        self._member = LabMember(guest)
        self._pool = pool
        self._environment: Mapping[str, str] = PASSIVE
        self._cpus: Mapping[str, str] = {}
        self.cpus = guest.vcpus
        self.description = f"one guest of {self.cpus} slow vCPUs on {len(pool)} pCPUs, {guest.domain_type}"
        self.status: list[tuple[float, dict[str, Any]]] = []
        self._run(_KEEP)

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> LabStarted:
        cpus = self._cpus.get(member)
        placed = f"taskset -c {cpus} {command}" if cpus else command
        return self._member.start(shell_lines(self._member.directory, placed, {**self._environment, **environment}))

    def clock_ahead_s(self, member: str) -> float | None:
        return self._member.clock_ahead_s()

    @contextmanager
    def arrange(self, arrangement: str, allocations: Sequence[int]) -> Iterator[Arranged]:
        self.status = []
        if arrangement == "static":
            parts = [setting("static", range(self.cpus), self.cpus, allocations, number) for number in range(2)]
            self._cpus = {
                member: format_cpu_list(frozenset().union(*part.pins))
                for member, part in zip(self.members, parts, strict=True)
                if part is not None
            }
        elif arrangement == "unmanaged":
            self._environment = {}
        try:
            if arrangement in ("static", "unmanaged", "passive"):
                yield WithoutDaemon()
            else:
                with self._agent(arrangement):
                    yield WithoutDaemon("vscaf-run ")
        finally:
            self._cpus, self._environment = {}, PASSIVE

    @contextmanager
    def _agent(self, policy: str) -> Iterator[None]:
        """A stand-alone agent, whose status is read meanwhile."""
        check_policy(policy)
        self._run(_FORGET)
        agent = self._guest.start(f"exec vscaf-agent --standalone --policy {policy}")
        try:
            self._run(_ANSWERS)
            watched = self._guest.start(f"exec vscaf-agent --status {STATUS_S} --json")
            try:
                yield
                if agent.done():
                    raise PlaceError(f"the agent has ended: {agent.output().decode(errors='replace')[-300:]}")
                self.status = statuses(watched.pieces())
            finally:
                _end(watched)
        finally:
            _end(agent)

    def _run(self, command: str) -> None:
        try:
            done = self._guest.run(command, HANG_S)
        except TimeoutError as error:
            raise PlaceError(str(error)) from None
        if done.status != 0:
            raise PlaceError(f"`{command}` failed in the guest: {done.text[-300:]}")

    def commands(self, arrangement: str, allocations: Sequence[int]) -> list[str]:
        return []

    def watch(self, helpers: Sequence[int]) -> Watch:
        return ScaledWatch(self._pool, self._guest, QUOTA_US / PERIOD_US)


def _end(command: Command) -> None:
    if not command.done():
        command.kill()
        command.wait(HANG_S)


def statuses(pieces: Sequence[tuple[float, str]]) -> list[tuple[float, dict[str, Any]]]:
    """What `vscaf-agent --status SECONDS --json` printed: each answer, with the time at which its end came.

    The last answer may be cut off.
    """
    decoder = json.JSONDecoder()
    found, text = [], ""
    for at_s, piece in pieces:
        text = (text + piece).lstrip()
        while text:
            try:
                value, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                break
            found.append((at_s, value))
            text = text[end:].lstrip()
    return found
