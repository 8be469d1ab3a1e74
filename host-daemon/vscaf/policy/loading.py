"""The policy that is chosen: found, imported, and tried once before it is used."""

from vscaf_policies import Policy, PolicyError, PoolState
from vscaf_policies.registry import load_policy

from vscaf.config import PolicyConfig
from vscaf.core.decide.decision import decide
from vscaf.errors import UsageError


def chosen_policy(chosen: PolicyConfig, pool: PoolState) -> Policy:
    """The policy that *chosen* names, after it has shared *pool* once. UsageError where that cannot be."""
    return tried_policy(loaded_policy(chosen), chosen, pool)


def loaded_policy(chosen: PolicyConfig) -> Policy:
    """The policy that *chosen* names: reads what is installed and imports it, so it may take long. UsageError."""
    try:
        return load_policy(chosen.name)
    except PolicyError as error:
        raise UsageError(str(error)) from error


def tried_policy(policy: Policy, chosen: PolicyConfig, pool: PoolState) -> Policy:
    """*policy*, the one that *chosen* names, after it has shared *pool* once. UsageError where that cannot be."""
    try:
        decide(pool, policy, chosen.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # policies are other people's code: they may raise anything
        raise UsageError(f"policy {chosen.name} failed on the pool as it is: {error!r}: mend it first") from error
    return policy
