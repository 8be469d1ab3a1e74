"""The inferred state of one domain, kept from one look to the next. The functions of inference.py write it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vscaf_policies import SpeedupPoint

from vscaf.core.model.curve_memory import Curves
from vscaf.core.model.demand import DemandMemory
from vscaf.core.model.steal import Steal
from vscaf.core.model.trust import DemandHistory, HostView


@dataclass(slots=True)
class Inferred:
    """The demand and the speedup of one domain. Times are those of clock.now_s()."""

    demand: int = 0
    """The most pCPUs that it can use now."""
    confirmed: bool = False
    """Whether at the last look its agent reported this demand again, and the host saw nothing else."""
    demand_memory: DemandMemory = field(default_factory=DemandMemory)
    demand_history: DemandHistory = field(default_factory=DemandHistory)
    """It limits how often the demand may change."""
    wanted_at_s: float | None = None
    """When the demand history was last brought up to date."""
    rested_since_s: float = float("-inf")
    newcomer_since_s: float = float("-inf")
    """When it last began to compute after a long rest, or with other programs."""
    programs: frozenset[str] = frozenset()
    """The names of the programs that ran last."""

    busy_cpus: float = 0.0
    """How many pCPUs its vCPUs used on average in the last window."""
    usage_known: bool = False
    """Whether a window of vCPU time has ended since it was first seen."""
    vcpu_seen: tuple[Mapping[int, float], Mapping[int, float]] | None = None
    """The CPU time and the delay of each vCPU when the present window began."""
    vcpu_seen_at_s: float = 0.0
    steal: Steal = field(default_factory=Steal)
    """The time that its vCPUs were ready and had no pCPU."""
    held_at_look: int = -1
    """How many pCPUs it had when the last window ended."""
    host_view: HostView = field(default_factory=HostView)
    """How much of its allocation it used, as the host saw it."""

    curves: Curves = field(default_factory=Curves)
    """Its remembered speedup curves, one for each set of programs."""
    points: tuple[SpeedupPoint, ...] = ()
    """The points of the present curve, as policies see them."""
    points_of: tuple[str, ...] = ()
    """The programs that the points belong to."""
    points_at_s: float = float("-inf")
    modelled_at_s: float = float("-inf")
    modelled_processes: int = 0
    scaf_weight: float | None = None
    """C of SCAF's model; None: not known."""
    ipc: float | None = None
    """Instructions per cycle and CPU in use; None: not known."""
