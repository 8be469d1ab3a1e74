"""A policy by what the user calls it: an installed name, or one of their own as `vscaf policy check` takes it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from vscaf_policies import Policy, PolicyError

from vscaf.errors import UsageError
from vscaf.policy.trial import load_target

DEFAULT_POLICIES = ("unmanaged", "equipartition", "max-speedup", "max-speedup-fitted")
"""What is tried where nothing is asked for: those of them that are installed."""


@lru_cache(maxsize=64)
def find_policy(name: str) -> Policy:
    """The policy that *name* means: an installed one, `FILE.py[:FUNCTION]` or `MODULE[:FUNCTION]`.

    UsageError, naming the mend, where there is none or it does not load.
    """
    try:
        return load_target(name)
    except PolicyError as error:
        raise UsageError(str(error)) from error


def option_names(name: str) -> tuple[str, ...]:
    """Under which names a scenario's options for the policy *name* may be: that very one, or its function's."""
    function_name = getattr(find_policy(name), "__name__", name)
    return name, function_name, function_name.replace("_", "-")


def options_for(name: str, policy_options: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The scenario's options for the policy *name*: those under the first of its names that has some."""
    return next((policy_options[key] for key in option_names(name) if key in policy_options), {})
