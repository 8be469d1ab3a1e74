"""Bounded lines and the rate limit."""

from hypothesis import given
from hypothesis import strategies as st
from vscaf.agentlink.lines import LineSplitter, TokenBucket

LIMIT = 8
STREAM = st.binary(max_size=60).map(lambda data: data.replace(b"\x01", b"\n"))


@given(STREAM, st.lists(st.integers(1, 7), max_size=20))
def test_lines_do_not_depend_on_how_the_stream_is_cut(stream: bytes, cuts: list[int]) -> None:
    splitter = LineSplitter(LIMIT)
    lines: list[bytes] = []
    rest = stream
    for cut in cuts:
        lines += splitter.feed(rest[:cut])
        rest = rest[cut:]
    lines += splitter.feed(rest)
    *complete, tail = stream.split(b"\n")
    assert lines == [line for line in complete if len(line) < LIMIT]
    assert splitter.oversize == sum(len(line) >= LIMIT for line in [*complete, tail])


@given(st.lists(st.binary(max_size=50), max_size=30))
def test_never_holds_more_than_its_limit(pieces: list[bytes]) -> None:
    splitter = LineSplitter(LIMIT)
    for piece in pieces:
        splitter.feed(piece)
        assert len(splitter._held) < LIMIT


@given(st.lists(st.floats(0, 0.1), min_size=1, max_size=200))
def test_bucket_passes_no_more_than_its_rate(gaps: list[float]) -> None:
    bucket = TokenBucket(per_second=50, burst=5)
    now_s = start_s = 1000.0
    for count, gap in enumerate(gaps, 1):
        now_s += gap
        now_s += bucket.wait_s(now_s)  # the caller waits as it is told
        assert count <= 5 + (now_s - start_s) * 50 + 1e-6
