"""Bounded lines and the rate limit."""

from hypothesis import given
from hypothesis import strategies as st
from vscaf.agentlink.lines import LineSplitter, TokenBucket

LIMIT = 8
STREAM = st.binary(max_size=60).map(lambda data: data.replace(b"\x01", b"\n"))


def feed(splitter: LineSplitter, data: bytes) -> list[bytes]:
    splitter.push(data)
    lines = []
    while (line := splitter.pop()) is not None:
        lines.append(line)
    return lines


@given(STREAM, st.lists(st.integers(1, 7), max_size=20))
def test_lines_do_not_depend_on_how_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter(LIMIT)
    lines: list[bytes] = []
    rest = stream
    for cut in cuts:
        lines += feed(splitter, rest[:cut])
        rest = rest[cut:]
    lines += feed(splitter, rest)
    *complete, tail = stream.split(b"\n")
    assert lines == [line for line in complete if len(line) < LIMIT]
    assert splitter.oversize == sum(len(line) >= LIMIT for line in [*complete, tail])
    assert splitter.amid_line == bool(tail)


@given(st.lists(st.binary(max_size=50), max_size=30))
def test_never_holds_more_than_its_limit(pieces: list[bytes]) -> None:
    splitter = LineSplitter(LIMIT)
    for piece in pieces:
        feed(splitter, piece)
        assert splitter.held_bytes < LIMIT


@given(st.lists(st.tuples(st.floats(0, 1.0), st.booleans()), max_size=200))
def test_bucket_allows_no_more_than_its_rate_and_owes_nothing(calls: list[tuple[float, bool]]) -> None:
    bucket = TokenBucket(per_second=2, burst=3)
    now_s = start_s = 0.0
    allowed = 0
    for gap, _ in calls:
        now_s += gap
        allowed += bucket.allows(now_s)
        assert allowed <= 3 + (now_s - start_s) * 2 + 1e-6
    token_later_s = now_s + 0.5 + 1e-6  # as above: sums of floats are rounded, and may be a little too small
    assert bucket.allows(token_later_s)  # however often the bucket was asked before
