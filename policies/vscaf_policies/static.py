"""The split that the user sets by hand."""

from collections.abc import Mapping

from vscaf_policies.state import (
    Options,
    PolicyError,
    PoolState,
    explained_by,
    ignoring_weights,
    refuse_unknown_options,
)


def _reasons(pool: PoolState, options: Options, cpus: Mapping[str, int]) -> dict[str, str]:
    wanted = options.get("allocations")
    named = wanted if isinstance(wanted, Mapping) else {}
    kept = "the option allocations does not name it: it keeps what it has"
    return {
        domain.name: f"the option allocations gives it {named[domain.name]}" if domain.name in named else kept
        for domain in pool.domains
    }


@explained_by(_reasons)
@ignoring_weights
def static(pool: PoolState, options: Options) -> dict[str, int]:
    """The allocations of the option `allocations` ({domain: CPUs}); a domain that it does not name keeps what it has.

    A name that is not in the pool is ignored: the domain may not be running now. The core still keeps the bounds, and
    lets a domain without demand rest. For a domain that must keep its CPUs, set `rest = "keep"`. The CPUs of a resting
    domain stay free.
    Raises PolicyError if `allocations` is missing or is not a mapping of names to whole numbers >= 1.
    """
    refuse_unknown_options("static", options, frozenset({"allocations"}))
    wanted = options.get("allocations")
    if not isinstance(wanted, Mapping):
        raise PolicyError('policy static: option allocations must be a table like {"domain": 2}: set it')
    for name, cpus in wanted.items():
        if not isinstance(name, str) or isinstance(cpus, bool) or not isinstance(cpus, int) or cpus < 1:
            raise PolicyError(f"policy static: allocations[{name!r}] is {cpus!r}: give a whole number of CPUs >= 1")
    return {domain.name: wanted.get(domain.name, domain.allocation or domain.minimum) for domain in pool.domains}
