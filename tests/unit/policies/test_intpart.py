"""Laws of the integer partition, and the thesis's worked example."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf_policies import integer_partition

shares_of_parts = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.integers(0, 40).map(float)),
    min_size=1,
    max_size=9,
)


@st.composite
def bounded_problems(draw):
    shares = draw(shares_of_parts)
    chunk = draw(st.integers(1, 4))
    total = draw(st.integers(0, 60))
    minimum = {name: draw(st.integers(0, 20)) for name in shares}
    maximum = {name: minimum[name] + draw(st.integers(0, 30)) for name in shares}
    return shares, total, chunk, minimum, maximum


def up(cpus, chunk):
    return max(1, math.ceil(cpus / chunk))


def test_worked_example_of_the_thesis_gives_14_and_2():
    shares = {"foo": 7 / math.log(12), "baz": 0.5 / math.log(4)}
    assert integer_partition(shares, 16) == {"foo": 14, "baz": 2}


def test_nobody_is_left_empty_by_a_large_share():
    assert integer_partition({"a": 0.94, "b": 0.03, "c": 0.03}, 16) == {"a": 14, "b": 1, "c": 1}


def test_ties_go_to_the_first_by_name_in_whole_chunks():
    assert integer_partition({"c": 1, "b": 1, "a": 1}, 9, chunk=2) == {"a": 4, "b": 2, "c": 2}


def test_more_parts_than_chunks_gives_one_chunk_to_the_largest():
    assert integer_partition({"a": 1, "b": 3, "c": 2}, 5, chunk=2) == {"a": 0, "b": 2, "c": 2}


def test_minima_that_do_not_fit_are_cut_from_the_largest():
    minimum = {"a": 10, "b": 3, "c": 1}
    assert integer_partition(dict.fromkeys(minimum, 1), 8, minimum=minimum) == {"a": 4, "b": 3, "c": 1}
    assert integer_partition(dict.fromkeys(minimum, 1), 4, minimum=minimum) == {"a": 2, "b": 1, "c": 1}
    minimum = {"a": 2, "b": 5, "c": 5}
    assert integer_partition(dict.fromkeys(minimum, 1), 7, minimum=minimum) == {"a": 2, "b": 3, "c": 2}


def test_what_one_part_cannot_use_goes_to_the_others():
    assert integer_partition({"a": 8, "b": 1, "c": 1}, 10, maximum={"a": 2}) == {"a": 2, "b": 4, "c": 4}


@pytest.mark.parametrize("shares", [{"a": -1.0}, {"a": math.nan}, {"a": math.inf}])
def test_shares_that_mean_nothing_are_refused_by_name(shares):
    with pytest.raises(ValueError, match="'a'"):
        integer_partition(shares, 4)


def test_crossed_bounds_are_refused_by_name():
    with pytest.raises(ValueError, match=r"'a'.*minimum above maximum"):
        integer_partition({"a": 1, "b": 1}, 8, minimum={"a": 4}, maximum={"a": 2})


@given(bounded_problems())
def test_sums_to_what_fits_within_the_bounds_and_leaves_nobody_empty(problem):
    shares, total, chunk, minimum, maximum = problem
    parts = integer_partition(shares, total, chunk, minimum, maximum)
    chunks = total // chunk
    assert parts.keys() == shares.keys()
    assert all(cpus % chunk == 0 for cpus in parts.values())
    if len(shares) > chunks:
        assert sorted(parts.values())[-chunks:] == [chunk] * chunks or chunks == 0
        assert sum(parts.values()) == chunks * chunk
        return
    highest = {name: min(chunks, up(maximum[name], chunk)) for name in shares}
    lowest = {name: up(minimum[name], chunk) for name in shares}
    assert sum(parts.values()) == min(chunks, sum(highest.values())) * chunk
    minima_fit = sum(lowest.values()) <= chunks
    for name, cpus in parts.items():
        assert chunk <= cpus <= highest[name] * chunk
        assert cpus >= lowest[name] * chunk or not minima_fit
    if not minima_fit:  # a part below its minimum is at most one chunk smaller than any other
        cut = [name for name in shares if parts[name] < lowest[name] * chunk]
        assert all(parts[name] + chunk >= parts[other] for name in cut for other in shares)


@given(shares_of_parts.filter(lambda shares: max(shares.values()) > 0), st.integers(1, 4), st.integers(0, 200))
def test_within_one_chunk_of_exact_where_bounds_are_slack(shares, chunk, total):
    parts = integer_partition(shares, total, chunk)
    whole = math.fsum(shares.values())
    exact = {name: share / whole * (total // chunk) for name, share in shares.items()}
    if all(value >= 1 for value in exact.values()):
        assert all(abs(parts[name] / chunk - exact[name]) < 1 + 1e-6 for name in shares)


@given(bounded_problems(), st.randoms(use_true_random=False))
def test_does_not_depend_on_the_order_nor_on_the_names(problem, random):
    shares, total, chunk, minimum, maximum = problem
    parts = integer_partition(shares, total, chunk, minimum, maximum)
    shuffled = list(shares)
    random.shuffle(shuffled)
    assert integer_partition({n: shares[n] for n in shuffled}, total, chunk, minimum, maximum) == parts
    # The new names have the same order, so every tie is broken in the same way.
    new = {name: f"x{index:03}" for index, name in enumerate(sorted(shares))}
    renamed = integer_partition(
        {new[n]: shares[n] for n in shuffled},
        total,
        chunk,
        {new[n]: minimum[n] for n in shares},
        {new[n]: maximum[n] for n in shares},
    )
    assert renamed == {new[name]: cpus for name, cpus in parts.items()}


@given(shares_of_parts, st.integers(0, 60), st.randoms(use_true_random=False))
def test_names_decide_nothing_but_ties(shares, total, random):
    """Under any renaming the same (share, CPUs) pairs come out."""
    new = list(shares)
    random.shuffle(new)
    renaming = dict(zip(shares, new, strict=True))
    parts = integer_partition(shares, total)
    renamed = integer_partition({renaming[name]: share for name, share in shares.items()}, total)
    pairs = sorted((shares[name], cpus) for name, cpus in parts.items())
    assert pairs == sorted((shares[name], renamed[renaming[name]]) for name in shares)


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(1, 30), min_size=1, max_size=8))
def test_a_partition_that_is_already_whole_is_left_as_it_is(parts):
    assert integer_partition({n: float(p) for n, p in parts.items()}, sum(parts.values())) == parts


@given(bounded_problems())
def test_within_one_chunk_of_the_optimum_under_the_bounds(problem):
    """p_i = clamp(t share_i, least_i, most_i) maximises eq. 4.4 under bounds; t is found here by halving."""
    shares, total, chunk, minimum, maximum = problem
    chunks = total // chunk
    low = {name: up(minimum[name], chunk) for name in shares}
    high = {name: min(chunks, up(maximum[name], chunk)) for name in shares}
    if min(shares.values()) == 0 or sum(low.values()) > chunks or len(shares) > chunks:
        return

    def exact(t):
        return {name: min(max(t * shares[name], low[name]), high[name]) for name in shares}

    least_t, most_t = 0.0, chunks / min(shares.values())
    for _ in range(200):
        t = (least_t + most_t) / 2
        if math.fsum(exact(t).values()) < chunks:
            least_t = t
        else:
            most_t = t
    parts = integer_partition(shares, total, chunk, minimum, maximum)
    assert all(abs(parts[name] / chunk - value) < 1 + 1e-6 for name, value in exact(most_t).items())
