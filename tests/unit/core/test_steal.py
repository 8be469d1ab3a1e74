"""The sum of the vCPUs' delays never falls, whatever vCPUs come, go and come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.model.steal import Steal

DELAYS = st.dictionaries(st.integers(0, 3), st.floats(0.0, 1e6), max_size=4)


def test_what_is_not_reported_is_not_known() -> None:
    assert Steal().total_s is None
    assert Steal().after({}).total_s is None
    assert Steal().after({0: 0.0}).total_s == 0.0


@pytest.mark.parametrize(
    ("looks", "total_s"),
    [
        ([{0: 1.0, 1: 2.0}, {0: 1.5, 1: 2.0}], 3.5),
        ([{0: 1.0, 1: 2.0}, {0: 1.0}], 3.0),  # vCPU 1 was unplugged
        ([{0: 1.0, 1: 2.0}, {0: 1.0}, {0: 1.0, 1: 0.25}], 3.25),  # and plugged again
        ([{0: 1.0, 1: 2.0}, {0: 1.0}, {0: 1.0, 1: 2.5}], 3.5),  # it could not be read for a while
        ([{0: 1.0, 1: 2.0}, {}, {0: 1.0, 1: 2.0}], 3.0),
    ],
)
def test_sum(looks: list[dict[int, float]], total_s: float) -> None:
    steal = Steal()
    for one in looks:
        steal = steal.after(one)
    assert steal.total_s == total_s


@given(st.lists(DELAYS, max_size=8))
def test_the_sum_never_falls(looks: list[dict[int, float]]) -> None:
    steal, before_s = Steal(), 0.0
    for one in looks:
        steal = steal.after(one)
        now_s = steal.total_s or 0.0
        assert now_s >= before_s * (1 - 1e-12)
        before_s = now_s
