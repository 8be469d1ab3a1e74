"""Sentences that say why a policy gives a domain its CPUs."""

from collections.abc import Mapping

import numpy as np

from vscaf_policies.bounds import competes, limits
from vscaf_policies.by_worth import Numbers, ValueOf, WorthOf
from vscaf_policies.state import DomainState, PoolState


def cpus_text(cpus: float) -> str:
    """The number with its unit."""
    return f"{cpus:.4g} CPU" if cpus == 1 else f"{cpus:.4g} CPUs"


def worth_reasons(
    pool: PoolState,
    cpus: Mapping[str, int],
    worth_of: WorthOf,
    value_of: ValueOf | None = None,
    *,
    what: str,
    most_cpus: Mapping[str, int] = {},
) -> dict[str, str]:
    """Reasons for an answer of by_worth.split_by_worth: what a chunk more or less would be worth, to it and to others.

    what: names the value, like "weight x speedup". The other arguments are those of split_by_worth, and its answer.
    """
    competing = [domain for domain in pool.domains if competes(domain)]
    known = {domain.name: _values(pool, domain, worth_of, value_of) for domain in competing}
    losses = {}
    for domain in competing:
        values, size = known[domain.name], cpus.get(domain.name, 0) // pool.chunk
        if values is not None and limits(domain, pool.chunk)[0] // pool.chunk < size <= len(values):
            losses[domain.name] = float(values[size - 1] - values[size - 2])
    return {
        domain.name: _reason(pool, domain, cpus.get(domain.name, 0), known[domain.name], losses, what, most_cpus)
        for domain in competing
    }


def _values(pool: PoolState, domain: DomainState, worth_of: WorthOf, value_of: ValueOf | None) -> Numbers | None:
    """What 1, 2, ... chunks are worth, up to the most that it can get."""
    chunks = min(limits(domain, pool.chunk)[1], pool.cpus) // pool.chunk
    curve = worth_of(domain, chunks)
    if curve is None or len(curve) == 0:
        return None
    values = np.asarray(curve, dtype=np.float64)
    if value_of is None:
        return values
    return value_of(values, np.arange(1, len(values) + 1), np.full(len(values), domain.weight))


def _reason(  # noqa: PLR0917 (what it depends on)
    pool: PoolState,
    domain: DomainState,
    cpus: int,
    values: Numbers | None,
    losses: Mapping[str, float],
    what: str,
    most_cpus: Mapping[str, int],
) -> str:
    if values is None:
        why = "it is a newcomer" if domain.newcomer else "nothing is known yet"
        return f"what CPUs are worth to it is not known ({why}): it gets an equal share"
    size = cpus // pool.chunk
    if not 1 <= size <= len(values):
        return ""
    here = float(values[size - 1])
    parts = [f"{what} is {here:.2f} on {cpus_text(cpus)}"]
    if size > 1:
        parts.append(f"{values[size - 2]:.2f} on {cpus - pool.chunk} ({values[size - 2] - here:+.2f})")
    limit = most_cpus.get(domain.name)
    if size < len(values):
        parts.append(f"{values[size]:.2f} on {cpus + pool.chunk} ({values[size] - here:+.2f})")
    text = ", ".join(parts)
    if limit is not None and cpus >= limit and size < len(values):
        return f"{text}; {cpus_text(limit)} are the most that the option most_of_equal lets it have"
    if size >= len(values):
        return f"{text}; it can use no more"
    others = {name: loss for name, loss in losses.items() if name != domain.name}
    if not others:
        return f"{text}; no other domain can give CPUs"
    loser = min(others, key=lambda name: (others[name], name))
    return f"{text}; {loser} would lose least if it gave {cpus_text(pool.chunk)}: {others[loser]:.2f}"


def share_reasons(pool: PoolState, cpus: Mapping[str, int], shares: Mapping[str, float], of: str) -> dict[str, str]:
    """Reasons for an answer of bounds.bounded_partition: each domain's part of the pool, by its share.

    of: what the shares are, like "C".
    """
    competing = [domain for domain in pool.domains if competes(domain)]
    total = sum(shares[domain.name] for domain in competing)
    reasons = {}
    for domain in competing:
        exact = pool.cpus * shares[domain.name] / total if total > 0 else 0.0
        text = f"{of} is {shares[domain.name]:.4g} of {total:.4g} in all, which is {exact:.2f} of {pool.cpus} CPUs"
        low, high = limits(domain, pool.chunk)
        got = cpus.get(domain.name, 0)
        if got == low and exact < low:
            text += f"; it cannot have fewer than {low}"
        elif got == high and exact > high:
            text += f"; it can use no more than {high}"
        elif abs(got - exact) >= pool.chunk:
            text += "; bounds of others change that"
        reasons[domain.name] = text
    return reasons
