"""A domain is a newcomer after a long rest or with other programs, but not after a short rest."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_inference import CPUS, START_S, Watched, program
from vscaf import clock
from vscaf.domains.inference import LONG_REST_S


@pytest.fixture(autouse=True, scope="module")
def no_time_passes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now_s", lambda: START_S)
        yield


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["cg", "mg", "lu"]), st.integers(1, 60)), min_size=1, max_size=40
)


@settings(deadline=None)
@given(STEPS)
def test_naps_and_names_make_nobody_a_newcomer_oftener_than_a_long_rest(steps: list[tuple[bool, str, int]]) -> None:
    """The law: at most once in LONG_REST_S, whatever the guest says and uses."""
    watched = Watched()
    watched.claim(CPUS)
    begun_s: list[float] = []
    for computes, name, periods in steps:
        for _ in range(periods):
            if computes:
                watched.look(demand=CPUS, busy=3.9, processes=[program(name, CPUS, 3.5)])
            else:
                watched.look(demand=0, busy=0.0)
            if watched.domain.inferred.newcomer_since_s not in [float("-inf"), *begun_s[-1:]]:
                begun_s.append(watched.domain.inferred.newcomer_since_s)
    assert all(after - before >= LONG_REST_S for before, after in pairwise(begun_s))


def test_a_long_rest_makes_a_newcomer() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.9, periods=20)
    first_s = watched.domain.inferred.newcomer_since_s
    for rest_s, newcomer in ((LONG_REST_S - 5.0, False), (LONG_REST_S, True)):
        watched.look(demand=0, busy=0.0, periods=int(rest_s / 0.25))
        watched.look(demand=CPUS, busy=3.9)
        assert (watched.domain.inferred.newcomer_since_s > first_s) == newcomer
        watched.look(demand=CPUS, busy=3.9, periods=20)


def test_other_programs_are_newcomers_and_what_those_before_them_did_is_forgotten() -> None:
    """Otherwise a domain with one CPU would keep one CPU, because nothing on one CPU can show that it scales."""
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.9, periods=40, processes=[program("ep", CPUS, 1.2)])
    first_s = watched.domain.inferred.newcomer_since_s
    watched.look(demand=CPUS, busy=3.9, periods=160, processes=[program("ep", CPUS, 1.2)])
    assert watched.domain.inferred.scaf_weight is not None and watched.domain.inferred.newcomer_since_s == first_s
    watched.look(demand=0, busy=0.0, periods=140)
    watched.look(demand=CPUS, busy=3.9, periods=8, processes=[program("ep", 1, 1.0)])
    first_s = watched.domain.inferred.newcomer_since_s
    watched.look(demand=CPUS, busy=3.9, periods=40, processes=[program("cg", 1, 1.0)])
    assert watched.domain.inferred.newcomer_since_s == first_s, "too soon: perhaps only its name has changed"
    watched.look(demand=CPUS, busy=3.9, periods=100, processes=[program("cg", 1, 1.0)])
    assert watched.domain.inferred.newcomer_since_s >= first_s + LONG_REST_S
    assert watched.domain.inferred.scaf_weight is None
    both = [program("cg", 1, 1.0), program("sh", 1, 1.0)]
    second_s = watched.domain.inferred.newcomer_since_s
    watched.look(demand=CPUS, busy=3.9, periods=200, processes=both)
    assert watched.domain.inferred.newcomer_since_s == second_s, "one of the two programs is known"


def test_programs_that_the_agent_knows_are_no_newcomers() -> None:
    """Their speedup is known from earlier runs, so they need no time with equal shares."""
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.9, periods=200, processes=[program("ep", CPUS, 1.2)])
    first_s, before = watched.domain.inferred.newcomer_since_s, watched.domain.inferred.scaf_weight
    watched.look(demand=CPUS, busy=3.9, periods=200, processes=[program("cg", CPUS, 3.5)])
    assert watched.domain.inferred.newcomer_since_s == first_s
    weight = watched.domain.inferred.scaf_weight
    assert weight is not None and before is not None and weight > 2 * before
    watched.look(demand=0, busy=0.0, periods=int(LONG_REST_S / 0.25))
    watched.look(demand=CPUS, busy=3.9, periods=8, processes=[program("cg", CPUS, 3.5)])
    assert watched.domain.inferred.newcomer_since_s == first_s
