"""Finds a policy by the user's name for it: an installed name, a file or module as for `vscaf policy check`, or
`steal-governor`, which only the simulator has."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from vscaf_policies import Policy, PolicyError

from vscaf.errors import UsageError
from vscaf.policy.trial import load_target
from vscaf.simulate.engine.steal_governor import STEAL_GOVERNOR, steal_governor

DEFAULT_POLICIES = ("unmanaged", "equipartition", "max-speedup", "max-speedup-fitted")
"""The default of --policy: those of them that are installed."""


@lru_cache(maxsize=64)
def find_policy(name: str) -> Policy:
    """The policy that *name* means: `steal-governor`, an installed one, `FILE.py[:FUNCTION]` or `MODULE[:FUNCTION]`.

    UsageError, with the fix, if there is none or it does not load.
    """
    if name == STEAL_GOVERNOR:
        return steal_governor
    try:
        return load_target(name)
    except PolicyError as error:
        raise UsageError(str(error)) from error


def option_names(name: str) -> tuple[str, ...]:
    """The names under which a scenario may have options for the policy *name*: that name, or its function's."""
    function_name = getattr(find_policy(name), "__name__", name)
    return name, function_name, function_name.replace("_", "-")


def options_for(name: str, policy_options: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The scenario's options for the policy *name*: those of the first of its names that has options."""
    return next((policy_options[key] for key in option_names(name) if key in policy_options), {})
