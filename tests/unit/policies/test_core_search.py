"""The search among changes, alone, against all sets of changes."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vscaf_policies.core_search import Changes, search

rows = st.dictionaries(st.integers(-5, 7).filter(bool), st.integers(0, 12).map(float), min_size=1, max_size=4)


def as_changes(parts):
    flat = [(part, chunks, loss) for part, row in enumerate(parts) for chunks, loss in sorted(row.items())]
    part, chunks, loss = zip(*flat, strict=True)
    return Changes(np.array(part), np.array(chunks), np.array(loss), 1e-9)


def best_of_all(parts, price, spare):
    """The least loss of any set, and the fewest chunks of the sets with this loss."""
    least = {0: 0.0}
    for row in parts:
        longer = dict(least)
        for total, lost in least.items():
            for chunks, loss in row.items():
                longer[total + chunks] = min(longer.get(total + chunks, math.inf), lost + loss)
        least = longer
    return min((lost + price * (spare - total), total) for total, lost in least.items() if total <= spare)


def check(parts, price, spare):
    found = search(as_changes(parts), price, spare, None)
    assert found.short == 0
    changed = dict(found.changes)
    assert len(changed) == len(found.changes)
    total = sum(changed.values())
    lost = sum(parts[part][chunks] for part, chunks in changed.items())
    assert (lost + price * (spare - total), total) == best_of_all(parts, price, spare)


@settings(max_examples=300)
@given(st.lists(rows, min_size=1, max_size=6), st.integers(1, 9).map(float), st.integers(1, 8))
@example([{3: 0.0}, {-2: 0.0}], 4.0, 1)  # the sum is first above *spare*, then fits
@example([{-2: 0.0}, {3: 0.0}], 4.0, 1)
@example([{3: 1.0}, {-2: 1.0}], 2.0, 1)
@example([{1: 0.0, 3: 8.0}, {1: 2.0}], 6.0, 3)  # as good as the best set before, with fewer chunks
@example([{1: 0.0, 3: 12.0}], 6.0, 3)
@example([{2: 4.0}, {1: 2.0}], 2.0, 2)  # as good as no change, which takes fewer chunks
@example([{1: 0.0}, {2: 2.0, 1: 1.0}], 2.0, 3)
def test_is_the_best_of_all_sets_of_changes(parts, price, spare):
    check(parts, price, spare)


@settings(max_examples=100)
@given(rows, rows, st.tuples(st.integers(5, 40), st.integers(0, 40)), st.integers(1, 40).map(float), st.integers(1, 8))
@example({7: 0.0}, {-5: 0.0}, (20, 20), 5.0, 4)
@example({5: 0.0}, {-4: 0.0}, (20, 20), 5.0, 3)  # one chunk needs three or more of each
@example({7: 0.0}, {-6: 0.0}, (40, 40), 9.0, 5)
def test_many_equal_parts_are_no_other_problem(one, other, count, price, spare):
    check([one] * count[0] + [other] * count[1], price, spare)


@given(st.lists(rows, min_size=1, max_size=8), st.integers(1, 9).map(float), st.integers(1, 8), st.integers(0, 40))
def test_with_little_work_no_set_is_better_than_it_says(parts, price, spare, work):
    found = search(as_changes(parts), price, spare, work)
    total = sum(chunks for _part, chunks in found.changes)
    lost = sum(parts[part][chunks] for part, chunks in found.changes) + price * (spare - total)
    assert total <= spare
    assert lost - found.short <= best_of_all(parts, price, spare)[0] <= lost


def test_without_changes_there_is_nothing_to_find():
    nothing = Changes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), 0.0)
    assert search(nothing, 1.0, 3, None).changes == []


@pytest.mark.parametrize("work", [None, 0, 10])
def test_no_part_changes_twice(work):
    found = search(as_changes([{1: 0.0, 2: 0.0}, {1: 0.0, 3: 0.5}]), 1.0, 8, work)
    assert len({part for part, _chunks in found.changes}) == len(found.changes)
