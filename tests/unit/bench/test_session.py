"""A session: how it starts a workload, how often it makes a run, and what it keeps."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from vscaf.bench import session
from vscaf.bench.executions import execute
from vscaf.bench.observe.host_load import ATTEMPTS
from vscaf.bench.places.place import Ended, PlaceError
from vscaf.bench.samples import ALONE, RunKey, SampleFile
from vscaf.bench.session import Session, Timing
from vscaf.bench.workloads.workload import Workload


class Place:
    """A place in which every command ends at once, and which notes what was started."""

    members = ("first", "second")
    cpus = 2
    on_one_cpu = "taskset -c 7 "
    description = "nowhere"

    def __init__(self):
        self.started = []

    def start(self, member, command, environment):
        self.started.append((member, command, dict(environment)))
        return SimpleNamespace(wait=lambda timeout_s: Ended(0, ""), kill=lambda: None)

    def clock_ahead_s(self, member):
        return None

    @contextmanager
    def arrange(self, arrangement, allocations):
        launcher = "" if arrangement == "unmanaged" else "vscaf-run "
        yield SimpleNamespace(launcher=launcher, helpers=(), transitions=lambda: 0)

    lost = iter(())

    @contextmanager
    def watch(self, helpers):
        lost = next(self.lost, 0.0)
        load = SimpleNamespace(lost=lost, disturbed=lost > 0)
        watched = SimpleNamespace(load=lambda *_: load, steady=lambda *_: None)
        yield SimpleNamespace(watched=lambda: watched)


@pytest.mark.parametrize(
    ("key", "command", "environment"),
    [
        (RunKey(1, ("cg.A",), ALONE, 1), "taskset -c 7 ./cg.A.x", {"LD_LIBRARY_PATH": "lib", "OMP_NUM_THREADS": "1"}),
        (RunKey(1, ("cg.A",), ALONE), "./cg.A.x", {"LD_LIBRARY_PATH": "lib"}),
        (RunKey(1, ("cg.A",), "max-speedup"), "vscaf-run ./cg.A.x", {"LD_LIBRARY_PATH": "lib"}),
    ],
)
def test_a_workload_has_its_variables_in_each_arrangement(tmp_path, key, command, environment):
    place = Place()
    workload = Workload("cg.A", "./cg.A.x", environment={"LD_LIBRARY_PATH": "lib"})
    one = Session(
        place,
        {"cg.A": workload},
        SampleFile(tmp_path / "samples", {}),
        lambda key: Timing(0.0, (0.0, 0.0)),
        lambda line: None,
    )
    one.run([key])
    assert place.started[0] == ("first", command, environment)


def made(tmp_path, place, timing, **options):
    """The samples of a run of a pair, and the lines that were printed."""
    samples, lines = SampleFile(tmp_path / "samples", {}), []
    pair = {"a": Workload("a", "true"), "b": Workload("b", "true")}
    Session(place, pair, samples, lambda key: timing, lines.append, **options).run([RunKey(1, ("a", "b"), "unmanaged")])
    return samples.samples, lines


@pytest.mark.parametrize(("lost", "attempts"), [((), 1), ((0.5,), 2), ((0.5, 0.25), 3), ((0.5,) * 9, ATTEMPTS)])
def test_a_disturbed_run_is_repeated_twice_at_most(tmp_path, lost, attempts):
    place = Place()
    place.lost = iter(lost)
    samples, lines = made(tmp_path, place, Timing(None, (0.0, 0.0)))
    assert [one.attempt for one in samples] == list(range(1, attempts + 1))
    assert [one.disturbed for one in samples] == [*[True] * min(len(lost), attempts), *[False] * (attempts - len(lost))]
    assert sum("disturbed: others had" in line for line in lines) == min(len(lost), attempts)


def test_each_run_has_its_own_timing_and_attempts(tmp_path):
    """That of one program has a length, that of two lasts until each has run once, and is repeated while disturbed."""
    place = Place()
    place.lost = iter((0.5,) * 9)
    samples, lines = SampleFile(tmp_path / "samples", {}), []
    pair = {"a": Workload("a", "true"), "b": Workload("b", "true")}

    def timing(key):
        return Timing(0.0 if len(key.workloads) == 1 else None, (0.0, 0.0))

    one = Session(place, pair, samples, timing, lines.append, attempts=lambda key: len(key.workloads))
    keys = [RunKey(1, ("a",), "unmanaged"), RunKey(1, ("a", "b"), "unmanaged")]
    one.run(keys)
    assert [(sample.key, sample.attempt, sample.once) for sample in samples.samples] == [
        (keys[0], 1, False),
        (keys[1], 1, True),
        (keys[1], 2, True),
    ]


def test_what_was_observed_comes_with_the_sample(tmp_path):
    seen = []
    samples, _ = made(tmp_path, Place(), Timing(None, (0.0, 0.0)), on_run=lambda sample, watched: seen.append(sample))
    assert seen == samples


def test_programs_that_run_once_have_the_whole_time(tmp_path):
    ((sample,), _) = made(tmp_path, Place(), Timing(None, (0.0, 0.0)))
    first, second = (program.executions for program in sample.programs)
    assert sample.once and len(first) == len(second) == 1
    assert sample.window == (min(first[0].start_s, second[0].start_s), max(first[0].end_s, second[0].end_s))


def test_each_program_starts_when_it_should(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        session, "execute", lambda place, members, seconds: seen.append(members) or execute(place, members, seconds)
    )
    made(tmp_path, Place(), Timing(None, (0.0, 0.01)))
    assert [[member.start_s for member in members] for members in seen] == [[0.0, 0.01]]


@pytest.mark.parametrize(("second_reading_s", "right"), [(7.0, True), (7.04, True), (7.2, False), (6.8, False)])
def test_a_clock_that_runs_at_another_pace_is_said_and_nothing_is_kept(tmp_path, second_reading_s, right):
    """Its programs' times of their progress would be wrong."""
    place = Place()
    readings = {"first": [5.0, 5.0], "second": [7.0, second_reading_s]}
    place.clock_ahead_s = lambda member: readings[member].pop(0)
    if right:
        samples, _ = made(tmp_path, place, Timing(None, (0.0, 0.0)))
        assert len(samples) == 1
    else:
        with pytest.raises(
            PlaceError, match=r"the clock of guest second went -?[0-9]+\.[0-9]+ s in [0-9]+\..*while the host is idle"
        ):
            made(tmp_path, place, Timing(None, (0.0, 0.0)))
        assert SampleFile(tmp_path / "samples", {}).samples == []
