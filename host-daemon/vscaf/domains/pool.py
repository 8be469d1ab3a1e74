"""The pool that the configuration names, on the host as it is now."""

from vscaf.config import Config
from vscaf.core.place.topology import SmtMode, Topology, pool_topology, remaining_topology
from vscaf.core.reconcile.pins import host_layout
from vscaf.core.reconcile.state import Treatment
from vscaf.domains.rules import DomainRules
from vscaf.values import DomainSettings, HostCpus

LEAST_SHARES = 2  # libvirt's "cpu_shares" is v1's cgroup shares, from 2 (default 1024), or v2's weight, from 1 (100)


class HostPool:
    """Which pCPUs may be handed out, and where domains without pCPUs run.

    `topology`: the pool's chunks that are online; `cpus`: all pCPUs of these chunks; `reserve`: pCPUs for domains at
    rest and for emulators, may be empty. `version` grows whenever these change. `gone`: no chunk of the pool is online;
    the other attributes are then unchanged. UsageError if the pool cannot be used on this host.
    """

    def __init__(self, config: Config, cpus: HostCpus) -> None:
        self._config = config
        self._cpus = cpus
        self._smt = SmtMode(config.smt)
        self._wanted = config.pool_cpus
        self.topology = pool_topology(self._wanted, cpus, self._smt)
        self._layout = host_layout(cpus)
        self.version = 0
        self.gone = False
        self.cpus = self.topology.cpus
        self.reserve = config.reserve_cpus(cpus.online) - self._wanted

    def renew(self, cpus: HostCpus) -> Topology | None:
        """Takes the host's present pCPUs. Returns the former topology if the pool's pCPUs changed, else None."""
        return self._use(cpus) if cpus != self._cpus else None

    def configure(self, config: Config, cpus: HostCpus | None) -> None:
        """Uses another configuration. cpus: the host's present pCPUs; None: the pool is as before.

        The caller has checked that the pool can be used on these pCPUs.
        """
        self._config, self._smt, self._wanted = config, SmtMode(config.smt), config.pool_cpus
        if cpus is not None:
            self._use(cpus)

    def _use(self, cpus: HostCpus) -> Topology | None:
        self._cpus = cpus
        before, now = self.topology, remaining_topology(self._wanted, cpus, self._smt)
        self.gone = not now.chunks
        if self.gone:  # domains cannot be moved anywhere: they have stopped, or run where the kernel lets them
            return None
        self.topology, self.cpus = now, now.cpus
        self._layout = host_layout(cpus)
        self.reserve = self._config.reserve_cpus(cpus.online) - self._wanted
        self.version += 1
        return before if before.cpus != now.cpus else None

    def rest_of(self, rules: DomainRules) -> str:
        """Where a domain rests: "reserve", "share" or "keep"."""
        return rules.rest or ("reserve" if self.reserve else "share")

    def maximum(self, rules: DomainRules, vcpus_maximum: int) -> int:
        """The most pCPUs that a domain may have: the least of its rules' maximum, its vCPU maximum and the pool."""
        most = len(self.cpus)
        # Asked for each domain at each look. min() and max() would take longer than everything else here.
        most = vcpus_maximum if vcpus_maximum < most else most
        most = rules.maximum if rules.maximum is not None and rules.maximum < most else most
        return most if most > 1 else 1

    def treatment(self, rules: DomainRules, found: DomainSettings, accelerated: bool) -> Treatment:
        """How a domain with these rules is treated."""
        on_reserve = self.rest_of(rules) == "reserve" and bool(self.reserve)
        rest_shares = found.cpu_shares
        if rest_shares is not None and not on_reserve:
            rest_shares = max(LEAST_SHARES, rest_shares * self._config.rest_weight_percent // 100)
        return Treatment(
            rest_area=self.reserve if on_reserve else self.cpus,
            rest_shares=rest_shares,
            shares=found.cpu_shares,
            emulator_area=self.reserve if self._config.emulator != "partition" else frozenset(),
            vcpus_found=found.vcpus,
            unplug=self._config.unplug and accelerated,
            layout=self._layout,
        )
