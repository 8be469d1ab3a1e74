"""The split by worth against all possible splits, under bounds, in whole chunks, with curves of any shape."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from pools import domain, pool
from vscaf_policies.bounds import competes, limits
from vscaf_policies.by_worth import split_by_worth
from vscaf_policies.equipartition import equipartition

LONGEST = 8
worths = st.lists(st.integers(-6, 20).map(float), min_size=LONGEST, max_size=LONGEST)  # their sums are exact
concave = worths.map(lambda gains: list(itertools.accumulate(sorted(gains, reverse=True))))
domains = st.builds(
    dict,
    minimum=st.integers(0, 5),
    maximum=st.integers(1, 16),
    demand=st.integers(0, 20),
    may_rest=st.booleans(),
)


def splits(bounds, chunks):
    """Every split of at most *chunks* chunks within the bounds. bounds: in chunks."""
    for split in itertools.product(*(range(least, most + 1) for least, most in bounds)):
        if sum(split) <= chunks:
            yield split


@settings(max_examples=150)
@given(
    st.lists(st.tuples(domains, st.none() | worths | concave), min_size=1, max_size=4),
    st.integers(4, 12),
    st.integers(1, 3),
)
def test_is_the_best_of_all_splits_of_what_the_unknown_leave(drawn, chunks, chunk):
    state = pool(
        chunks * chunk, *(domain(f"d{number}", **one) for number, (one, _worth) in enumerate(drawn)), chunk=chunk
    )
    curves = {f"d{number}": worth for number, (_one, worth) in enumerate(drawn)}
    found = split_by_worth(state, lambda one, most: curves[one.name] and curves[one.name][:most], lend_to_unknown=False)

    there = [one for one in state.domains if competes(one)]
    known = [one for one in there if curves[one.name] is not None]
    equal = equipartition(state, {})
    assert all(found[one.name] == equal[one.name] for one in state.domains if one not in known)
    left = chunks - sum(equal[one.name] for one in there if one not in known) // chunk
    bounds = [[cpus // chunk for cpus in limits(one, chunk)] for one in known]

    def worth(split):
        return math.fsum(curves[one.name][min(part, LONGEST) - 1] for one, part in zip(known, split, strict=True))

    chosen = [found[one.name] // chunk for one in known]
    assert sum(chosen) <= left
    assert all(found[one.name] % chunk == 0 for one in known)
    if sum(least for least, _most in bounds) <= left:  # otherwise minima were cut
        assert all(least <= part <= most for part, (least, most) in zip(chosen, bounds, strict=True))
        assert (worth(chosen), -sum(chosen)) == max((worth(split), -sum(split)) for split in splits(bounds, left))
