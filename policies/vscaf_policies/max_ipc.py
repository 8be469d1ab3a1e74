"""The policy that the thesis warns of: the most instructions per cycle of the whole system."""

import math

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import split_by_worth
from vscaf_policies.state import DomainState, Options, PolicyError, PoolState, refuse_unknown_options

LEAST_CPUS = 4
"""What the thesis leaves to the program with the fewer instructions per cycle."""


def max_ipc(pool: PoolState, options: Options) -> dict[str, int]:
    """The largest sum of IPC over all CPUs (Creech 2015, section 4.3.3). To compare with, not to use.

    It takes each domain's IPC per CPU to be what it is now, whatever its size, and so gives everything to whoever has
    the highest, up to its maximum, then to the next; the others keep their minimum, or `least_cpus`. Instructions of
    different programs are not comparable, and it knows nothing of how they scale: for CG and LU on 36 CPUs it chooses
    4 + 32 and loses 17% of the sum of speedups against equal shares (Table 4.1 and Figure 4.1).

    Option least_cpus: CPUs that every domain keeps, as far as its maximum and the pool allow, default 4 as in the
    thesis. A domain whose IPC nobody counts gets the equal share. Raises PolicyError for other options or a
    least_cpus that is not a whole number >= 1.
    """
    refuse_unknown_options("max-ipc", options, frozenset({"least_cpus"}))
    least_cpus = options.get("least_cpus", LEAST_CPUS)
    if isinstance(least_cpus, bool) or not isinstance(least_cpus, int) or least_cpus < 1:
        raise PolicyError(f"policy max-ipc: option least_cpus is {least_cpus!r}: give a whole number of CPUs >= 1")

    def instructions_per_cycle(domain: DomainState, chunks: int) -> NDArray[np.float64] | None:
        ipc = domain.ipc
        if ipc is None or not math.isfinite(ipc) or ipc < 0:
            return None
        total: NDArray[np.float64] = ipc * pool.chunk * np.arange(1.0, chunks + 1)
        return total

    return split_by_worth(pool, instructions_per_cycle, least_cpus)
