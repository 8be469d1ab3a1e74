"""A recording, replayed, agrees with what the daemon did. The daemon is the real one, over simulated guests.

`make check` replays five minutes, `make soak` (VSCAF_EXPLORE) an hour with another seed each time.
"""

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pools import domain, pool
from recordings import MemoryRecorder, lines_of, recorded
from vscaf.config import Config, PolicyConfig
from vscaf.core.decide.decision import DecideMemory
from vscaf.core.decide.explore import ExploreMemory
from vscaf.daemon.decider import MOST_FITS, Decider
from vscaf.daemon.decision_log import DecisionLog
from vscaf.errors import UsageError
from vscaf.events import EventLog
from vscaf.record.lines import Decided, Encoder, Line, Result, State
from vscaf.replay.again import PolicyOf, as_recorded, by_policy, first_difference
from vscaf.replay.comparison import figures
from vscaf.simulate.engine import run as run_module
from vscaf.simulate.engine.run import WatchedDaemon, simulate
from vscaf.simulate.scenarios.curves import Amdahl, Log, Perfect
from vscaf.simulate.scenarios.scenario import Guest, Host, Noise, Phase, Scenario
from vscaf_policies import PoolState, load_policy
from vscaf_policies.equipartition import equipartition

EXPLORE = int(os.environ.get("VSCAF_EXPLORE", "0"))
SEED = random.randrange(10**6) if EXPLORE else 1
SECONDS = 3600.0 if EXPLORE else 300.0


class RecordedDaemon(WatchedDaemon):
    """Records from its start. Its policy changes twice on the way: then it forgets what it remembered."""

    file_lines = 100
    policies: tuple[tuple[float, str, dict[str, Any]], ...] = ()
    recorder: MemoryRecorder

    async def run(self) -> bool:
        RecordedDaemon.recorder = recorded(self, self.file_lines)
        loop = asyncio.get_running_loop()
        for at_s, name, options in self.policies:
            chosen = PolicyConfig(name=name, options=options)
            loop.call_at(at_s, self.use_policy, chosen, load_policy(name))
        return await super().run()


def scene(seconds: float) -> Scenario:
    """Guests that come, go, rest and change their programs, with noisy reports."""
    guests = (
        Guest(name="steady", curve=Amdahl(serial=0.02)),
        Guest(name="late", curve=Log(weight=2.0), start_s=seconds / 5),
        Guest(name="leaves", curve=Perfect(), end_s=seconds / 2),
        Guest(
            name="rests",
            curve=Amdahl(serial=0.2),
            phases=(Phase(seconds=25), Phase(seconds=10, idle=True), Phase(seconds=40), Phase(seconds=35, idle=True)),
        ),
    )
    return Scenario(name="replayed", guests=guests, host=Host(pcpus=12), seconds=seconds, noise=Noise(speedup=0.1))


def recording(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario,
    policy: str = "max-speedup-fitted",
    seed: int = 1,
    **settings: Any,
) -> list[bytes]:
    """What the daemon records of *scenario*."""
    for name, value in settings.items():
        monkeypatch.setattr(RecordedDaemon, name, value)
    monkeypatch.setattr(run_module, "WatchedDaemon", RecordedDaemon)
    assert simulate(scenario, policy, seed=seed).violations == ()
    return RecordedDaemon.recorder.texts


def test_minutes_of_guests_are_decided_again_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = ((SECONDS * 0.4, "fair", {"alpha": 2}), (SECONDS * 0.6, "max-speedup", {}), (SECONDS * 0.7, "gang", {}))
    back = (SECONDS * 0.8, "max-speedup-fitted", {})
    texts = recording(monkeypatch, scene(SECONDS), seed=SEED, policies=(*changes, back))
    lines = lines_of(texts)
    decided = [one for one in lines if isinstance(one, Decided)]
    assert len(decided) > SECONDS and len({one.policy.name for one in decided}) == 4
    assert sum("exploring" in why for one in decided for why in one.result.reasons.values()) > 4
    assert first_difference(lines, PolicyOf(load_policy)) == (len(decided), None), f"seed {SEED}"
    begins = [place for place, one in enumerate(lines) if isinstance(one, State)]
    varied = [one.explore.varied for one in lines if isinstance(one, State)]
    assert EXPLORE or any(varied), "no file begins while an allocation is varied"
    for begin in begins:  # also without the files before it
        _number, difference = first_difference(lines_of(texts[begin : begin + 250]), PolicyOf(load_policy))
        assert difference is None, f"seed {SEED}"


def test_a_recording_does_not_change_what_it_records(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = simulate(scene(60.0), "max-speedup-fitted", seed=1)
    monkeypatch.setattr(run_module, "WatchedDaemon", RecordedDaemon)
    monkeypatch.setattr(RecordedDaemon, "file_lines", 7)
    same = simulate(scene(60.0), "max-speedup-fitted", seed=1)
    assert sum(isinstance(one, State) for one in lines_of(RecordedDaemon.recorder.texts)) > 20
    assert replace(same, wall_s=0.0) == replace(plain, wall_s=0.0)


def test_twice_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = list(recording(monkeypatch, scene(30.0)))
    again = recording(monkeypatch, scene(30.0))
    without_time = [
        [text.partition(b'"pool"')[2] for text in texts if b'"decision"' in text] for texts in (first, again)
    ]
    assert without_time[0] == without_time[1]
    rows = [figures("fair", by_policy(lines_of(first), load_policy("fair"), PolicyConfig(name="fair"))) for _ in "ab"]
    assert rows[0] == rows[1]


def test_more_domains_than_are_fitted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that were not in turn are not recorded, so the replay decides with those that were."""
    guests = tuple(Guest(name=f"g{number:02}", curve=Amdahl(serial=0.01 * number)) for number in range(MOST_FITS + 6))
    scenario = Scenario(name="many", guests=guests, host=Host(pcpus=40), seconds=20.0, noise=Noise(speedup=0.1))
    lines = lines_of(recording(monkeypatch, scenario))
    number, difference = first_difference(lines, PolicyOf(load_policy))
    assert difference is None and number > 40


def test_the_first_difference_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(recording(monkeypatch, scene(20.0), "equipartition"))
    place, one = [(place, one) for place, one in enumerate(lines) if isinstance(one, Decided)][9]
    other = {name: cpus + 1 for name, cpus in one.result.allocations.items()}
    lines[place] = replace(one, result=replace(one.result, allocations=other))
    number, difference = first_difference(lines, PolicyOf(load_policy))
    assert number == 10 and difference is not None
    assert (difference.number, difference.time, difference.what) == (10, one.time, "allocations")
    assert (difference.recorded, difference.now) == (other, one.result.allocations)


def exploring(pool: PoolState, options: Mapping[str, Any]) -> Mapping[str, int]:
    return equipartition(pool, options)


exploring.explores = True  # type: ignore[attr-defined]


def test_exploring_searches_again_once_transitions_are_shorter(tmp_path: Path) -> None:
    """The length of a transition is recorded with each decision, so a replay begins to explore at the same time.

    Here moving CPUs takes long at first, so no variation pays. As soon as it is fast, one does, but nothing else has
    changed. A file that begins meanwhile, without what exploring found to be useless, changes nothing.
    """

    def recorded_lines(new_file_at: int | None) -> list[Line]:
        log = DecisionLog(Config(pool="0-35", state_directory=str(tmp_path)), EventLog())
        log.recorder = recorder = MemoryRecorder(log.recorder)
        recorder.start()
        decider, memory = Decider(0.01), DecideMemory()
        unsure = [domain(name, allocation=18, scaf_weight=weight) for name, weight in (("a", 4.0), ("b", 3.0))]
        for second in range(6):
            decider.transition_s = 100.0 if second < 3 else 0.1
            if second == new_file_at:
                recorder.files.full = True
            state = pool(36, *unsure, time_s=100.0 + second)
            chosen = PolicyConfig(name="equipartition")
            memory = log.decide(decider, state, exploring, chosen, memory).memory
        return lines_of(recorder.texts)

    for new_file_at in (None, 2, 3, 4):
        lines = recorded_lines(new_file_at)
        assert sum(isinstance(one, State) for one in lines) == (1 if new_file_at is None else 2)
        decided = [one for one in lines if isinstance(one, Decided)]
        explored = [any("exploring" in why for why in one.result.reasons.values()) for one in decided]
        assert explored == [False, False, False, True, False, False]
        assert first_difference(lines, PolicyOf(lambda name: exploring)) == (6, None)


def test_another_policy_goes_on_from_its_own_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two guests share by themselves what the recorded policy gave to one of them."""
    guests = (Guest(name="a", curve=Perfect()), Guest(name="b", curve=Amdahl(serial=0.5)))
    scenario = Scenario(name="two", guests=guests, host=Host(pcpus=8), seconds=60.0)
    lines = lines_of(recording(monkeypatch, scenario))
    was = figures("was", as_recorded(lines))
    equal = figures("equal", by_policy(lines, load_policy("equipartition"), PolicyConfig(name="equipartition")))
    assert was.pcpus["a"] > 5 and equal.pcpus == pytest.approx({"a": 4.0, "b": 4.0})
    assert was.sum_of_speedups is not None and equal.sum_of_speedups is not None
    assert was.sum_of_speedups > equal.sum_of_speedups + 0.5
    assert equal.changes <= 2 < was.changes
    assert equal.decisions == was.decisions and equal.seconds == was.seconds > 50
    same = figures("x", by_policy(lines, load_policy("max-speedup-fitted"), PolicyConfig(name="max-speedup-fitted")))
    assert same.pcpus == pytest.approx(was.pcpus), "the recorded policy, replayed as another one"
    nothing = figures("unmanaged", by_policy(lines, load_policy("unmanaged"), PolicyConfig(name="unmanaged")))
    assert (nothing.unmanaged, nothing.sum_of_speedups, nothing.pcpus) == (1.0, None, {})


def line(time_s: float, cpus: int = 4) -> Decided:
    return Decided("t", PoolState(cpus, 1, time_s, ()), PolicyConfig(name="fair"), 0.0, 0.5, Result({}))


def test_time_between_two_recordings_counts_for_nothing() -> None:
    first, second = (State(name, DecideMemory(), ExploreMemory()) for name in ("1", "2"))
    lines: list[Line] = [first, line(1.0), line(3.0), first, line(4.0), second, line(100.0), line(101.0)]
    assert [moment.seconds for moment in as_recorded(lines)] == [2.0, 1.0, 0.0, 1.0, 0.0]
    with pytest.raises(UsageError, match="begin with a state"):
        first_difference(lines[1:], PolicyOf(load_policy))


def test_points_are_written_when_they_are_new() -> None:
    encoder = Encoder()
    encoder.line(State("", DecideMemory(), ExploreMemory()))
    assert encoder.line(line(1.0)).endswith(b"\n")
