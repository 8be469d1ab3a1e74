"""What policies see of the pool and its domains."""

from collections.abc import Iterable
from dataclasses import replace

from vscaf_policies import DomainState, PoolState

from vscaf.domains.domain import ManagedDomain
from vscaf.domains.pool import HostPool


def shown_pool(
    pool: HostPool, domains: Iterable[ManagedDomain] = (), newcomer_s: float = 0.0, now_s: float = 0.0
) -> PoolState:
    """The pool and *domains* as policies see them at the time now_s, in seconds.

    newcomer_s: how long a domain is a newcomer after it began to compute after a long rest, or to run other programs.
    """
    states = tuple([_shown_domain(pool, domain, newcomer_s, now_s) for domain in domains])
    return PoolState(len(pool.cpus), pool.topology.chunk, now_s, states)


def _shown_domain(pool: HostPool, domain: ManagedDomain, newcomer_s: float, now_s: float) -> DomainState:
    rules, maximum = domain.rules, domain.maximum
    has = domain.goal.partition if domain.goal is not None else domain.held & pool.cpus
    state = DomainState(
        name=domain.name,
        minimum=min(rules.minimum, maximum),
        maximum=maximum,
        weight=rules.weight,
        priority=rules.priority,
        demand=domain.inferred.demand,
        allocation=len(has),
        may_rest=pool.rest_of(rules) != "keep",
        scaf_weight=None if domain.faulty else domain.inferred.scaf_weight,
        newcomer=domain.inferred.demand > 0 and now_s - domain.inferred.newcomer_since_s < newcomer_s,
        points=() if domain.faulty else domain.inferred.points,
        ipc=domain.inferred.ipc,
    )
    transition = domain.transition
    if transition is None or not transition.lost:
        return state
    keeps = transition.kept_while_lost(has) & pool.cpus
    cpus = len({pool.topology.chunk_of[cpu] for cpu in keeps}) * pool.topology.chunk
    # No policy can change its share. So none must refuse the pool because its IPC is not known.
    ipc = 0.0 if state.ipc is None else state.ipc
    return replace(state, minimum=max(1, cpus), maximum=max(1, cpus), demand=cpus, may_rest=not cpus, ipc=ipc)
