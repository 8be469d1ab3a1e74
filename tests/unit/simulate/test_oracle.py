"""The oracle gives the same answer as exhaustive search on small pools."""

import itertools
import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vscaf.simulate.report.oracle import best_dynamic, best_static
from vscaf.simulate.scenarios.curves import Amdahl, Perfect, Usl, load_curve
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.files import load_scenario
from vscaf.simulate.scenarios.scenario import Guest, Host, Phase, Scenario


class Listed:
    """A curve by its values on 1, 2, ... CPUs."""

    def __init__(self, values: list[float]) -> None:
        self._values = values

    def speedup(self, cpus: float) -> float:
        return self._values[int(cpus) - 1] if cpus >= 1 else 0.0


def exhaustive(curves: list[Listed], chunks: int, chunk: int, bounds: list[tuple[int, int]]) -> float:
    ranges = [range(-(-low // chunk), min(chunks, -(-high // chunk)) + 1) for low, high in bounds]
    return max(
        math.fsum(curve.speedup(part * chunk) for curve, part in zip(curves, parts, strict=True))
        for parts in itertools.product(*ranges)
        if sum(parts) <= chunks
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Listed], int, int, list[tuple[int, int]]]:
    chunk, chunks = draw(st.integers(1, 3)), draw(st.integers(3, 9))
    curves, bounds = [], []
    for _ in range(draw(st.integers(1, 3))):
        curves.append(Listed(draw(st.lists(st.floats(0.0, 50.0), min_size=chunk * chunks, max_size=chunk * chunks))))
        low = draw(st.integers(0, chunk))
        bounds.append((low, draw(st.integers(low, chunk * chunks + 2))))
    return curves, chunks, chunk, bounds


@given(cases())
def test_exhaustive_search_finds_nothing_better(case: tuple[list[Listed], int, int, list[tuple[int, int]]]) -> None:
    curves, chunks, chunk, bounds = case
    split, total = best_static(curves, chunks, chunk, bounds)
    assert total == pytest.approx(exhaustive(curves, chunks, chunk, bounds))
    assert total == pytest.approx(sum(curve.speedup(cpus) for curve, cpus in zip(curves, split, strict=True)))
    assert sum(split) <= chunks * chunk
    for cpus, (low, high) in zip(split, bounds, strict=True):
        assert cpus % chunk == 0
        assert low <= cpus < high + chunk


def test_of_equal_sums_the_later_have_less() -> None:
    rising = Listed([1.0, 2.0, 3.0, 4.0])
    assert best_static([rising, rising], 4) == ((3, 1), 4.0)


def test_what_would_only_harm_is_left_over() -> None:
    falling = Listed([1.0, 1.8, 1.5, 1.2, 1.1, 1.0])
    assert best_static([falling, falling], 6) == ((2, 2), 3.6)


def test_minima_that_do_not_fit_are_refused() -> None:
    flat = Listed([1.0] * 4)
    with pytest.raises(ValueError, match="do not fit"):
        best_static([flat, flat], 4, 1, [(3, 4), (2, 4)])


@pytest.mark.parametrize(
    ("scenario", "split", "total"),
    [
        ("oracle-sp-lu", (5, 31), 26.7),
        ("oracle-cg-ft", (35, 1), 28.0),
        ("oracle-lu-bt", (10, 6), 10.1),
    ],
)
def test_the_thesis_best_splits_are_best(scenario: str, split: tuple[int, int], total: float) -> None:
    """Creech 2015, section 7.3."""
    loaded = load_scenario(scenario)
    curves = [plan.curve for plan in expanded(loaded)]
    found, best = best_static(curves, loaded.host.pcpus)
    assert found == split
    assert best == pytest.approx(total, abs=0.02)


def test_the_thesis_best_split_of_ft_and_lu_needs_odd_threads() -> None:
    """Creech 2015, section 7.3.2: 3 + 13 has 10.6. In chunks of two the best is 6 + 10, with 10.3."""
    curves = [load_curve("ft-opteron16-with-lu"), load_curve("lu-opteron16-with-ft")]
    assert best_static(curves, 16) == ((3, 13), pytest.approx(10.6))
    assert best_static(curves, 8, 2) == ((6, 10), pytest.approx(10.3))


def test_the_dynamic_best_follows_arrivals_departures_and_phases() -> None:
    scenario = Scenario(
        name="turns",
        seconds=40.0,
        host=Host(pcpus=8),
        guests=(
            Guest(
                name="turning",
                curve="uts-desktop8",
                phases=(Phase(seconds=10.0, serial=True), Phase(seconds=10.0, idle=True)),
            ),
            Guest(name="steady", curve="hpx-local16", start_s=5.0, end_s=25.0),
        ),
    )
    best = best_dynamic(scenario)
    assert best.exact
    stretches = {(one.start_s, one.end_s): one for one in best.stretches}
    assert set(stretches) == {(0.0, 5.0), (5.0, 10.0), (10.0, 20.0), (20.0, 25.0), (25.0, 30.0), (30.0, 40.0)}
    assert stretches[0.0, 5.0].split == {"turning": 1}
    # It is serial, so it has no use for a second CPU.
    assert stretches[5.0, 10.0].split["turning"] == 1
    assert stretches[5.0, 10.0].sum_of_speedups == pytest.approx(1.0 + load_curve("hpx-local16").speedup(7))
    assert stretches[10.0, 20.0].split == {"steady": 8}
    assert stretches[30.0, 40.0].split == {}
    total = sum((one.end_s - one.start_s) * one.sum_of_speedups for one in best.stretches)
    assert best.sum_of_speedups == pytest.approx(total / 40.0)


def test_a_guest_with_so_much_work_ends_when_it_is_done() -> None:
    work_s = 10.0 * load_curve("uts-desktop8").speedup(8)
    guest = Guest(name="one", curve="uts-desktop8", work_s=work_s)
    scenario = Scenario(name="work", seconds=30.0, host=Host(pcpus=8), guests=(guest,))
    best = best_dynamic(scenario)
    assert not best.exact  # how long it stays depends on the CPUs that it gets
    assert [(one.start_s, one.end_s) for one in best.stretches] == [(0.0, 10.0), (10.0, 30.0)]


def test_more_guests_than_chunks_have_one_each_as_far_as_it_goes() -> None:
    scenario = Scenario(
        name="many",
        seconds=10.0,
        host=Host(pcpus=4, threads_per_core=2),
        guests=(Guest(name="g", curve="hpx-local16", count=3),),
    )
    (stretch,) = best_dynamic(scenario).stretches
    assert stretch.split == {"g-0": 2, "g-1": 2, "g-2": 0}
    poor, good = Guest(name="p", curve=Perfect(most=1.0), count=2), Guest(name="g", curve=Perfect(), count=2)
    (stretch,) = best_dynamic(msgspec.structs.replace(scenario, guests=(poor, good))).stretches
    assert stretch.sum_of_speedups == 4.0
    assert stretch.split == {"p-0": 0, "p-1": 0, "g-0": 4, "g-1": 0}


phase_lists = st.sampled_from(
    [(), ((2, "busy"), (1, "idle")), ((1, "serial"), (3, "busy")), ((1, "idle"), (2, "other"))]
)


@st.composite
def guests(draw: st.DrawFn) -> list[Guest]:
    """Guests that come, go and change phase at whole seconds."""
    drawn = []
    for number in range(draw(st.integers(1, 3))):
        start_s = draw(st.integers(0, 6))
        drawn.append(
            Guest(
                name=f"g{number}",
                curve=draw(st.sampled_from([Perfect(), Amdahl(serial=0.2), Usl(contention=0.05, coherence=0.05)])),
                vcpus=draw(st.integers(1, 6)),
                start_s=float(start_s),
                end_s=draw(st.none() | st.integers(start_s + 1, 12).map(float)),
                minimum=draw(st.integers(1, 2)),
                maximum=draw(st.none() | st.integers(2, 6)),
                phases=tuple(
                    Phase(
                        seconds=seconds,
                        idle=kind == "idle",
                        serial=kind == "serial",
                        curve=Amdahl(serial=0.5) if kind == "other" else None,
                    )
                    for seconds, kind in draw(phase_lists)
                ),
            )
        )
    return drawn


def best_in_second(scenario: Scenario, second: int) -> float:
    """The best sum from *second* to the next. All splits among the guests that compute then are tried."""
    chunk, curves, ranges = scenario.host.threads_per_core, [], []
    for plan in expanded(scenario):
        if not plan.start_s <= second < (plan.end_s or math.inf):
            continue
        lengths = [phase.seconds or math.inf for phase in plan.phases]
        ends = list(itertools.accumulate(lengths))
        at_s = (second - plan.start_s) % ends[-1]
        phase = next(phase for phase, end_s in zip(plan.phases, ends, strict=True) if at_s < end_s)
        if phase.curve is None:
            continue
        usable = 1 if phase.serial else plan.vcpus
        most = max(plan.minimum, min(plan.vcpus, plan.maximum or plan.vcpus))
        curves.append([phase.curve.speedup(min(cpus, usable)) for cpus in range(scenario.host.pcpus + 1)])
        ranges.append(range(-(-plan.minimum // chunk) * chunk, -(-most // chunk) * chunk + 1, chunk))
    pcpus = scenario.host.pcpus
    return max(
        math.fsum(curve[cpus] for curve, cpus in zip(curves, split, strict=True))
        for split in itertools.product(*ranges)
        if sum(split) <= pcpus
    )


@settings(max_examples=60)
@given(guests(), st.integers(1, 2), st.integers(0, 5))
def test_no_history_of_splits_is_better_than_the_dynamic_best(many: list[Guest], chunk: int, settle_s: int) -> None:
    host = Host(pcpus=6, threads_per_core=chunk)
    scenario = Scenario(name="t", seconds=12.0, settle_s=float(settle_s), host=host, guests=tuple(many))
    best = best_dynamic(scenario)
    assert best.exact
    by_trying = [best_in_second(scenario, second) for second in range(settle_s, 12)]
    assert best.sum_of_speedups == pytest.approx(math.fsum(by_trying) / len(by_trying))
