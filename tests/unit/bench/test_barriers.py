"""What a barrier costs, from made-up samples and from the loop itself."""

import re
import subprocess

import pytest
from made_samples import alone, run
from vscaf.bench.barriers import BARRIERS, barrier_figures
from vscaf.bench.c_programs import workload_directory
from vscaf.bench.figures import figures
from vscaf.bench.places.place import BASELINES
from vscaf.bench.samples import Execution, ProgramSample, RunKey, Sample

LOOP = "barrier.S"


def test_each_number_of_guests_has_its_figure_alone_first() -> None:
    samples = [
        run(1, [LOOP, LOOP], "unmanaged", [1.0, 0.5]),
        run(2, [LOOP, LOOP], "unmanaged", [2.0, 2.0]),
        run(1, [LOOP], "unmanaged", [10.0]),
        *alone(1, LOOP, 20.0, 0.5),
        run(1, [LOOP, "cg.W"], "unmanaged", [1.0, 1.0]),  # beside another program: not of this kind
    ]
    found = [(one.guests, one.arrangement, one.threads, one.ns.value, one.ns.n) for one in barrier_figures(samples)]
    second_ns = 1e9 / BARRIERS[LOOP]
    assert found == [
        (1, "alone", 0, pytest.approx(second_ns / 10), 1),
        (1, "alone", 1, pytest.approx(second_ns / 20), 1),
        (1, "unmanaged", 0, pytest.approx(second_ns / 10), 1),
        (2, "unmanaged", 0, pytest.approx(second_ns * (1.5 + 0.5) / 2), 2),
    ]
    assert figures(samples, BASELINES).barriers == tuple(barrier_figures(samples))


def test_the_start_of_the_program_is_no_time_of_its_barriers() -> None:
    """Each execution starts for a second, and then has 10 sections of a tenth of a second."""
    done = tuple(
        Execution(
            start_s,
            start_s + 2.5,
            True,
            0,
            ((start_s, 0.0), *((start_s + 1 + section / 10, section / 10) for section in range(1, 11))),
        )
        for start_s in (0.0, 2.5)
    )
    sample = Sample(RunKey(1, (LOOP,), "unmanaged"), 1, "", (0.0, 4.0), (ProgramSample(LOOP, "first", done),))
    (found,) = barrier_figures([sample])
    assert found.ns.value == pytest.approx(1e9 / BARRIERS[LOOP])


def test_disturbed_and_wrong_runs_have_no_figure() -> None:
    disturbed = run(1, [LOOP], "unmanaged", [1.0], disturbed=True)
    wrong = run(2, [LOOP], "unmanaged", [1.0], verified=False)
    assert barrier_figures([disturbed, wrong]) == []


@pytest.mark.parametrize("name", ["barrier.S", "barrier.W"])
def test_the_loop_has_as_many_barriers_as_is_counted(name: str) -> None:
    program = workload_directory() / name
    done = subprocess.run([program], env={"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    size = re.search(r"Sections x barriers: +(\d+)x(\d+)", done.stdout)
    assert size is not None and int(size[1]) * int(size[2]) == BARRIERS[name]
