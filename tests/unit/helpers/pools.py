"""Domains and pools for tests of policies."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from vscaf_policies import DomainState, PoolState, SpeedupPoint


def domain(name: str, **changes: object) -> DomainState:
    values: dict[str, object] = {
        "minimum": 1,
        "maximum": 64,
        "weight": 1.0,
        "demand": 64,
        "allocation": 0,
        "may_rest": True,
        "scaf_weight": None,
        "newcomer": False,
        "points": (),
    }
    return DomainState(name=name, **(values | changes))  # type: ignore[arg-type]


def pool(cpus: int, *domains: DomainState, chunk: int = 1, time_s: float = 0.0) -> PoolState:
    return PoolState(cpus=cpus, chunk=chunk, time_s=time_s, domains=domains)


def measured(*pairs: tuple[int, float]) -> tuple[SpeedupPoint, ...]:
    return tuple(SpeedupPoint(cpus, speedup, 0.02 * speedup, 5) for cpus, speedup in pairs)


CURVES = (
    measured((2, 1.9), (8, 7.0), (16, 13.0)),
    measured((4, 3.0), (8, 2.5), (16, 2.0)),
    measured((2, 1.2), (8, 6.0)),
    measured((16, 3.0)),
    (),
)

domain_states = st.builds(
    DomainState,
    name=st.text("abcdef", min_size=1, max_size=2),
    minimum=st.integers(0, 12),
    maximum=st.integers(0, 20),
    weight=st.floats(0.1, 4),
    demand=st.integers(0, 24),
    allocation=st.integers(0, 8),
    may_rest=st.booleans(),
    scaf_weight=st.none() | st.floats(0.05, 8),
    newcomer=st.booleans(),
    points=st.just(()),
    priority=st.integers(-3, 3),
)
"""Domains without a known curve, with any bounds."""

states = st.builds(
    domain,
    st.text("abcdef", min_size=1, max_size=2),
    minimum=st.integers(0, 5),
    maximum=st.integers(1, 20),
    demand=st.integers(0, 24),
    weight=st.sampled_from((0.5, 1.0, 3.0)),
    may_rest=st.booleans(),
    scaf_weight=st.none() | st.floats(0.05, 8),
    newcomer=st.sampled_from((False, False, True)),
    points=st.sampled_from(CURVES),
    ipc=st.none() | st.floats(0, 4) | st.just(math.nan),
)
"""Domains with curves. Their minima fit into `pools`."""

pools = st.builds(
    lambda domains, chunks, chunk: pool(chunks * chunk, *domains, chunk=chunk),
    st.lists(states, unique_by=lambda one: one.name, max_size=6),
    st.integers(6, 24),
    st.integers(1, 3),
)
