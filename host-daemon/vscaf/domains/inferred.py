"""What is inferred of one domain from one look to the next. The functions of inference.py write it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vscaf_policies import SpeedupPoint

from vscaf.core.model.curve_memory import Curves
from vscaf.core.model.demand import DemandMemory
from vscaf.core.model.trust import DemandHistory, HostView


@dataclass(slots=True)
class Inferred:
    """The demand and the speedup of one domain. Times are those of clock.now_s()."""

    demand: int = 0
    """The most pCPUs that it can use now."""
    demand_memory: DemandMemory = field(default_factory=DemandMemory)
    demand_history: DemandHistory = field(default_factory=DemandHistory)
    """How often it may change its demand again."""
    wanted_at_s: float | None = None
    """When the demand history was last brought up to date."""
    rested_since_s: float = float("-inf")
    newcomer_since_s: float = float("-inf")
    """When it last began to compute after a long rest, or with other programs."""
    programs: frozenset[str] = frozenset()
    """The names of the programs that ran last."""

    busy_cpus: float = 0.0
    """The pCPUs' worth of time that its vCPUs used lately."""
    usage_known: bool = False
    """Whether a window of vCPU time has ended since it was first seen."""
    vcpu_seen: tuple[Mapping[int, float], Mapping[int, float]] | None = None
    """Where the present window of vCPU time began: the CPU time and the delay of each vCPU."""
    vcpu_seen_at_s: float = 0.0
    held_at_look: int = -1
    """How many pCPUs it had when the last window ended."""
    host_view: HostView = field(default_factory=HostView)
    """What the host saw of its use of the present allocation."""

    curves: Curves = field(default_factory=Curves)
    """What is remembered of its speedup curves, one for each set of programs."""
    points: tuple[SpeedupPoint, ...] = ()
    """The points of the present curve that policies are shown."""
    points_of: tuple[str, ...] = ()
    """The programs that the points are of."""
    points_at_s: float = float("-inf")
    modelled_at_s: float = float("-inf")
    modelled_processes: int = 0
    scaf_weight: float | None = None
    """C of SCAF's model; None: not known."""
