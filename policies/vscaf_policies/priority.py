"""Admission by priority: who is in has its minimum at least, and who does not fit waits."""

from collections.abc import Iterable
from dataclasses import replace

from vscaf_policies.bounds import bounded_partition, competes, smallest
from vscaf_policies.max_speedup import exact_shares
from vscaf_policies.state import Answer, DomainState, Options, PolicyError, PoolState, refuse_unknown_options

SPLITS = ("weight", "speedup")


def priority(pool: PoolState, options: Options) -> Answer:
    """Admits domains as long as the sum of their minima fits, and splits the pool among those; the others are queued.

    First come those that may not rest, which are always admitted. The others follow by priority, the higher first;
    then who has CPUs already; then by name. One whose minimum does not fit beside those before it is passed over, and
    a smaller one behind it may still fit. So among those that may rest nobody is queued for one of lower priority, and
    who is in is pushed out by a higher priority alone. A minimum above the pool counts as the whole pool; minima are
    rounded up to chunks.

    A queued domain rests until there is room. This is strict: while those of higher priority fill the pool, a lower
    one starves; and among equals a large minimum starves as long as smaller ones come and go in the room it needs. A
    domain that rests for want of demand gives up its place and is admitted anew.

    Option `split`: how the admitted share, within their bounds: "weight" (default), in the ratio of their weights;
    "speedup", in the ratio of weight x C, the SCAF model's (Creech 2015, eq. 4.9), an unknown C counting as
    max-speedup counts it. Raises PolicyError for another value or another option.
    """
    refuse_unknown_options("priority", options, frozenset({"split"}))
    split = options.get("split", "weight")
    if split not in SPLITS:
        raise PolicyError(f'policy priority: option split is {split!r}: set it to "weight" or "speedup"')
    competing = [domain for domain in pool.domains if competes(domain)]
    admitted = frozenset(domain.name for domain in _admitted(pool, competing))
    among = replace(pool, domains=tuple(domain for domain in competing if domain.name in admitted))
    shares = {domain.name: domain.weight for domain in among.domains}
    if split == "speedup":
        shares = {name: share * shares[name] for name, share in exact_shares(among).items()}
    cpus = {domain.name: 0 for domain in pool.domains} | bounded_partition(among, shares)
    return Answer(cpus, queued=frozenset(domain.name for domain in competing) - admitted)


def _admitted(pool: PoolState, competing: Iterable[DomainState]) -> list[DomainState]:
    """Those whose minima fit, in the order of admission."""
    room = pool.cpus // pool.chunk * pool.chunk
    free = room
    admitted = []
    for domain in sorted(competing, key=lambda one: (one.may_rest, -one.priority, one.allocation == 0, one.name)):
        needs = min(room, smallest(domain, pool.chunk))
        if needs <= free or not domain.may_rest:
            admitted.append(domain)
            free -= needs
    return admitted
