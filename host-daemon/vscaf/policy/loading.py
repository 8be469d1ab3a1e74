"""Finds, imports and tries the chosen policy before it is used."""

from vscaf_policies import Policy, PolicyError, PoolState
from vscaf_policies.registry import load_policy

from vscaf.config import Config, PolicyConfig
from vscaf.core.decide.decision import decide
from vscaf.errors import UsageError


def chosen_policy(chosen: PolicyConfig, pool: PoolState) -> Policy:
    """The policy that *chosen* names, after one trial on *pool*. UsageError if it cannot be loaded or fails."""
    return tried_policy(loaded_policy(chosen), chosen, pool)


def loaded_policy(chosen: PolicyConfig) -> Policy:
    """The policy that *chosen* names. Searches the installed packages and imports it, which may take long.

    UsageError if it cannot be loaded.
    """
    try:
        return load_policy(chosen.name)
    except PolicyError as error:
        raise UsageError(str(error)) from error


def tried_policy(policy: Policy, chosen: PolicyConfig, pool: PoolState) -> Policy:
    """*policy*, which *chosen* names, after one trial on *pool*. UsageError if it fails."""
    try:
        decide(pool, policy, chosen.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # policies are other people's code: they may raise anything
        raise UsageError(f"policy {chosen.name} failed on the present pool: {error!r}: correct it first") from error
    return policy


def counts_weights(policy: Policy) -> bool:
    """Whether the domains' weights may change what the policy answers. It declares if not: `ignores_weights`."""
    return not getattr(policy, "ignores_weights", False)


def ignored_weights(config: Config, policy: Policy) -> str:
    """A warning if the configuration sets weights that *policy* ignores, else ""."""
    weighted = [name for name, domain in sorted(config.domains.items()) if domain.weight != 1.0]
    if not weighted or counts_weights(policy):
        return ""
    return (
        f"weight of {', '.join(weighted)}: policy {config.policy.name} ignores weights; they only decide which domains "
        "share the last pCPUs if more compute than there are chunks: remove them, or use another policy, such as "
        f"{PolicyConfig().name}"
    )
