"""A guest can cause extra looks at its domain. However close they are, vscaf sees the same."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from vscaf import clock
from vscaf.agentlink.link import AgentLink
from vscaf.agentlink.messages import Report
from vscaf.core.reconcile.state import Affinity, TransitionState, Treatment
from vscaf.core.reconcile.steps import Goal
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inference import USAGE_WINDOW_S, infer
from vscaf.domains.rules import DomainRules
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, HostCpus, RunState

PERIOD_S = 0.25
CPUS = 8
NUMBERS = frozenset(range(CPUS))

Period = tuple[int | None, float]
"""The demand that the agent reports during a period (None: no report), and the CPUs in use."""


class History:
    """A domain that goes through *periods* from time 0. It can be looked at at any times, in order."""

    now_s = 0.0

    def __init__(self, periods: Sequence[Period]) -> None:
        self._periods = periods
        History.now_s = 0.0
        host = SimulatedHost(HostCpus(NUMBERS, tuple(frozenset({cpu}) for cpu in NUMBERS), dict.fromkeys(NUMBERS, 0)))
        seen = DomainSeen(DomainKey("u", 1), "a", True, RunState.RUNNING, CPUS, CPUS, dict.fromkeys(NUMBERS, 0.0))
        self.domain = ManagedDomain(seen, DomainRules(), host, AgentLink("a", Path("/nowhere"), lambda: None))
        self.domain.maximum = CPUS
        self._allocate(0)

    def _allocate(self, cpus: int) -> None:
        held = frozenset(range(cpus))
        affinity = Affinity(dict.fromkeys(range(CPUS), held or NUMBERS), NUMBERS)
        treatment = Treatment(NUMBERS, None, None, NUMBERS, CPUS)
        self.domain.transition = TransitionState("a", CPUS, CPUS, treatment, held, affinity, resting=not held)
        self.domain.goal = Goal(held, CPUS, competition=True)

    def look(self, now_s: float) -> int:
        """Looks at *now_s* and returns the demand."""
        link, domain = self.domain.link, self.domain
        assert link is not None
        History.now_s = now_s
        number = min(int(now_s / PERIOD_S), len(self._periods) - 1)
        before_s = sum(busy * PERIOD_S for _, busy in self._periods[:number])
        used_s = before_s + self._periods[number][1] * (now_s - number * PERIOD_S)
        domain.seen = replace(domain.seen, vcpu_time_s=dict.fromkeys(range(CPUS), used_s / CPUS))
        says = self._periods[number][0]
        link.report = None
        if says is not None:
            link.report = Report(sequence=0, online=list(range(CPUS)), demand=says, busy=0.0, processes=[])
            link.report_at_s = now_s
        infer(domain, now_s)
        return domain.inferred.demand

    def regularly(self, early: Sequence[float] = ()) -> list[int]:
        """The demand at the beginning of each period. *early* are times of further looks. In each period the domain has
        the CPUs that it wanted before, at most half of all."""
        times, demands = sorted(early), [0]
        for number in range(len(self._periods)):
            begin_s = number * PERIOD_S
            self._allocate(min(CPUS // 2, demands[-1]))
            demands.append(self.look(begin_s))
            for time_s in times:
                if begin_s < time_s < begin_s + PERIOD_S:
                    self.look(time_s)
        return demands


@pytest.fixture(autouse=True, scope="module")
def time_of_the_history() -> Iterator[None]:
    """The clock shows the time of the current history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now_s", lambda: History.now_s)
        yield


USES = st.sampled_from([0.0, 0.02, 0.1, 0.2, 0.4, 0.9, 2.0, 3.9, 7.5])
PERIODS = st.lists(
    st.tuples(st.tuples(st.none() | st.integers(0, CPUS), USES), st.integers(1, 12)), min_size=1, max_size=8
).map(lambda runs: [period for period, length in runs for _ in range(length)])


@given(PERIODS, st.lists(st.tuples(st.integers(0, 95), st.floats(0.001, USAGE_WINDOW_S - 0.001)), max_size=60))
@example([(0, 4.0)] * 12, [(number, 0.1) for number in range(12)])
@example([(8, 0.0)] * 20, [(number, 0.02 * step) for number in range(20) for step in range(1, 9)])
def test_early_looks_change_nothing(periods: list[Period], early: list[tuple[int, float]]) -> None:
    """The law: looks that come less than USAGE_WINDOW_S after one that ended a window leave the demand at all other
    looks as it is, for any history in which what the agent says and what the domain has change at those others."""
    plain = History(periods).regularly()
    assert History(periods).regularly([number * PERIOD_S + after_s for number, after_s in early]) == plain


GAPS = st.lists(st.floats(0.001, 0.5), min_size=1, max_size=20)


def looks(gaps_s: Sequence[float], until_s: float) -> list[float]:
    """The times of looks from 0 to *until_s*. The gaps between them repeat *gaps_s*."""
    times_s, turn = [0.0], 0
    while times_s[-1] < until_s:
        times_s.append(times_s[-1] + gaps_s[turn % len(gaps_s)])
        turn += 1
    return times_s


@given(GAPS, st.integers(1, CPUS))
@example([0.02], 8)
@example([0.13], 8)
def test_a_claim_that_nothing_supports_is_disbelieved_after_the_same_time(gaps_s: list[float], claim: int) -> None:
    """The law: after 1.9 s without use, at the end of a window: at most the least window and a gap later."""
    history, first_s = History([(claim, 0.0)] * 40), None
    for now_s in looks(gaps_s, 5.0):
        if history.look(now_s) == 0 and now_s > 0.0:
            first_s = now_s
            break
    assert first_s is not None
    assert 1.9 <= first_s <= 1.9 + USAGE_WINDOW_S + max(gaps_s) + 1e-9


@given(GAPS, st.floats(0.6, CPUS))
@example([0.02], 4.0)
@example([0.13], 4.0)
def test_idle_is_not_believed_of_a_guest_that_computes(gaps_s: list[float], busy: float) -> None:
    """The law: once use was seen, each look says so until a window shows none."""
    history, shown = History([(0, busy)] * 40), []
    for now_s in looks(gaps_s, 5.0):
        shown.append(history.look(now_s) > 0)
    assert shown[shown.index(True) :] == [True] * (len(shown) - shown.index(True))


@given(GAPS)
@example([0.02])
@example([0.13])
def test_quiet_must_last_the_same_time_without_an_agent(gaps_s: list[float]) -> None:
    history, ended_s = History([(None, 3.0)] * 8 + [(None, 0.0)] * 40), None
    for now_s in looks(gaps_s, 6.0):
        if history.look(now_s) == 0 and now_s > 2.0:
            ended_s = now_s
            break
    assert ended_s is not None
    # The window in which it stopped still shows use. After its end no use is seen for 0.9 s.
    assert 2.9 <= ended_s <= 2.9 + 2 * (USAGE_WINDOW_S + max(gaps_s)) + 1e-9


@given(st.floats(0.1, 0.49), st.integers(2, CPUS))
@example(0.125, CPUS)
def test_a_claim_that_is_hardly_used_is_cut_once(part: float, claim: int) -> None:
    """It is not given back what it did not use, as soon as it has less, for nobody to see whether it would now."""
    could_use = part * min(claim, CPUS // 2)
    demands = History([(claim, could_use)] * 200).regularly()
    assert sum(a != b for a, b in pairwise(demands[1:])) <= 3
    assert demands[-1] <= max(1, math.ceil(could_use / 0.7))
