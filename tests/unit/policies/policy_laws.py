"""The laws that every policy must keep, whatever its criterion is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from vscaf_policies import Policy, PoolState
from vscaf_policies.bounds import competes, limits


def check_laws(
    policy: Policy, state: PoolState, chance: random.Random, options: Mapping[str, object] | None = None
) -> None:
    """The answer names every domain and keeps bounds, whole chunks and the pool. The domains' order decides nothing."""
    chosen = options or {}
    split = policy(state, chosen)
    assert isinstance(split, dict)
    assert split.keys() == {one.name for one in state.domains}
    assert all(type(cpus) is int and cpus % state.chunk == 0 for cpus in split.values())
    assert sum(split.values()) <= state.cpus // state.chunk * state.chunk
    minima = sum(limits(one, state.chunk)[0] for one in state.domains if competes(one))
    for one in state.domains:
        least, most = limits(one, state.chunk)
        if not competes(one):
            assert split[one.name] == 0
        else:
            assert state.chunk <= split[one.name] <= most
            assert split[one.name] >= least or minima > state.cpus
    shuffled = list(state.domains)
    chance.shuffle(shuffled)
    assert policy(replace(state, domains=tuple(shuffled)), chosen) == split
