"""Gangs: some domains at a time have the pool, and the others do not run at all until their turn."""

import math
from collections.abc import Sequence

from vscaf_policies.bounds import competes, largest, smallest
from vscaf_policies.intpart import integer_partition
from vscaf_policies.state import (
    Answer,
    DomainState,
    Options,
    PolicyError,
    PoolState,
    ignoring_weights,
    refuse_unknown_options,
)

SLICE_S = 2.0
LEAST_SLICE_S = 0.1
"""A suspend and a resume take some milliseconds each, which is too much for a shorter slice."""


@ignoring_weights
def gang(pool: PoolState, options: Options) -> Answer:
    """Coarse time slices (gang scheduling, Ousterhout 1982; compared in Creech 2015, section 2.2.4
    and Table 4.3).

    The domains that compete are packed into gangs. A gang has as many domains as fit with all CPUs that they can use
    (min(maximum, demand), in chunks). A domain that can use the whole pool is a gang of its own. The gangs take turns
    of `slice_s` seconds each (option, default 2), and the domains of the other gangs are suspended. With one gang, none
    is suspended.

    A domain that may not rest runs in every slice and is never suspended. It has its minimum, and it shares the CPUs
    that the gang leaves free. The gangs have the pool without those minima, but at least one chunk. If that is too much
    in total, the daemon cuts the largest minima.

    The slice is floor(time_s / slice_s) modulo the number of gangs. So a newcomer waits for one round at most,
    (k - 1) x slice_s with k gangs, once the competing domains and the CPUs that they can use stay the same. For that
    time a suspended domain does not answer: its network, timers and console stand still. Use gangs only for programs
    that compute.

    Raises PolicyError for a slice_s that is not a number >= 0.1, and for another option.
    """
    slice_s = _slice_s(options)
    chunk, pool_chunks = pool.chunk, pool.cpus // pool.chunk
    competing = sorted((domain for domain in pool.domains if competes(domain)), key=lambda one: one.name)
    fixed = [domain for domain in competing if not domain.may_rest]
    kept = sum(smallest(domain, chunk) // chunk for domain in fixed)
    free = max(1, pool_chunks - kept)
    sizes = {one.name: min(free, largest(one, chunk) // chunk) for one in competing if one.may_rest}
    gangs = _packed(sizes, free)
    cpus = {domain.name: 0 for domain in pool.domains}
    running = gangs[math.floor(pool.time_s / slice_s) % len(gangs)] if gangs else ()
    cpus.update({name: sizes[name] * chunk for name in running})
    left = (pool_chunks - sum(sizes[name] for name in running)) * chunk
    cpus.update(_shared(fixed, left, chunk))
    turn = f"{len(gangs)} gangs have the pool for {slice_s:g} s each"
    reasons = {
        name: f"{turn}: it is in gang {number}, of {len(gang)} domain{'s' if len(gang) > 1 else ''}"
        for number, gang in enumerate(gangs, 1)
        for name in gang
    }
    reasons |= {domain.name: "it may not rest: it has CPUs in every slice" for domain in fixed}
    return Answer(cpus, suspended=frozenset(sizes) - frozenset(running), reasons=reasons)


def _slice_s(options: Options) -> float:
    refuse_unknown_options("gang", options, frozenset({"slice_s"}))
    slice_s = options.get("slice_s", SLICE_S)
    if isinstance(slice_s, bool) or not isinstance(slice_s, int | float) or not LEAST_SLICE_S <= slice_s < math.inf:
        raise PolicyError(f"policy gang: option slice_s is {slice_s!r}: give seconds, at least {LEAST_SLICE_S:g}")
    return float(slice_s)


def _packed(sizes: dict[str, int], free: int) -> list[tuple[str, ...]]:
    """First fit, the largest first, then by name: at most 11/9 of the smallest possible number of gangs, plus one."""
    gangs: list[tuple[str, ...]] = []
    lefts: list[int] = []
    for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
        place = next((number for number, left in enumerate(lefts) if left >= sizes[name]), None)
        if place is None:
            gangs.append((name,))
            lefts.append(free - sizes[name])
        else:
            gangs[place] += (name,)
            lefts[place] -= sizes[name]
    return gangs


def _shared(fixed: Sequence[DomainState], cpus: int, chunk: int) -> dict[str, int]:
    """CPUs of the domains that run in every slice: equal parts of *cpus* within their bounds, at least their minima."""
    return integer_partition(
        {domain.name: 1.0 for domain in fixed},
        max(cpus, sum(smallest(domain, chunk) for domain in fixed)),
        chunk,
        {domain.name: smallest(domain, chunk) for domain in fixed},
        {domain.name: largest(domain, chunk) for domain in fixed},
    )
