"""The reports of a simulated guest: its agent's channel to the daemon, and what its program has learned."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vscaf.agentlink import messages
from vscaf.agentlink.link import CONNECTED
from vscaf.simulate.scenarios.scenario import Noise

LEAST_COMPARISONS = 4
LEAST_ERROR = 0.02
"""As in the shim: the least comparisons for an estimate, and its least relative error (2%)."""

MEMORY = 40
"""Comparisons that an estimate remembers; older ones fade, as in the shim."""


class Agent(Protocol):
    """What a link needs of a guest.

    report_content: the parts of its report that the daemon acts on; they are the same for the same moment(). silent_s:
    seconds for which it could not send.
    """

    online: int

    def moment(self) -> tuple[float, int]: ...
    def report_content(self) -> tuple[object, ...]: ...
    def made_report(self, sequence: int) -> messages.Report: ...
    def silent_s(self) -> float: ...
    def receive(self, message: messages.Allocate) -> None: ...


@dataclass(slots=True)
class Learned:
    """The estimate of S(threads) by a program's shim: mean and mean square of comparisons that fade."""

    threads: int
    since_s: float
    counted: int = 0
    mean: float = 0.0
    square: float = 0.0

    def learn(self, speedup: float, until_s: float, noise: Noise, rng: random.Random) -> None:
        """Draws and adds the comparisons up to *until_s*, during which the true speedup was *speedup*."""
        new = int((until_s - self.since_s) * noise.per_s + 1e-9)
        if new < 1:
            return
        self.since_s += new / noise.per_s
        self.counted += new
        mean = speedup * (1.0 + noise.speedup * rng.gauss(0.0, 1.0) / math.sqrt(new)) if noise.speedup else speedup
        share = min(1.0, new / min(self.counted, MEMORY))
        self.mean += share * (mean - self.mean)
        self.square += share * (speedup * speedup * (1.0 + noise.speedup**2) - self.square)

    def estimate(self, noise: Noise) -> tuple[float, float, int] | None:
        """Speedup, standard error and comparisons; None: not known yet.

        The error is that of a mean of fading comparisons, widened like Student's distribution.
        """
        if self.counted < LEAST_COMPARISONS or self.mean <= 0.0:
            return None
        known = min(self.counted, MEMORY)
        variance = max(self.square - self.mean**2, (noise.speedup * self.mean) ** 2)
        wider = (known - 1) / (known - 3)
        error = math.sqrt(max(0.0, variance) * wider / known)
        return self.mean, max(LEAST_ERROR * self.mean, error), self.counted


class GuestLink:
    """The daemon's end of the channel to one guest (see agentlink.interface.Link). Its report is always current."""

    def __init__(self, guest: Agent, on_news: Callable[[], None]) -> None:
        self.connected = True
        self.generation = 1
        self.bad_lines = 0
        self.quiet = False
        self.fault: Exception | None = None
        self.acknowledged: int | None = None
        self.condition = CONNECTED
        self.agent_version: str | None = None
        self._guest = guest
        self._on_news = on_news
        self._report: messages.Report | None = None
        self._report_content: tuple[object, ...] = ()
        self._moment: tuple[float, int] | None = None

    @property
    def report(self) -> messages.Report | None:
        """The report that the agent would send now."""
        if not self.connected:
            return None
        now = self._guest.moment()
        if now == self._moment:
            return self._report
        self._moment = now
        report_content = self._guest.report_content()
        if report_content != self._report_content or self._report is None:
            self._report_content, self._report = report_content, self._guest.made_report(self.acknowledged or 0)
        return self._report

    @property
    def demand(self) -> int | None:
        """The demand in that report."""
        report = self.report
        return report.demand if report is not None else None

    @property
    def online(self) -> tuple[int, ...] | None:
        """The guest's online CPUs."""
        return tuple(range(self._guest.online)) if self.connected else None

    def age_s(self) -> float:
        """Seconds since the last report: 0 unless the domain does not run."""
        return self._guest.silent_s() if self.connected else math.inf

    def send(self, message: messages.HostHello | messages.Allocate | messages.WireError) -> bool:
        """The guest receives the message at once."""
        if isinstance(message, messages.Allocate) and self.connected:
            self._guest.receive(message)
        return self.connected

    async def stop(self) -> None:
        """Ends the link: no more messages or news."""
        self.connected = False

    def acknowledge(self, sequence: int) -> None:
        """The guest has carried out the allocation of that number."""
        self.acknowledged, self._moment = sequence, None
        self.news()

    def news(self) -> None:
        """Tells the daemon of a change in the report that it acts on."""
        if self.connected:
            self._on_news()

    def close(self) -> None:
        """The guest has ended."""
        if self.connected:
            self.connected = False
            self._on_news()
