"""The file of samples: what an interrupted bench has measured is kept, and nothing else is taken for it."""

import msgspec
import pytest
from vscaf.bench.samples import Execution, ProgramSample, RunKey, Sample, SampleFile, counted
from vscaf.errors import UsageError

SETTINGS = {"seconds": 10.0, "guests": 2}


def sample(key, attempt=1, lost=0.0, disturbed=False):
    programs = tuple(
        ProgramSample(name, f"member-{place}", (Execution(1.0, 2.0, True), Execution(2.0, 3.5, False, 3)), 1.25)
        for place, name in enumerate(key.workloads)
    )
    return Sample(key, attempt, "2026-01-01T00:00:00+00:00", (1.0, 3.5), programs, 4, lost, disturbed)


FIRST = RunKey(1, ("cg.W", "lu.S"), "static", 0, (1, 1))
SECOND = RunKey(1, ("cg.W",), "alone", 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bench" / "samples.jsonl"


def test_what_was_added_is_read_again(path):
    written = SampleFile(path, SETTINGS)
    written.add(sample(FIRST))
    written.add(sample(SECOND))
    read = SampleFile(path, SETTINGS)
    assert read.samples == written.samples == [sample(FIRST), sample(SECOND)]
    assert read.of(FIRST) == [sample(FIRST)] and read.of(RunKey(2, *msgspec.structs.astuple(FIRST)[1:])) == []


@pytest.mark.parametrize("cut", [1, 20, "half"])
def test_a_last_line_that_was_cut_off_is_measured_again(path, cut):
    written = SampleFile(path, SETTINGS)
    written.add(sample(FIRST))
    complete = path.read_bytes()
    written.add(sample(SECOND))
    last = len(path.read_bytes()) - len(complete)
    path.write_bytes(path.read_bytes()[: -(last // 2 if cut == "half" else cut)])
    read = SampleFile(path, SETTINGS)
    assert read.samples == [sample(FIRST)]
    read.add(sample(SECOND))  # it is not appended to the half of a line
    assert SampleFile(path, SETTINGS).samples == [sample(FIRST), sample(SECOND)]


def test_a_file_with_only_its_first_line_is_continued(path):
    SampleFile(path, SETTINGS)
    assert SampleFile(path, SETTINGS).samples == []


@pytest.mark.parametrize("other", [{"seconds": 3.0, "guests": 2}, {"seconds": 10.0}, {}])
def test_a_file_of_other_settings_is_refused_and_left_alone(path, other):
    SampleFile(path, SETTINGS).add(sample(FIRST))
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"other settings.*--restart"):
        SampleFile(path, other)
    assert path.read_bytes() == before


def test_a_line_that_is_no_sample_is_refused_and_left_alone(path):
    SampleFile(path, SETTINGS).add(sample(FIRST))
    with path.open("ab") as file:
        file.write(b'{"key": 7}\n')
    before = path.read_bytes()
    with pytest.raises(UsageError, match="cannot be read"):
        SampleFile(path, SETTINGS)
    assert path.read_bytes() == before


def test_the_sample_that_counts_is_the_first_undisturbed_else_the_one_that_lost_least():
    attempts = [sample(FIRST, 1, 0.5, True), sample(FIRST, 2, 0.01), sample(FIRST, 3, 0.0)]
    disturbed = [sample(SECOND, 1, 0.5, True), sample(SECOND, 2, 0.2, True), sample(SECOND, 3, 0.3, True)]
    assert list(counted(attempts + disturbed)) == [attempts[1], disturbed[1]]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (FIRST, "cg.W+lu.S static 1+1"),
        (SECOND, "cg.W alone on 1 thread"),
        (RunKey(1, ("cg.W",), "alone", 4), "cg.W alone on 4 threads"),
        (RunKey(3, ("cg.W", "cg.W"), "unmanaged"), "cg.W+cg.W unmanaged"),
    ],
)
def test_names_of_runs(key, name):
    assert key.name == name
