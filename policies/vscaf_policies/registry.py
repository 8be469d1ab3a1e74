"""Finds policies by name: entry points of the group `vscaf.policies`, from vscaf and from users' packages."""

from importlib.metadata import entry_points
from typing import cast

from vscaf_policies.state import Policy, PolicyError

GROUP = "vscaf.policies"


def policy_names() -> tuple[str, ...]:
    """The names of all installed policies, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_policy(name: str) -> Policy:
    """The policy of that name.

    Raises PolicyError if there is none, if two installed packages use the name, or if the policy does not load.
    """
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        there_is = ", ".join(policy_names()) or "none: install vscaf-policies"
        raise PolicyError(f"no policy is named {name!r}: choose one of those installed ({there_is})")
    targets = sorted({entry.value for entry in found})
    if len(targets) > 1:
        raise PolicyError(f"policy {name!r} is claimed by {' and '.join(targets)}: uninstall all but one")
    try:
        loaded = found[0].load()
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PolicyError(f"policy {name!r} ({targets[0]}) does not load: {why}: fix or uninstall it") from error
    if not callable(loaded):
        raise PolicyError(f"policy {name!r} ({targets[0]}) is not a function of (pool, options): fix its entry point")
    return cast(Policy, loaded)
