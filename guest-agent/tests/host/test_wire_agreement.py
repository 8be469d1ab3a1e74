"""The agent's parser, the daemon's and the schema agree on each line. Lines are golden, generated and broken ones."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig import BUILD, DEADLINE_S
from schema import GOLDEN, RELEASES, accepts
from vscaf.agentlink import messages

HOST = (GOLDEN / "host.jsonl").read_bytes().splitlines()
GUEST = (GOLDEN / "guest.jsonl").read_bytes().splitlines()
BAD = [json.loads(line)[1].encode() for line in (GOLDEN / "bad.jsonl").read_text().splitlines()]
# The same examples each time. VSCAF_EXPLORE=5000 tries 5000 random ones instead.
EXPLORE = os.environ.get("VSCAF_EXPLORE")
MANY = settings(
    max_examples=int(EXPLORE or 100),
    derandomize=EXPLORE is None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
HOST_FIELDS = {
    "hello": {"daemon", "versions", "capabilities"},
    "error": {"message"},
    "allocate": {"sequence", "cpus", "limit", "competition", "deadline_ms"},
}


class Agent:
    """The agent's own parser."""

    def __init__(self) -> None:
        program = BUILD / "guest-agent" / "wire-lines"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def says(self, line: bytes) -> str:
        assert b"\n" not in line
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()

    def accepts(self, line: bytes) -> bool:
        word = self.says(line).split(" ")[0]
        assert word in {"bad", "version", "hello", "error", "allocate"}, "it died"
        return word not in {"bad", "version"}

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(DEADLINE_S) == 0
        self.process.stdout.close()


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    one = Agent()
    yield one
    one.close()


def host_lines(release: Path) -> list[bytes]:
    return (release / "host.jsonl").read_bytes().splitlines()


def daemon_accepts(line: bytes, side: str) -> bool:
    decode = messages.decode_from_guest if side == "from_guest" else messages.decode_from_host
    try:
        decode(line)
    except messages.BadLine:
        return False
    return True


def beyond_this_version(line: bytes) -> bool:
    """Whether a line from a host, which the daemon's parser accepts, has fields that this version does not know. The
    other parser refuses errors in such fields, the daemon's does not look at them."""
    message = messages.decode_from_host(line)
    fields = json.loads(line)
    return not fields.keys() <= {"v", "type"} | HOST_FIELDS[type(message).__struct_config__.tag]


def assert_agreed(agent: Agent, line: bytes) -> None:
    """Checks that agent, daemon and schema agree on a line from a host."""
    schema, daemon = accepts(line, "from_host"), daemon_accepts(line, "from_host")
    assert agent.accepts(line) == schema, line
    assert daemon == schema or (daemon and beyond_this_version(line)), line


@pytest.mark.parametrize("line", [*HOST, *GUEST, *BAD])
def test_golden_lines(agent: Agent, line: bytes) -> None:
    assert_agreed(agent, line)
    assert accepts(line, "from_guest") == daemon_accepts(line, "from_guest")


def test_golden_files_are_what_they_say(agent: Agent) -> None:
    assert all(map(agent.accepts, HOST))
    assert all(accepts(line, "from_guest") for line in GUEST)
    for line in BAD:
        assert not any((agent.accepts(line), daemon_accepts(line, "from_guest"), daemon_accepts(line, "from_host")))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_releases_understand_each_other(agent: Agent, release: Path) -> None:
    """What the other side of an earlier release sends is accepted now, and what is sent now was accepted then: fields
    that are new to a receiver are ignored."""
    for line in (release / "guest.jsonl").read_bytes().splitlines():
        assert daemon_accepts(line, "from_guest"), line
    for line in host_lines(release):
        assert agent.accepts(line), line
    assert all(accepts(line, "from_guest", release) for line in GUEST)
    assert all(accepts(line, "from_host", release) for line in HOST)


def test_the_agent_knows_the_capabilities_of_hosts(agent: Agent) -> None:
    said = {line: agent.says(line) for line in HOST}
    for written, words in ((b'["quiet"]', "hello quiet"), (b'["quiet","sparse"]', "hello quiet sparse")):
        lines = {line for line in HOST if b'"capabilities":' + written in line}
        assert lines and lines == {line for line, heard in said.items() if heard == words}
    heard = {agent.says(line) for path in RELEASES[:1] for line in host_lines(path)}
    assert {words for words in heard if words.startswith("hello")} == {"hello"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":1,"type":"error","message":"\xff"}',
        b'{"v":1,"type":"error","message":"\xc0\xaf"}',
        b'{"v":1,"type":"error","message":"\xed\xa0\x80"}',
        b'{"v":1,"type":"error","message":"a","later":"\xf5\x80\x80\x80"}',
        b'{"v":1,"type":"error","message":"a\x00b"}',
        b'{"v":1,"type":"error","message":"a"}\x00',
        b'\x00{"v":1,"type":"error","message":"a"}',
        b'{"v":1,"type":"error","message":"a","later":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
        b"[" * 60_000,
        b'{"a":' * 10_000,
    ],
)
def test_bytes_that_are_no_text(agent: Agent, line: bytes) -> None:
    assert not agent.accepts(line)
    assert not daemon_accepts(line, "from_guest")
    assert not daemon_accepts(line, "from_host")


@pytest.mark.parametrize("length", [65535, 65536])
def test_the_longest_line(length: int) -> None:
    line = b'{"v":1,"type":"error","message":"a"}'
    line += b" " * (length - len(line))
    assert daemon_accepts(line, "from_guest") == accepts(line, "from_guest") == (length < 65536)


EDGES = [
    0,
    1,
    -1,
    2,
    4095,
    4096,
    4097,
    2**31 - 1,
    2**31,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
    -(2**63) - 1,
    10**30,
]
TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["", "ä" * 1024, "ä" * 1025, "\0", "😀"])
SCALAR = (
    st.none()
    | st.booleans()
    | st.sampled_from(EDGES)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1.0, 0.0, -0.0, 0.5, 1e6, 1000000.5, 1e9, 4096.5])
    | TEXT
)
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
WHOLE = st.sampled_from(EDGES) | st.integers(0, 5000)
CAPABILITIES = st.lists(TEXT | st.sampled_from(["quiet", "sparse"]), max_size=65)
VERSIONS = st.lists(st.sampled_from([1, 2, 0, 2**31 - 1, 2**31]), max_size=17)
HOST_MESSAGES = (
    st.fixed_dictionaries(
        {"v": st.just(1), "type": st.just("hello"), "daemon": TEXT},
        optional={"versions": VERSIONS, "capabilities": CAPABILITIES},
    )
    | st.fixed_dictionaries({"v": st.just(1), "type": st.just("error"), "message": TEXT})
    | st.fixed_dictionaries(
        {
            "v": st.just(1),
            "type": st.just("allocate"),
            "sequence": WHOLE,
            "cpus": WHOLE,
            "limit": WHOLE,
            "competition": st.booleans(),
            "deadline_ms": WHOLE,
        }
    )
)
GUEST_MESSAGES = st.sampled_from([json.loads(line) for line in GUEST])


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a message."""
    found = [here] if here else []
    if isinstance(value, dict):
        for key, one in value.items():
            found += paths(one, (*here, key))
    elif isinstance(value, list):
        for i, one in enumerate(value):
            found += paths(one, (*here, i))
    return found


@st.composite
def changed(draw: st.DrawFn, source: st.SearchStrategy[Any]) -> Any:
    """A message in which some values are replaced, removed or added."""
    message = json.loads(json.dumps(draw(source)))
    for _ in range(draw(st.integers(0, 2))):
        places = paths(message)
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        holder = message
        for key in way:
            holder = holder[key]
        what = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if what == "remove":
            del holder[last]
        elif what == "replace":
            holder[last] = draw(VALUE)
        elif isinstance(holder, dict):
            holder[draw(TEXT)] = draw(VALUE)
        else:
            holder.append(holder[last])
    return message


def written(draw: st.DrawFn, message: Any) -> bytes:
    spaces = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", "\t: ")]))
    return json.dumps(message, ensure_ascii=draw(st.booleans()), separators=spaces).encode(errors="surrogatepass")


@given(st.data())
@MANY
def test_hosts_messages(agent: Agent, data: st.DataObject) -> None:
    message = data.draw(changed(HOST_MESSAGES))
    assert_agreed(agent, written(data.draw, message))


PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"-",
    b".",
    b"e9",
    b"1e999",
    b"null",
    b"\\u0000",
    b"\\ud800",
]
PIECES += [
    b"\\ud83d\\ude00",
    b"\xff",
    b"\xc3",
    b"\x00",
    b"\x1f",
    b" ",
    b"\r",
    b'"v":1',
    b'"v":1,',
    b',"type":"hello"',
    b"/",
]


@given(st.data())
@MANY
def test_broken_lines(agent: Agent, data: st.DataObject) -> None:
    """Bytes are inserted, removed, overwritten and repeated."""
    line = bytearray(written(data.draw, data.draw(HOST_MESSAGES)))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(line)))
        end = data.draw(st.integers(start, min(len(line), start + 20)))
        piece = data.draw(st.sampled_from([*PIECES, b"", bytes(line[start:end]) * 2]) | st.binary(max_size=2))
        line[start:end] = piece.replace(b"\n", b" ")
    assert_agreed(agent, bytes(line))


@given(st.data())
@MANY
def test_guests_messages(data: st.DataObject) -> None:
    """Compares the daemon's parser with the schema."""
    line = written(data.draw, data.draw(changed(GUEST_MESSAGES)))
    schema, daemon = accepts(line, "from_guest"), daemon_accepts(line, "from_guest")
    # The daemon does not check fields that it does not know for numbers beyond 64 bits.
    assert daemon == schema or (daemon and "10" + "0" * 29 in line.decode()) or too_large(line), line


def too_large(line: bytes) -> bool:
    return any(str(number).encode() in line for number in (2**63, -(2**63) - 1))
