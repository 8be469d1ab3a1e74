"""Equal shares, however well the domains use them."""

from vscaf_policies.bounds import bounded_partition
from vscaf_policies.state import Options, PoolState, ignoring_weights, refuse_unknown_options


@ignoring_weights
def equipartition(pool: PoolState, options: Options) -> dict[str, int]:
    """The same number of CPUs for each domain that competes (Creech 2015, eq. 4.1), within the bounds.

    The remainder of an uneven division goes to the first by name. Takes no option.
    """
    refuse_unknown_options("equipartition", options)
    return bounded_partition(pool, {domain.name: 1.0 for domain in pool.domains})
