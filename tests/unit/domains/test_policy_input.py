"""What policies see of a pool and of its domains."""

from dataclasses import replace

import pytest
from vscaf.config import Config
from vscaf.core.reconcile.state import Affinity, TransitionState, Treatment
from vscaf.core.reconcile.steps import Goal
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.pool import HostPool
from vscaf.domains.rules import DomainRules
from vscaf.policy.input import shown_pool
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, HostCpus, RunState
from vscaf_policies import PoolState
from vscaf_policies.max_ipc import max_ipc

NUMBERS = frozenset(range(4))
CPUS = HostCpus(NUMBERS, tuple(frozenset({cpu}) for cpu in NUMBERS), dict.fromkeys(NUMBERS, 0))


@pytest.fixture
def domain() -> ManagedDomain:
    """A domain that has pCPUs 0 and 1 of 4, and computes since 10 s."""
    seen = DomainSeen(DomainKey("u", 1), "a", True, RunState.RUNNING, 4, 4, dict.fromkeys(NUMBERS, 0.0))
    made = ManagedDomain(seen, DomainRules(minimum=1), SimulatedHost(CPUS), None)
    made.maximum, made.inferred.demand, made.inferred.newcomer_since_s = 4, 4, 10.0
    held = frozenset({0, 1})
    made.goal = Goal(held, 4, competition=False)
    made.transition = TransitionState("a", 4, 4, Treatment(held, None, None, held, 4), held, Affinity({}, held))
    return made


def test_who_has_just_begun_is_a_newcomer(domain: ManagedDomain) -> None:
    pool = HostPool(Config(pool="0-3"), CPUS)
    for now_s, newcomer in ((10.5, True), (11.9, True), (12.0, False)):
        (shown,) = shown_pool(pool, [domain], 2.0, now_s).domains
        assert (shown.newcomer, shown.allocation, shown.minimum, shown.maximum, shown.demand) == (newcomer, 2, 1, 4, 4)
    domain.inferred.demand, domain.inferred.ipc = 0, 0.85
    assert shown.ipc is None and shown_pool(pool, [domain], 2.0, 10.5).domains[0].ipc == 0.85
    assert not shown_pool(pool, [domain], 2.0, 10.5).domains[0].newcomer


def test_of_whom_nobody_knows_where_it_runs_nothing_is_taken_or_added(domain: ManagedDomain) -> None:
    assert domain.transition is not None
    domain.transition = replace(domain.transition, affinity=None, failures=2)
    (shown,) = shown_pool(HostPool(Config(pool="0-3"), CPUS), [domain], 2.0, 60.0).domains
    assert (shown.minimum, shown.maximum, shown.demand, shown.may_rest) == (2, 2, 2, False)
    other = replace(shown, name="b", ipc=1.0, minimum=1, maximum=4)
    assert max_ipc(PoolState(4, 1, 0.0, (shown, other)), {}) == {"a": 2, "b": 2}
