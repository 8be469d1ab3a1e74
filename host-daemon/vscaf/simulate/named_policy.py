"""A policy by what the user calls it: an installed name, `module:function`, or `file.py:function`."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from vscaf_policies import Policy
from vscaf_policies.registry import load_policy, policy_names

from vscaf.errors import UsageError


def find_policy(name: str) -> Policy:
    """The policy that *name* means. UsageError, naming the mend, where there is none or it does not load."""
    place, colon, function_name = name.rpartition(":")
    if not colon:
        if name not in policy_names():
            raise UsageError(
                f"no policy is named {name!r}: choose one of those installed ({', '.join(policy_names())}), "
                "or give one of your own as module:function or file.py:function"
            )
        return load_policy(name)
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # a plug-in's module runs when it is imported, and may raise anything
        raise UsageError(f"policy {name}: {place} does not load: {type(error).__name__}: {error}: mend it") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        found = f"it has {', '.join(there)}" if there else "it has none"
        raise UsageError(f"policy {name}: {place} has no function {function_name!r} ({found}): write {place}:FUNCTION")
    return cast(Policy, function)


def _from_file(path: Path) -> ModuleType:
    """The module in the file *path*; modules beside it can be imported by it, as when Python runs the file."""
    full = path.resolve(strict=True)
    # A name that no other file's module has; dataclasses and pickle look a module up by its name.
    module_name = f"{path.stem}_{hashlib.sha256(bytes(full)).hexdigest()[:12]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    specification = importlib.util.spec_from_file_location(module_name, full)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module_name] = module
    beside = str(full.parent)
    sys.path.insert(0, beside)
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    finally:
        sys.path.remove(beside)
    return module


def options_for(name: str, policy_options: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The scenario's options for the policy *name*: those under that very name, else under its function's name."""
    function_name = name.rpartition(":")[2]
    for key in (name, function_name, function_name.replace("_", "-")):
        if key in policy_options:
            return policy_options[key]
    return {}
