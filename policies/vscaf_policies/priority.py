"""Admission by priority: an admitted domain has at least its minimum; a domain that does not fit waits."""

from collections.abc import Iterable
from dataclasses import replace

from vscaf_policies.bounds import bounded_partition, competes, smallest
from vscaf_policies.max_speedup import exact_shares
from vscaf_policies.state import Answer, DomainState, Options, PolicyError, PoolState, refuse_unknown_options

SPLITS = ("weight", "speedup")


def priority(pool: PoolState, options: Options) -> Answer:
    """Admits domains as long as their minima fit together, and splits the pool among them; the others are queued.

    Domains that may not rest come first and are always admitted. The others follow by priority, the higher first.
    Among equals, domains that already have CPUs come first, then the order is by name. A domain whose minimum does not
    fit in the CPUs that are left is skipped, and a smaller one after it may still fit. An admitted domain loses its
    place only to domains of higher priority. A minimum above the pool counts as the whole pool; minima are rounded up
    to chunks.

    A queued domain rests until it fits. This is strict: a domain of lower priority gets nothing while higher ones fill
    the pool. Among equals, a domain with a large minimum waits as long as smaller ones come and go in the CPUs that it
    needs. A domain that rests because it has no demand loses its place and is admitted again later.

    Option `split`: how the admitted domains share the pool, within their bounds. "weight" (default): in the ratio of
    their weights. "speedup": in the ratio of weight x C of SCAF's model (Creech 2015, eq. 4.9); an unknown C counts as
    in max-speedup. Raises PolicyError for another value or another option.
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
    reasons = {
        domain.name: f"its priority is {domain.priority} and its minimum {smallest(domain, pool.chunk)}: "
        + ("it is admitted" if domain.name in admitted else "those before it leave too few CPUs, so it waits")
        for domain in competing
    }
    return Answer(cpus, frozenset(domain.name for domain in competing) - admitted, reasons=reasons)


def _admitted(pool: PoolState, competing: Iterable[DomainState]) -> list[DomainState]:
    """The domains whose minima fit, in the order of admission."""
    capacity = pool.cpus // pool.chunk * pool.chunk
    free = capacity
    admitted = []
    for domain in sorted(competing, key=lambda one: (one.may_rest, -one.priority, one.allocation == 0, one.name)):
        needs = min(capacity, smallest(domain, pool.chunk))
        if needs <= free or not domain.may_rest:
            admitted.append(domain)
            free -= needs
    return admitted
