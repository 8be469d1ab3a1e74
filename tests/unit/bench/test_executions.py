"""The loop that runs programs again and again, with real shell programs. They wait for each other by files in their
directory, so no test depends on how long anything takes."""

import itertools
from pathlib import Path

import pytest
from bench_places import plain_place
from vscaf.bench import executions
from vscaf.bench.executions import Member, execute
from vscaf.bench.places.no_vm import NoVmStarted
from vscaf.bench.places.place import PlaceError
from vscaf.bench.workloads.workload import Workload
from vscaf.lab.polling import until
from vscaf.lab.processes import start_time

# It runs once, and then forever. The second and last time it is padding.
ONCE_THEN_FOREVER = "if [ -e ran ]; then echo $$ > new && mv new padding; exec sleep 1000; fi; touch ran"
UNTIL_PADDING = "until [ -s padding ]; do sleep 0.01; done"


@pytest.fixture
def place(tmp_path):
    with plain_place(tmp_path) as found:
        yield found


def member(name, command, npb=False, start_s=0.0):
    return Member(name, Workload(f"{name}'s", command, npb=npb), command, {}, start_s)


def lines(place, name):
    return len((place.files / name).read_text().splitlines())


def ends(path):
    """Waits until the process whose pid is in the file has ended."""
    until(lambda: start_time(int(path.read_text())) is None, f"{path.name} has ended")


def test_each_has_one_execution_at_least(place):
    """There are no seconds to compute in."""
    done = execute(place, [member("first", "true"), member("second", "true")], 0.0)
    assert [len(one) for one in done] == [1, 1]
    assert all(one.start_s < one.end_s and one.verified for (one,) in done)


def test_executions_follow_each_other_until_the_time_is_over(place):
    (done,) = execute(place, [member("first", "echo x >> count")], 0.3)
    assert len(done) == lines(place, "count") >= 1
    assert all(before.end_s <= after.start_s for before, after in itertools.pairwise(done))


def test_who_is_done_goes_on_until_all_are_and_that_does_not_count(place):
    quick = member("first", "echo x >> count")
    slow = member("second", "until [ $(wc -l < count) -ge 5 ]; do sleep 0.01; done 2>/dev/null")
    done = execute(place, [quick, slow], 0.0)
    assert [len(one) for one in done] == [1, 1]
    assert lines(place, "count") >= 5
    assert done[0][0].end_s < done[1][0].end_s


def test_padding_is_ended_with_the_last_execution_that_counts(place):
    done = execute(place, [member("first", ONCE_THEN_FOREVER), member("second", UNTIL_PADDING)], 0.0)
    assert [len(one) for one in done] == [1, 1]
    ends(place.files / "padding")


def test_padding_is_ended_whatever_it_has_started(place):
    command = ONCE_THEN_FOREVER.replace("exec sleep 1000", "sleep 1000 & echo $! > child; wait")
    execute(
        place, [member("first", command), member("second", UNTIL_PADDING + "; until [ -s child ]; do :; done")], 0.0
    )
    ends(place.files / "child")


def test_a_program_that_cannot_be_run_ends_all(place):
    with pytest.raises(PlaceError, match=r"second.*no-such-program.*cannot be run there"):
        execute(place, [member("first", ONCE_THEN_FOREVER), member("second", f"{UNTIL_PADDING}; no-such-program")], 0.0)
    ends(place.files / "padding")


def test_a_program_that_cannot_be_run_at_once_ends_all(place):
    with pytest.raises(PlaceError, match=r"first.*cannot be run there"):
        execute(place, [member("first", "./no-such-program"), member("second", "true", start_s=0.05)], 0.0)


@pytest.mark.parametrize("padding", [False, True])
def test_after_the_end_of_a_run_nothing_is_started(place, padding):
    together = executions._Together(1)
    together.end()
    assert together.start(place, member("first", "touch started"), padding=padding) is None
    assert not (place.files / "started").exists()


def test_a_program_that_hangs_is_ended_and_said(place, monkeypatch):
    wait = NoVmStarted.wait

    def wait_from_its_words_on(started, timeout_s):
        until(lambda: "here I am" in started._output.text(), "its words")
        return wait(started, timeout_s)

    monkeypatch.setattr(NoVmStarted, "wait", wait_from_its_words_on)
    monkeypatch.setattr(executions, "EXECUTION_DEADLINE_S", 0.2)
    with pytest.raises(PlaceError, match=r"first: first's: .*not ended.*said: here I am"):
        execute(place, [member("first", "echo $$ > pid; echo here I am; exec sleep 1000")], 0.0)
    place.close()
    ends(place.files / "pid")


@pytest.mark.parametrize(
    ("command", "verified", "status"),
    [
        ("exit 3", False, 3),
        ("kill -TERM $$", False, 128 + 15),
        ("echo ' Verification    =    SUCCESSFUL'", True, 0),
        ("echo ' Verification    =    SUCCESSFUL'; exit 1", False, 1),
        ("echo ' Verification    =    UNSUCCESSFUL'", False, 0),
        ("echo ' Verification    =    UNSUCCESSFUL' >&2; echo ' Verification = SUCCESSFUL'", False, 0),
        ("true", False, 0),
    ],
)
def test_each_execution_is_verified(place, command, verified, status):
    ((done,),) = execute(place, [member("first", command, npb=True)], 0.0)
    assert (done.verified, done.status) == (verified, status)


def test_the_environment_comes_to_the_program(place):
    one = Member("first", Workload("it", ""), 'test "$OMP_NUM_THREADS" = "1 2"', {"OMP_NUM_THREADS": "1 2"}, 0.0)
    assert execute(place, [one], 0.0)[0][0].status == 0


def test_no_process_and_no_file_descriptor_is_left(place):
    execute(place, [member("first", "true")], 0.0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    execute(place, [member("first", "echo x >> count"), member("second", "true")], 0.2)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_error_of_one_ends_all(place):
    """The first would run for a quarter of an hour."""
    hangs = member("first", "echo $$ > new && mv new hangs; exec sleep 1000")
    fails = member("second", "until [ -s hangs ]; do sleep 0.01; done; exit 127")
    with pytest.raises(PlaceError, match="cannot be run there"):
        execute(place, [hangs, fails], 0.0)
    ends(place.files / "hangs")


@pytest.mark.parametrize("killable", [True, False])
def test_a_program_whose_end_is_not_known_is_ended_or_named(place, monkeypatch, killable):
    """As if the guest's agent did not answer once, or not any more."""

    def lost(started, timeout_s):
        until((place.files / "hangs").exists, "it runs")
        raise PlaceError("no answer")

    kill, killed = NoVmStarted.kill, []

    def ended(started):
        killed.append(started.pid)
        if not killable:
            raise PlaceError("nor to this")
        kill(started)

    left = "" if killable else "; 1 of the programs could not be ended, and may still run: nor to this"
    with monkeypatch.context() as broken:
        broken.setattr(NoVmStarted, "wait", lost)
        broken.setattr(NoVmStarted, "kill", ended)
        with pytest.raises(PlaceError, match=f"^no answer{left}$"):
            execute(place, [member("first", "echo $$ > new && mv new hangs; exec sleep 1000")], 0.0)
    assert killed == [int((place.files / "hangs").read_text())]


def test_an_interruption_ends_all(place, monkeypatch):
    """The interrupt reaches the thread that waits for all."""

    class Pool(executions.ThreadPoolExecutor):
        def map(self, *arguments):
            results = super().map(*arguments)
            until((place.files / "hangs").exists, "it runs")
            del results
            raise KeyboardInterrupt

    monkeypatch.setattr(executions, "ThreadPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        execute(place, [member("first", "echo $$ > new && mv new hangs; exec sleep 1000")], 0.0)
    ends(place.files / "hangs")


def test_without_seconds_each_runs_once_and_nobody_goes_on(place):
    """The first would run again if it had to wait for the second."""
    first = member("first", "echo x >> count")
    second = member("second", "until [ -s count ]; do sleep 0.01; done")
    done = execute(place, [first, second], None)
    assert [len(one) for one in done] == [1, 1]
    assert lines(place, "count") == 1
