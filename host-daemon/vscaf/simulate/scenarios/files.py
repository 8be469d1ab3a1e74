"""Finds, reads and checks scenario files. An error names the file and the key."""

import re
from pathlib import Path
from typing import Any

import msgspec

from vscaf.errors import UsageError
from vscaf.simulate.scenarios.curves import found_file, shipped
from vscaf.simulate.scenarios.expansion import expanded, scenarios_of
from vscaf.simulate.scenarios.scenario import (
    Arrivals,
    Guest,
    Host,
    LatencySeconds,
    Noise,
    Pairs,
    Phase,
    Scenario,
    WeightedCurve,
)


def shipped_scenarios() -> tuple[str, ...]:
    """Names under which load_scenario() finds the scenarios that come with vscaf."""
    return shipped("scenarios")


def load_scenario(name_or_path: str | Path) -> Scenario:
    """The shipped scenario of that name, or else the one in that file. Its guests can be expanded.

    UsageError, with the file, the key and the fix, for one that cannot be used.
    """
    path = found_file("scenarios", name_or_path)
    where = f"scenario {path}"
    try:
        scenario = msgspec.toml.decode(path.read_bytes(), type=Scenario)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}: give a readable file") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}: {_hint(str(error))}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}: fix that line") from error
    scenario = _with_paths(scenario, path.parent)
    try:
        for one in scenarios_of(scenario):
            expanded(one)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return scenario


_TABLES: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("`$.guest[].phases", Phase),
    ("`$.guest", Guest),
    ("`$.arrivals[].curves", WeightedCurve),
    ("`$.arrivals", Arrivals),
    ("`$.pairs", Pairs),
    ("`$.host", Host),
    ("`$.noise", Noise),
    ("`$.latencies", LatencySeconds),
)


def _hint(error: str) -> str:
    """The hint for an error: the keys of its table."""
    error = re.sub(r"\[[0-9.]+\]", "[]", error)
    place = next((table for path, table in _TABLES if path in error), Scenario)
    keys = ", ".join(one.encode_name for one in msgspec.structs.fields(place))
    return f"its keys are {keys}"


def _with_paths(scenario: Scenario, directory: Path) -> Scenario:
    """The scenario with full paths of the curve files that are next to it."""

    def found(curve: Any) -> Any:
        if isinstance(curve, str) and (directory / curve).is_file():
            return str(directory / curve)
        return curve

    return msgspec.structs.replace(
        scenario,
        guests=tuple(
            msgspec.structs.replace(
                guest,
                curve=found(guest.curve),
                unmanaged_curve=found(guest.unmanaged_curve),
                phases=tuple(msgspec.structs.replace(phase, curve=found(phase.curve)) for phase in guest.phases),
            )
            for guest in scenario.guests
        ),
        arrivals=tuple(
            msgspec.structs.replace(
                arrivals,
                curves=tuple(msgspec.structs.replace(one, curve=found(one.curve)) for one in arrivals.curves),
            )
            for arrivals in scenario.arrivals
        ),
        pairs=scenario.pairs
        and msgspec.structs.replace(scenario.pairs, curves=tuple(map(found, scenario.pairs.curves))),
    )
