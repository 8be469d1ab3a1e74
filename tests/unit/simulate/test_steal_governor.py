"""The steal governor in simulated guests: one step a second, by whole cores, from the steal that the guest measures."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.simulate.engine.result import Run
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.engine.steal_governor import STEAL_GOVERNOR, GovernedGuest, next_usable
from vscaf.simulate.policies import find_policy
from vscaf.simulate.scenarios.curves import Amdahl, Perfect
from vscaf.simulate.scenarios.scenario import Guest, Host, Phase, Scenario
from vscaf_policies import PolicyError, PoolState

shares = st.floats(0.0, 1.0)


@given(st.integers(1, 64), st.integers(1, 4), st.data())
def test_a_step_is_one_core_and_follows_the_steal(vcpus: int, core: int, data: st.DataObject) -> None:
    least = min(core, vcpus)
    usable = data.draw(st.integers(least, vcpus))
    low, high = sorted((data.draw(shares), data.draw(shares)))
    fewer, more = next_usable(usable, vcpus, core, high), next_usable(usable, vcpus, core, low)
    assert least <= fewer <= more <= vcpus
    assert abs(fewer - usable) <= core and abs(more - usable) <= core
    assert next_usable(usable, vcpus, core, 0.02) == min(vcpus, usable + core)
    assert next_usable(usable, vcpus, core, 0.05) == usable == next_usable(usable, vcpus, core, 0.021)
    assert next_usable(usable, vcpus, core, 0.051) == max(least, usable - core)


def play(
    monkeypatch: pytest.MonkeyPatch, *guests: Guest, seconds: float = 12.0, **host: Any
) -> tuple[Run, dict[str, list[tuple[float, int]]]]:
    """A run, on 8 pCPUs if not said otherwise, and the vCPUs that each guest uses after each tick of its governor."""
    used: dict[str, list[tuple[float, int]]] = {}
    tick = GovernedGuest._tick

    def noted(self: GovernedGuest) -> None:
        tick(self)
        used.setdefault(self.plan.name, []).append((self._loop.time(), self.online))
        assert self.team == self.plan.vcpus_at_start, "a program is not told"

    monkeypatch.setattr(GovernedGuest, "_tick", noted)
    scene = Scenario(name="test", seconds=seconds, guests=guests, host=Host(**({"pcpus": 8} | host)))
    run = simulate(scene, STEAL_GOVERNOR)
    assert run.violations == ()
    return run, used


def test_guests_fold_by_one_core_a_second_until_the_steal_is_low(monkeypatch: pytest.MonkeyPatch) -> None:
    run, used = play(monkeypatch, Guest(name="a", curve=Perfect(), count=2))
    for name in ("a-0", "a-1"):
        assert [at_s for at_s, _vcpus in used[name]] == pytest.approx([float(second) for second in range(1, 13)])
        # 8 vCPUs of each on 8 pCPUs: 4 of its 8 are stolen. With 5 of each 1 of 8, with 4 nothing: it tries 5 again.
        assert [vcpus for _at_s, vcpus in used[name]] == [7, 6, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4]
    assert run.transitions == 0 and all(not any(moment.allocations.values()) for moment in run.moments)


def test_whole_cores_are_folded_and_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    _run, used = play(monkeypatch, Guest(name="a", curve=Perfect(), count=9), threads_per_core=2)
    for steps in used.values():
        assert [vcpus for _at_s, vcpus in steps[:3]] == [6, 4, 2]
        assert all(one != other or one in (2, 8) for (_, one), (_, other) in pairwise(steps))
        assert all(vcpus >= 2 and vcpus % 2 == 0 for _at_s, vcpus in steps)


def test_steal_counts_against_all_vcpus_used_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 13 used vCPUs each on 24 pCPUs, a guest lacks 1 of its 24: 4.2%. It stays there; 1 of 13 would be 7.7%."""
    _run, used = play(monkeypatch, Guest(name="a", curve=Perfect(), count=2), seconds=14.0, pcpus=24)
    assert [vcpus for _at_s, vcpus in used["a-0"]] == [*range(23, 12, -1), 13, 13, 13]


def test_one_vcpu_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Guest(name="b", curve=Perfect(), vcpus=1)
    _run, used = play(monkeypatch, Guest(name="a", curve=Perfect()), single, seconds=3.0)
    assert {vcpus for _at_s, vcpus in used["b"]} == {1}


def test_alone_nothing_is_folded_and_after_a_crowd_all_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, used = play(monkeypatch, Guest(name="a", curve=Amdahl(serial=0.1)))
    assert {vcpus for _at_s, vcpus in used["a"]} == {8}
    assert alone.guests[0].speedup == pytest.approx(Amdahl(serial=0.1).speedup(8))
    visitor = Guest(name="b", curve=Perfect(), phases=(Phase(seconds=4.5), Phase(seconds=99.0, idle=True)))
    _run, used = play(monkeypatch, Guest(name="a", curve=Perfect()), visitor)
    assert [vcpus for _at_s, vcpus in used["a"]] == [7, 6, 5, 4, 5, 6, 7, 8, 8, 8, 8, 8]


def test_it_needs_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    _run, used = play(monkeypatch, Guest(name="a", curve=Perfect(), count=2, behaviour="silent"), seconds=3.0)
    assert [vcpus for _at_s, vcpus in used["a-0"]] == [7, 6, 5]


@pytest.mark.parametrize("spins", [True, False])
def test_threads_that_share_vcpus_pay_as_if_the_vcpus_shared_pcpus(spins: bool) -> None:
    """So among teams that always spin it gains nothing; where threads leave CPUs to others, none is charged twice."""
    curve = Amdahl(serial=0.2)
    scene = Scenario(
        name="test", seconds=20.5, host=Host(pcpus=8), guests=(Guest(name="a", curve=curve, count=2, spins=spins),)
    )
    governed, unmanaged = (simulate(scene, policy).sum_of_speedups for policy in (STEAL_GOVERNOR, "unmanaged"))
    assert governed == pytest.approx(unmanaged)
    assert unmanaged == pytest.approx(2 * curve.speedup(8) / (2 * 2.4 if spins else 1.0))


def test_it_takes_no_option() -> None:
    policy = find_policy(STEAL_GOVERNOR)
    assert policy(PoolState(8, 1, 0.0, ()), {}) is None
    with pytest.raises(PolicyError, match="steal-governor"):
        policy(PoolState(8, 1, 0.0, ()), {"high": 10})
