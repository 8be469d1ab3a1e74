"""Checks wire/schema.json with the golden lines."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from schema import GOLDEN, SCHEMA, accepts

GUEST = (GOLDEN / "guest.jsonl").read_text().splitlines()
HOST = (GOLDEN / "host.jsonl").read_text().splitlines()
BAD = [json.loads(line) for line in (GOLDEN / "bad.jsonl").read_text().splitlines()]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("line", GUEST)
def test_golden_guest_lines(line: str) -> None:
    assert accepts(line, "from_guest")


@pytest.mark.parametrize("line", HOST)
def test_golden_host_lines(line: str) -> None:
    assert accepts(line, "from_host")


@pytest.mark.parametrize(("why", "line"), BAD)
def test_bad_lines(why: str, line: str) -> None:
    assert not accepts(line, "from_guest") and not accepts(line, "from_host")
