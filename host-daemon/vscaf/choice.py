"""The policy that decides, and the one before it."""

from vscaf_policies import Policy, PolicyError, PoolState
from vscaf_policies.registry import load_policy

from vscaf.config import PolicyConfig
from vscaf.core.decide import decide
from vscaf.errors import UsageError
from vscaf.pool import HostPool


def empty_pool(pool: HostPool) -> PoolState:
    """The pool without a domain: to try a policy and its options on."""
    return PoolState(len(pool.cpus), pool.topology.chunk, 0.0, ())


def chosen_policy(chosen: PolicyConfig, pool: PoolState) -> Policy:
    """The policy that *chosen* names, after it has shared *pool* once. UsageError where that cannot be."""
    try:
        policy = load_policy(chosen.name)
        decide(pool, policy, chosen.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # policies are other people's code: they may raise anything
        raise UsageError(f"policy {chosen.name} failed on the pool as it is: {error!r}: mend it first") from error
    return policy
