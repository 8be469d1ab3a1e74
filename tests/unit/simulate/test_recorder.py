"""What is recorded of a run: moments, convergence, and broken laws (which no run of this project has)."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from vscaf.core.decide.decision import DecideMemory, Decision
from vscaf.domains.domain import ManagedDomain
from vscaf.events import Kind
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.simulate.engine.machine import host_cpus
from vscaf.simulate.engine.recorder import ErrorRecorder, Laws, Recorder
from vscaf.simulate.engine.result import Moment
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.simulate.scenarios.curves import Perfect
from vscaf.simulate.scenarios.scenario import Guest, Host, Scenario


def decision(**allocations: int) -> Decision:
    return Decision(allocations, frozenset(), {}, True, DecideMemory())


class RecordedRun:
    """A recorder whose clock the test sets."""

    def __init__(self, seconds: float = 100.0, guests: int = 2, chunk: int = 1) -> None:
        self.now_s = 0.0
        self.recorder = Recorder(lambda: self.now_s, seconds, guests, chunk)

    def at(self, now_s: float, **allocations: int) -> None:
        self.now_s = now_s
        self.recorder.decided(decision(**allocations))


def test_each_change_is_a_moment_and_the_last_of_an_instant_counts() -> None:
    run = RecordedRun()
    run.at(1.0, a=8)
    run.at(2.0, a=8)
    run.at(3.0, a=5, b=3)
    run.at(3.0, a=4, b=4)
    assert run.recorder.moments() == (Moment(1.0, {"a": 8}), Moment(3.0, {"a": 4, "b": 4}))
    assert run.recorder.decisions == 4
    assert run.recorder.moved_cpus == 8 + 3 + 1
    run.now_s = 9.0
    run.recorder.presence_changed("b", gone=True)
    assert run.recorder.moments()[-1] == Moment(9.0, {"a": 4})


def test_a_policy_that_leaves_everything_alone_decides_nothing() -> None:
    recorder = RecordedRun().recorder
    recorder.decided(Decision({"a": 8}, frozenset(), {}, False, DecideMemory()))
    assert recorder.moments() == () and recorder.decisions == 1


def test_of_many_guests_only_so_many_moments_are_kept() -> None:
    run = RecordedRun(seconds=1000.0, guests=100)
    for step in range(100):
        run.at(step / 10, a=step % 7)
    assert len(run.recorder.moments()) == 11


def test_convergence_counts_from_the_last_coming() -> None:
    run = RecordedRun()
    run.at(0.0, a=36)
    run.now_s = 10.0
    run.recorder.presence_changed("b", gone=False)
    run.at(10.5, a=18, b=18)
    run.at(12.0, a=25, b=11)
    run.at(14.0, a=26, b=10)
    run.at(15.0, a=27, b=9)
    # 26:10 is within one CPU of 27:9, and 25:11 is not.
    assert run.recorder.converged_s(["a", "b"], 100.0) == pytest.approx(4.0)
    assert run.recorder.converged_s(["a"], 100.0) == pytest.approx(4.0)
    run.at(95.0, a=20, b=16)
    assert run.recorder.converged_s(["a", "b"], 100.0) is None
    wide = RecordedRun(chunk=4)
    wide.at(10.0, a=32)
    wide.at(20.0, a=36)
    assert wide.recorder.converged_s(["a"], 100.0) == pytest.approx(10.0)


def test_nothing_changes_where_nothing_has_to() -> None:
    run = RecordedRun()
    run.at(0.0, a=8)
    run.now_s = 5.0
    run.recorder.presence_changed("b", gone=True)
    assert run.recorder.converged_s(["a"], 100.0) == 0.0


def test_refusals_and_errors_are_violations_once() -> None:
    recorder = RecordedRun().recorder
    for _ in range(2):
        recorder.record(Kind.REFUSED, "a", why="no")
    recorder.record(Kind.ALLOCATION, "a", after="0-3", why="so")
    logger = logging.getLogger("vscaf.test_simulate_measure")
    handler = ErrorRecorder(recorder)
    logger.addHandler(handler)
    logger.error("it went %s", "wrong")
    logger.removeHandler(handler)
    assert list(recorder.violations) == ["no", "it went wrong"]


def found(pins: dict[str, set[int]], claims: dict[str, set[int]], sharing: frozenset[str] = frozenset()) -> list[str]:
    """The broken laws that are found for domains with one vCPU each, none of which is moving. The pool is 0 to 3."""
    recorder = RecordedRun().recorder

    async def main() -> None:
        host = SimulatedHost(host_cpus(Host(pcpus=6)), on_rates=lambda key: None, clock=asyncio.get_running_loop().time)
        laws = Laws(host, frozenset(range(4)), recorder)
        managed: Any = {}
        for name, cpus in pins.items():
            key = host.start(name, 1)
            await host.pin_vcpus(key, {0: frozenset(cpus)})
            host.compute(key, {0: 1.0})
            transition = SimpleNamespace(moving=False)
            seen = SimpleNamespace(key=key)
            managed[key] = SimpleNamespace(
                name=name, state="contained", transition=transition, seen=seen, held=frozenset(claims[name])
            )
        laws.managed = lambda: managed
        laws.sharing = lambda: sharing
        await asyncio.sleep(0.1)
        for key in managed:
            laws.check(key)

    run_virtual(main())
    return list(recorder.violations)


def test_laws_see_who_runs_where_it_should_not() -> None:
    assert found({"a": {0, 1}, "b": {2}}, {"a": {0, 1}, "b": {2}}) == []
    assert found({"a": {0, 1}, "b": {1}}, {"a": {0, 1}, "b": {1}}) == ["a and b run on the same pCPUs"]
    assert found({"a": {0}, "b": {0}}, {"a": {0}, "b": {0}}, frozenset("ab")) == []
    assert found({"a": {3, 4}}, {"a": {3, 4}}) == ["a runs outside the pool, on [4]"]
    assert found({"a": {0, 1}}, {"a": {0}}) == ["a runs on [1], which it does not hold"]


def test_what_is_not_put_back_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: ManagedDomain, deadline_s: float) -> None:
        self.given_back = True

    scene = Scenario(name="t", seconds=4.0, host=Host(pcpus=4), guests=(Guest(name="a", curve=Perfect(), count=2),))
    assert simulate(scene, "equipartition").violations == ()
    monkeypatch.setattr(ManagedDomain, "give_back", nothing)
    violations = simulate(scene, "equipartition").violations
    assert any("a-0 has other pins" in violation for violation in violations)
