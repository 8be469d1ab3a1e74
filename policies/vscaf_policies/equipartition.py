"""Equal shares, however well the domains use them."""

from collections.abc import Mapping

from vscaf_policies.bounds import equal_partition
from vscaf_policies.state import Options, PoolState, explained_by, ignoring_weights, refuse_unknown_options


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    from vscaf_policies.explanations import share_reasons  # noqa: PLC0415  (imports numpy)

    return share_reasons(pool, cpus, {domain.name: 1.0 for domain in pool.domains}, "its share")


@explained_by(_reasons)
@ignoring_weights
def equipartition(pool: PoolState, options: Options) -> dict[str, int]:
    """The same number of CPUs for each domain that competes (Creech 2015, eq. 4.1), within the bounds.

    The remainder of an uneven division goes to the first by name. Takes no option.
    """
    refuse_unknown_options("equipartition", options)
    return equal_partition(pool)
