"""The daemon reads and writes the golden lines that the agent's tests read too."""

import json
from pathlib import Path

import pytest
from vscaf.agentlink import messages

GOLDEN = Path(__file__).parents[3] / "guest-agent" / "wire" / "golden"


def lines(name: str) -> list[bytes]:
    return (GOLDEN / name).read_bytes().splitlines()


def subset(part: object, whole: object) -> bool:
    """Whether *whole* contains everything that *part* contains. 1 and 1.0 are equal."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and subset(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(subset(a, b) for a, b in zip(part, whole, strict=True))
    return part == whole


@pytest.mark.parametrize("line", [*lines("guest.jsonl"), *lines("0.1/guest.jsonl")])
def test_reads_what_an_agent_sends(line: bytes) -> None:
    message = messages.decode_from_guest(line)
    assert subset(json.loads(messages.encode(message)), json.loads(line))


@pytest.mark.parametrize("line", lines("host.jsonl"))
def test_sends_what_an_agent_reads(line: bytes) -> None:
    message = messages.decode_from_host(line)
    encoded = messages.encode(message)
    assert encoded.endswith(b"\n")
    assert encoded.count(b"\n") == 1
    assert subset(json.loads(encoded), json.loads(line))


@pytest.mark.parametrize(("why", "line"), [json.loads(line) for line in lines("bad.jsonl")])
def test_refuses_what_is_no_message(why: str, line: str) -> None:
    with pytest.raises(messages.BadLine):
        messages.decode_from_guest(line.encode())


def test_says_which_version_a_foreign_line_claims() -> None:
    with pytest.raises(messages.BadLine) as refused:
        messages.decode_from_guest(b'{"v":2,"type":"hello","anything":[]}')
    assert refused.value.version == 2


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"[" * 10_000, b'{"v":1,"v":2}', b'{"v":1,"type":"ack"}', b"null", b"x" * 65536]
)
def test_survives_hostile_lines(line: bytes) -> None:
    with pytest.raises(messages.BadLine):
        messages.decode_from_guest(line)
