"""Whether what a domain's agent reports is believed. A domain whose agent is not believed is contained."""

import logging

from vscaf import clock
from vscaf.agentlink.interface import Link
from vscaf.core.model.trust import OfflineHistory, Steadiness, judged, steadiness

log = logging.getLogger(__name__)


class AgentTrust:
    """Remembers of one agent's reports whether they were true, and how often they changed."""

    def __init__(self) -> None:
        self._offline = OfflineHistory()
        self._steadiness = Steadiness()
        self._reported: tuple[int, int, bool, tuple[int, ...] | None, int] | None = None

    @property
    def distrusted(self) -> bool:
        """Whether vCPUs that it reports as offline have computed for several periods."""
        return self._offline.distrusted

    @property
    def doubted(self) -> bool:
        """Whether it is distrusted, or vCPUs that it reports as offline computed in the last period."""
        return self._offline.doubted

    @property
    def unsteady(self) -> bool:
        """Whether it changes its reports too often."""
        return self._steadiness.unsteady

    def start_over(self) -> None:
        """Forgets whether reports were true, because another agent may be there now."""
        self._offline = OfflineHistory()

    def judge(self, name: str, kept: bool) -> None:
        """Notes whether the vCPUs that the guest reports as offline were offline in the last period."""
        before, self._offline = self._offline, judged(self._offline, kept=kept)
        if self.distrusted and not before.distrusted:
            log.warning("domain %s: vCPUs compute that its agent reports as offline: it is contained", name)
        elif before.distrusted and not self.distrusted:
            log.info("domain %s: vCPUs that its agent reports as offline are offline: it is believed again", name)

    def follow(self, name: str, link: Link, sequence: int, confirmed: bool, vcpus: int) -> None:
        """Counts how often the agent changes its reports.

        sequence: number of the last allocation that was sent. confirmed: the agent has acknowledged it. It may change
        its report once after each allocation, and with each vCPU that was plugged.
        """
        before, self._reported = self._reported, (link.generation, sequence, confirmed, link.online, vcpus)
        turned, credit = False, 0
        if before is not None and before != self._reported:
            same_order = sequence == before[1]
            turned = link.generation != before[0] or (same_order and before[2] and self._reported[:4] != before[:4])
            credit = max(0, vcpus - before[4])
        elif not self.unsteady:
            return
        unsteady = self.unsteady
        self._steadiness = steadiness(self._steadiness, clock.now_s(), turned=turned, credit=credit)
        if self.unsteady and not unsteady:
            log.warning("domain %s: its agent changes its reports too often: it is contained for a while", name)
        elif unsteady and not self.unsteady:
            log.info("domain %s: its agent's reports are steady: it is believed again", name)
