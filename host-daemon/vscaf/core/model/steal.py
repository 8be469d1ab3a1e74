"""The time that a domain's vCPUs were ready to run and had no pCPU, as a sum that never falls."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Steal:
    """The delays of one domain's vCPUs. last_s: the last known delay of each vCPU that was ever seen, in seconds.

    ended_s: the sum of the delays of vCPUs that were unplugged and plugged again, because their new thread begins at 0.
    """

    last_s: Mapping[int, float] = field(default_factory=dict)
    ended_s: float = 0.0

    def after(self, delay_s: Mapping[int, float]) -> "Steal":
        """These delays after another look. *delay_s*: see DomainSeen.vcpu_delay_s; vCPUs may be missing."""
        if not delay_s or delay_s == self.last_s:
            return self
        ended_s = [before for vcpu, before in self.last_s.items() if delay_s.get(vcpu, before) < before]
        return Steal({**self.last_s, **delay_s}, self.ended_s + sum(ended_s))

    @property
    def total_s(self) -> float | None:
        """The sum over all vCPUs since the domain started, in seconds. None: the host reported no delay."""
        return self.ended_s + sum(self.last_s.values()) if self.last_s else None
