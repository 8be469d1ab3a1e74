"""The steal governor of Linux, for comparison: each guest uses fewer of its vCPUs while the host is short of CPUs.

It is a module of the guest's kernel (drivers/virt/steal_governor.c, accepted for Linux in 2026). The host and the other
guests do not take part. Once a second, the kernel divides the time for which its vCPUs were ready but had no pCPU
(steal) by the time of all its vCPUs. If the share is above 5%, its threads run on one core fewer; at 2% or less, on one
core more. Programs are not told, so a team keeps its threads: on fewer vCPUs there are several threads on each.
"""

from vscaf_policies import Options, PoolState, refuse_unknown_options

from vscaf.simulate.engine.guest import Guest, World
from vscaf.simulate.scenarios.scenario import GuestPlan
from vscaf.values import RunState

STEAL_GOVERNOR = "steal-governor"
"""The name of the policy in the simulator."""

PERIOD_S = 1.0
HIGH_SHARE, LOW_SHARE = 0.05, 0.02
"""The defaults of the kernel module's interval_ms, high_threshold and low_threshold."""


def steal_governor(pool: PoolState, options: Options) -> None:
    """The host changes nothing. Takes no option."""
    refuse_unknown_options(STEAL_GOVERNOR, options)


def next_usable(usable: int, vcpus: int, core: int, steal_share: float) -> int:
    """How many vCPUs a guest uses in the next second: one core fewer, one more, or as many as before.

    usable: in the last second. core: vCPUs of a core. At least one core stays, and at most all *vcpus* are used.
    """
    if steal_share > HIGH_SHARE:
        return max(min(core, vcpus), usable - core)
    return min(vcpus, usable + core) if steal_share <= LOW_SHARE else usable


class GovernedGuest(Guest):
    """A guest whose kernel has the governor. `online`: the vCPUs that it uses. Its cores are as large as the host's."""

    def __init__(self, plan: GuestPlan, world: World, seed: int) -> None:
        super().__init__(plan, world, seed)
        self._core = len(world.host.cpus.cores[0])
        self._waiting_cpus = 0.0  # how many of its vCPUs are ready, but have no pCPU
        self._stolen_s = 0.0  # since the last tick

    def start(self) -> None:
        """Boots the guest, and its governor."""
        super().start()
        self._loop.call_later(PERIOD_S, self._tick)

    def update(self) -> None:
        """Counts work and steal since the last update."""
        before_s = self._updated_s
        super().update()
        self._stolen_s += self._waiting_cpus * (self._updated_s - before_s)

    def changed(self) -> None:
        """Its share of CPU time may have changed: computes its new speed and steal."""
        super().changed()
        assert self.key is not None  # it runs
        domain = self._host.domains[self.key]
        wanted_cpus = sum(domain.wanted.values()) if domain.state is RunState.RUNNING else 0.0
        self._waiting_cpus = max(0.0, wanted_cpus - sum(self._host.rates(self.key).values()))

    def _tick(self) -> None:
        if not self.running:
            return
        self.update()
        steal_share = self._stolen_s / (self.plugged * PERIOD_S)
        self._stolen_s = 0.0
        self._switch(next_usable(self.online, self.plugged, self._core, steal_share))
        self._loop.call_later(PERIOD_S, self._tick)
