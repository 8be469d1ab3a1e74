"""The policy that the thesis warns against: the most instructions per cycle of the whole system."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vscaf_policies.by_worth import split_by_worth
from vscaf_policies.state import (
    DomainState,
    Options,
    PolicyError,
    PoolState,
    explained_by,
    ignoring_weights,
    refuse_unknown_options,
)

MOST_NAMES = 5
"""The most domains that the refusal names."""

LEAST_CPUS = 4
"""The CPUs that the thesis leaves to the program with fewer instructions per cycle."""


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    known = {domain.name: ipc for domain in pool.domains if (ipc := _ipc(domain)) is not None}
    if not known:
        return {}
    first = min(known, key=lambda name: (-known[name], name))
    highest = f"the highest is {known[first]:.2f}, of {first}, which comes first"
    return {name: f"its instructions per cycle and CPU are {ipc:.2f}; {highest}" for name, ipc in known.items()}


@explained_by(_reasons)
@ignoring_weights
def max_ipc(pool: PoolState, options: Options) -> dict[str, int]:
    """The largest sum of IPC over all CPUs (Creech 2015, section 4.3.3). Only for comparison.

    The policy assumes that each domain's present IPC per CPU holds for all sizes. So the domain with the highest IPC
    gets CPUs up to its maximum, then the next one. The others keep their minimum, or `least_cpus`. Instructions of
    different programs are not comparable, and IPC does not show how programs scale. For CG and LU on 36 CPUs the
    policy chooses 4 + 32 and loses 17% of the sum of speedups against equal shares (Table 4.1 and Figure 4.1). IPC per
    CPU mostly falls as a domain grows, so domains with about the same IPC take turns at being the largest.

    Option least_cpus: CPUs that every domain keeps, as far as its maximum and the pool allow, default 4 as in the
    thesis. Raises PolicyError for other options, a least_cpus that is not a whole number >= 1, or a pool in which a
    domain with demand has no IPC, because it cannot be compared. A domain without demand that may not rest gets its
    minimum.
    """
    refuse_unknown_options("max-ipc", options, frozenset({"least_cpus"}))
    least_cpus = options.get("least_cpus", LEAST_CPUS)
    if isinstance(least_cpus, bool) or not isinstance(least_cpus, int) or least_cpus < 1:
        raise PolicyError(f"policy max-ipc: option least_cpus is {least_cpus!r}: give a whole number of CPUs >= 1")

    unknown = sorted(domain.name for domain in pool.domains if domain.demand > 0 and _ipc(domain) is None)
    if unknown:
        names = ", ".join(unknown[:MOST_NAMES]) + (", ..." if len(unknown) > MOST_NAMES else "")
        raise PolicyError(
            f"policy max-ipc: no instructions per cycle are known of {names}: start the programs there with "
            "VSCAF_METRIC=ipc, in a guest with a virtual PMU and PAPI, or set another policy"
        )

    def instructions_per_cycle(domain: DomainState, chunks: int) -> NDArray[np.float64] | None:
        ipc = _ipc(domain)
        if ipc is None:
            return None
        total: NDArray[np.float64] = ipc * pool.chunk * np.arange(1.0, chunks + 1)
        return total

    return split_by_worth(pool, instructions_per_cycle, least_cpus=least_cpus)


def _ipc(domain: DomainState) -> float | None:
    """Its instructions per cycle; None: not known, or impossible."""
    ipc = domain.ipc
    return ipc if ipc is not None and math.isfinite(ipc) and ipc >= 0 else None
