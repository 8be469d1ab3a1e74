"""Finding policies by name: entry points of the group `vscaf.policies`, ours and those that users install."""

from importlib.metadata import entry_points
from typing import cast

from vscaf_policies.state import Policy, PolicyError

GROUP = "vscaf.policies"


def policy_names() -> tuple[str, ...]:
    """The names of all installed policies, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_policy(name: str) -> Policy:
    """The policy of that name.

    Raises PolicyError where there is none, where two installed packages claim the name, or where it does not load.
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
    except (Exception, SystemExit) as error:  # modules are other people's code: they may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise PolicyError(f"policy {name!r} ({targets[0]}) does not load: {why}: mend or uninstall it") from error
    if not callable(loaded):
        raise PolicyError(f"policy {name!r} ({targets[0]}) is not a function of (pool, options): mend its entry point")
    return cast(Policy, loaded)
