"""A place for workloads: some members (guests, or programs without guests) that share the CPUs of a pool.

An *arrangement* is how the members share the pool while they compute:

- `passive`: left to the kernel, and the threads of OpenMP programs sleep while they wait: OMP_WAIT_POLICY=passive.
- `static`: partitioned by hand. Each member has its own pCPUs, and only as many vCPUs online.
- `unmanaged`: left to the kernel.
- `pinned`: vCPU i on the i-th pCPU of the pool, in each member.
- `quota`: each member may use an equal share of the pool's CPU time.
- `steal-governor`: left to the kernels, and the steal governor of each guest's kernel is on.
- any other name: a policy of vscaf. The programs are then started by `vscaf-run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NoReturn, Protocol

from vscaf.bench.observe.watch import Watch
from vscaf.errors import VscafError

BASELINES = ("passive", "static", "unmanaged", "pinned", "quota", "steal-governor")
"""In the order of reports: first the two that are the hardest to beat."""


class PlaceError(VscafError):
    """The place cannot do it. The message says what is wrong and what to do."""


def raise_also(error: BaseException, text: str) -> NoReturn:
    """Raises an error or an interruption again, so that the user is also told *text*."""
    if isinstance(error, VscafError):
        raise PlaceError(f"{error}; {text}") from error
    if isinstance(error, KeyboardInterrupt | SystemExit):  # they have no message
        raise PlaceError(f"interrupted; {text}") from error
    error.add_note(text)
    raise error


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: its exit status (128 + signal if a signal ended it), and its output and errors together.

    pieces: the output as it came, each piece with its time (CLOCK_MONOTONIC of the host, in seconds).
    """

    status: int
    output: str
    pieces: Sequence[tuple[float, str]] = ()


class Started(Protocol):
    """A command that was started."""

    def wait(self, timeout_s: float) -> Ended:
        """Its end. Raises TimeoutError (it goes on), PlaceError if the member is gone."""

    def kill(self) -> None:
        """Ends it and all that it started, if it still runs."""


class Arranged(Protocol):
    """Members that are arranged now."""

    launcher: str
    """What comes before the command of a program: "vscaf-run " under a policy, else empty."""
    helpers: Sequence[int]
    """Pids of processes that belong to the arrangement: a daemon or an agent."""

    def transitions(self) -> int:
        """How often a daemon has changed allocations so far; 0 without one."""


@dataclass(slots=True)
class WithoutDaemon:
    """Members that no daemon manages."""

    launcher: str = ""
    helpers: Sequence[int] = ()

    def transitions(self) -> int:
        return 0


class Place(Protocol):
    """Members that share a pool. They have the workloads' files."""

    description: str
    """One line for the report: "2 guests of 2 vCPUs on 2 pCPUs, TCG"."""
    members: Sequence[str]
    """Their names."""
    cpus: int
    """CPUs of the pool. Each member can use as many."""
    on_one_cpu: str
    """What comes before a command whose threads are all to be on one CPU of a member."""

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> Started:
        """Starts a shell command in a member, in the directory of the workloads' files.

        environment: variables that it has beside those of the arrangement, which they override.
        """

    def clock_ahead_s(self, member: str) -> float | None:
        """How far CLOCK_MONOTONIC of the member is ahead of this host's; None if that is not known."""

    def arrange(self, arrangement: str, allocations: Sequence[int]) -> AbstractContextManager[Arranged]:
        """Arranges the members until the end of the context. Then everything is put back.

        allocations: CPUs of each member that computes, in order: `static` sets them. Raises PlaceError if this place
        does not know the arrangement; the message says why.
        """

    def commands(self, arrangement: str, allocations: Sequence[int]) -> list[str]:
        """The commands with which an operator makes this arrangement by hand; empty for policies and for `unmanaged`.

        allocations: as for `arrange`.
        """

    def watch(self, helpers: Sequence[int]) -> Watch:
        """A watch over the pool and the members. helpers: pids of the bench's other processes."""
