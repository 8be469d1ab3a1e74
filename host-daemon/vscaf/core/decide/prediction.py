"""What the domains' speedup curves predict for the present sizes, compared with those that the policy asked for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from vscaf_policies import DomainState, PoolState
from vscaf_policies.bounds import largest

from vscaf.core.decide.decision import Decision
from vscaf.core.model.scaf import predicted_speedup


@dataclass(frozen=True, slots=True)
class Prediction:
    """speedups: the speedup of each domain that computes and whose curve is known, at its present size.

    optimum: the weighted sum of speedups if each domain had what the policy answered. lost: how much less the present
    sizes give; negative if the policy gives up speedup for something else. None: a curve that it takes is not known.
    """

    speedups: Mapping[str, float] = field(default_factory=dict)
    optimum: float | None = None
    lost: float | None = None


def predict(pool: PoolState, decision: Decision, held: Mapping[str, int], *, fitted: bool) -> Prediction:
    """The prediction for domains that hold *held* CPUs, by name; a domain that is not named holds none.

    pool: as it was given to decide() for *decision*. fitted: by curves fitted to points, which take some milliseconds
    each unless the policy has fitted them already; else by SCAF's model. Nothing is predicted while domains share a
    chunk by time, or if the policy changes nothing.
    """
    if not decision.managed or decision.sharing:
        return Prediction()
    speedups: dict[str, float] = {}
    optimum: list[float | None] = []
    lost: list[float | None] = []
    for domain in pool.domains:
        if domain.demand < 1:
            continue
        has = min(held.get(domain.name, 0), largest(domain, pool.chunk))
        wanted = decision.answered.get(domain.name, has)
        at_optimum = _speedup(pool, domain, wanted, fitted=fitted)
        now = _speedup(pool, domain, has, fitted=fitted)
        if now is not None and has > 0:
            speedups[domain.name] = now
        optimum.append(None if at_optimum is None else domain.weight * at_optimum)
        if has != wanted:
            lost.append(None if at_optimum is None or now is None else domain.weight * (at_optimum - now))
    return Prediction(speedups, _sum(optimum), _sum(lost))


def _speedup(pool: PoolState, domain: DomainState, cpus: int, *, fitted: bool) -> float | None:
    """The expected speedup on *cpus*. None: not known."""
    if cpus < pool.chunk:
        return 0.0
    if not fitted:
        known_weight = None if domain.newcomer else domain.scaf_weight
        return None if known_weight is None else predicted_speedup(known_weight, cpus)
    from vscaf_policies.estimates import worth  # noqa: PLC0415  (imports numpy, which clients do not need)

    curve = worth(domain, pool)
    return None if curve is None else float(curve.expected[min(cpus // pool.chunk, len(curve.expected)) - 1])


def _sum(parts: list[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None
