"""Which keys differ between two configurations, and which of them only a restart can change."""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from vscaf.config import Config
from vscaf.control.messages import ConfigChange

RESTART_KEYS = frozenset({"uri", "state_directory", "control_socket", "metrics_address", "call_timeout_ms"})
"""What they name is opened once, when the daemon starts. The guard and the locks use it too."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def config_changes(before: Config, after: Config) -> list[ConfigChange]:
    """The keys that differ, domains last. A domain's table that only one of the two has is one key."""
    was, now = _values(before), _values(after)
    for values, table in [
        *((was, _key("domains", name)) for name in sorted(before.domains.keys() - after.domains.keys())),
        *((now, _key("domains", name)) for name in sorted(after.domains.keys() - before.domains.keys())),
    ]:
        keys = [key for key in values if key.startswith(f"{table}.")]
        shown = {key.removeprefix(f"{table}."): values.pop(key) for key in keys}
        values[table] = " ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
    return [
        ConfigChange(key=key, before=was.get(key), after=now.get(key))
        for key in dict.fromkeys([*was, *now])
        if was.get(key) != now.get(key)
    ]


def need_restart(changes: Iterable[ConfigChange]) -> list[str]:
    """The keys of *changes* that a running daemon cannot change."""
    return [change.key for change in changes if change.key in RESTART_KEYS]


def _values(config: Config) -> dict[str, str | None]:
    """The values as text, by the key as TOML writes it. None: unset."""
    plain = msgspec.to_builtins(config)
    domains, policy = plain.pop("domains"), plain.pop("policy")
    values = {key: _text(value) for key, value in plain.items()}
    values["policy.name"] = policy["name"]
    values |= {_key("policy", "options", key): json.dumps(value) for key, value in policy["options"].items()}
    for name in sorted(domains):
        values |= {_key("domains", name, key): _text(value) for key, value in domains[name].items()}
    return values


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _key(*parts: str) -> str:
    return ".".join(part if _BARE_KEY.fullmatch(part) else json.dumps(part) for part in parts)
