"""The control API as JSON Schema: the content of host-daemon/schema/control.json."""

from typing import Any

import msgspec

from vscaf.control.messages import ENDPOINTS, Endpoint, Failure

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Every endpoint with its access, query, body and answer, and the types that it refers to."""
    types: list[Any] = [Failure]
    for endpoint in ENDPOINTS:
        types += [kind for kind in (endpoint.body, _answer(endpoint)) if isinstance(kind, type) and kind is not str]
    distinct = list(dict.fromkeys(types))
    references, definitions = msgspec.json.schema_components(distinct, ref_template="#/$defs/{name}")
    known = dict(zip(distinct, references, strict=True))
    return {
        "$schema": DIALECT,
        "title": "vscaf control API, version 1",
        "endpoints": [_described(endpoint, known) for endpoint in ENDPOINTS],
        "$defs": {name: _on_one_line(definition) for name, definition in definitions.items()},
    }


def schema_text() -> str:
    """The schema as text, as in the repository's file."""
    return msgspec.json.format(msgspec.json.encode(schema(), order="deterministic"), indent=2).decode() + "\n"


def _on_one_line(definition: dict[str, Any]) -> dict[str, Any]:
    """*definition* with its docstring as one line."""
    description = {"description": " ".join(definition["description"].split())} if "description" in definition else {}
    return {**definition, **description}


def _answer(endpoint: Endpoint) -> Any:
    return endpoint.answer[0] if isinstance(endpoint.answer, tuple) else endpoint.answer


def _described(endpoint: Endpoint, known: dict[Any, Any]) -> dict[str, Any]:
    streams = isinstance(endpoint.answer, tuple)
    answer = _answer(endpoint)
    return {
        "method": endpoint.method,
        "path": endpoint.path,
        "access": endpoint.access.name.lower(),
        "description": endpoint.description,
        "query": list(endpoint.query),
        "body": known.get(endpoint.body),
        "format": "JSON lines" if streams else "text" if answer is str else "JSON",
        "answer": known.get(answer),
        "failure": known[Failure],
    }
