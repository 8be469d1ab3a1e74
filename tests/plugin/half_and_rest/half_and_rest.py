"""A policy for vscaf: one favourite gets half of the pool, the others share the rest."""

from vscaf_policies import Options, PolicyError, PoolState, bounded_partition, refuse_unknown_options


def half_and_rest(pool: PoolState, options: Options) -> dict[str, int]:
    """Half of the pool for the domain that the option `favourite` names, equal shares of the rest for the others."""
    refuse_unknown_options("half-and-rest", options, frozenset({"favourite"}))
    favourite = options.get("favourite")
    if not isinstance(favourite, str):
        raise PolicyError("policy half-and-rest: option favourite must be the name of a domain: set it")
    others = max(1, len(pool.domains) - 1)
    shares = {domain.name: others if domain.name == favourite else 1.0 for domain in pool.domains}
    return bounded_partition(pool, shares)
