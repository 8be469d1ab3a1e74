"""The wire's schema, as a check of one line."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

WIRE = Path(__file__).parent.parent / "wire"
GOLDEN = WIRE / "golden"
SCHEMA = json.loads((WIRE / "schema.json").read_text())


def _validator(side: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{side}", "$defs": SCHEMA["$defs"]})


_VALIDATORS = {side: _validator(side) for side in ("from_guest", "from_host")}


def accepts(line: str | bytes, side: str) -> bool:
    """Whether `line` is a message that this side ("from_guest", "from_host") may send."""
    try:
        message = json.loads(line)
    except ValueError:
        return False
    return bool(_VALIDATORS[side].is_valid(message))
