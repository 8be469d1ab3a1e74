"""Whether the host is quiet: nothing is in doubt or under way, so that the next look at it may come later."""

from collections.abc import Iterable

from vscaf_policies import PoolState

from vscaf.core.decide.decision import Decision
from vscaf.domains.domain import ManagedDomain
from vscaf.values import State

QUIET_PERIODS = 4.2
"""Periods from one look to the next while the host is quiet. With the usual period a little more than
inference.STEADY_WINDOW_S, so that each look ends a window of every domain."""

LATE_REPORT_S = 1.4
"""An agent reports once a second at least. One that is later than this may have stopped."""

_STEADY = frozenset({State.COOPERATING, State.CONTAINED, State.RESTING})


def is_quiet(domains: Iterable[ManagedDomain], pool: PoolState, decision: Decision) -> bool:
    """Whether only an event can make the next decision another one: a message of an agent, or one of libvirt.

    domains: all that the daemon knows. decision: the last one, about *pool*.
    """
    waiting = decision.sharing or decision.queued or decision.suspended or decision.memory.pending.requests
    if waiting or not decision.managed or any(one.newcomer for one in pool.domains):
        return False
    return all(map(_settled, domains))


def _settled(domain: ManagedDomain) -> bool:
    """Whether it needs no step, its agent reports or is quiet, and the host sees nothing else."""
    transition = domain.transition
    if transition is None:
        return domain.found is None and (bool(domain.left_alone) or not domain.listed)
    return (
        domain.state in _STEADY
        and domain.inferred.confirmed
        and not domain.faulty
        and not domain.trust.unsteady
        and domain.silence_s() < LATE_REPORT_S
    )
