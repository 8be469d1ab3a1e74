"""Checks one line of the wire: first the rules of wire/README.md for JSON itself, then schema.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, TypeChecker
from jsonschema.validators import extend

WIRE = Path(__file__).parents[1] / "wire"
GOLDEN = WIRE / "golden"
RELEASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
"""The golden lines and the schema of earlier releases."""
SCHEMA = json.loads((WIRE / "schema.json").read_text())
LINE_BYTES = 65536


def _is_whole(_: TypeChecker, value: object) -> bool:
    """JSON Schema accepts 1.0 as an integer. The wire does not."""
    return isinstance(value, int) and not isinstance(value, bool)


_STRICT = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole))
_VALIDATORS = {
    (side, release): _STRICT({"$ref": f"#/$defs/{side}", "$defs": schema["$defs"]})
    for side in ("from_guest", "from_host")
    for release, schema in [
        (None, SCHEMA),
        *[(release, json.loads((release / "schema.json").read_text())) for release in RELEASES],
    ]
}


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _sound(value: object) -> bool:
    """Whether strings have no NUL and no half surrogate pairs, and numbers fit 64 bits."""
    if isinstance(value, str):
        return "\0" not in value and not any(0xD800 <= ord(character) < 0xE000 for character in value)
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_sound, value))
    if isinstance(value, dict):
        return all(_sound(key) and _sound(one) for key, one in value.items())
    return True


def accepts(line: str | bytes, side: str, release: Path | None = None) -> bool:
    """Whether `line` (without its newline) is a message that this side ("from_guest", "from_host") may send, by the
    rules of now or of an earlier release."""
    try:
        text = line.decode() if isinstance(line, bytes) else line
        message = json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return (
        len(text.encode(errors="surrogatepass")) < LINE_BYTES
        and _sound(message)
        and _VALIDATORS[side, release].is_valid(message)
    )
