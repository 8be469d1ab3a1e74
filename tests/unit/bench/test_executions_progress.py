"""From what a command prints in a guest to the marks of a sample."""

import re
import socket

import pytest
from vscaf.bench.executions import Member, execute
from vscaf.bench.places.place import Ended, PlaceError
from vscaf.bench.workloads.workload import Workload
from vscaf.lab.runner import Runner

STEPS = Workload("steps", "steps", progress=re.compile(r"step (\d+)"))


class Started:
    """A command that has ended at once."""

    def __init__(self, ended):
        self.ended = ended

    def wait(self, timeout_s):
        return self.ended

    def kill(self):
        pass


class Place:
    """A place in which every command ends as given, and which notes what was started."""

    def __init__(self, ended):
        self.ended = ended
        self.started = []

    def start(self, member, command, environment):
        self.started.append((member, command, dict(environment)))
        return Started(self.ended)


def run(ended, workload=STEPS):
    place = Place(ended)
    (executions,) = execute(place, [Member("first", workload, workload.command, {"A": "b"}, 0.0)], 0.0)
    return executions[0], place


def test_an_execution_has_the_marks_of_its_output():
    far = 1e9  # after the start, whenever that is
    pieces = [(far, "step 1\n"), (far + 1, "other\n"), (far + 2, "step 5\n")]
    execution, place = run(Ended(0, "", pieces))
    assert execution.marks[0] == (execution.start_s, 0.0)
    assert execution.marks[1:] == ((far, 1.0), (far + 2, 5.0))
    assert place.started[0] == ("first", "steps", {"A": "b"})


def test_a_workload_without_progress_has_none():
    execution, _ = run(Ended(0, "", [(1e9, "step 1\n")]), Workload("plain", "plain"))
    assert execution.marks == ()


def test_a_pattern_that_never_matches_is_told():
    with pytest.raises(PlaceError, match=r"steps: no line of its output shows its progress.* it last printed: done: 3"):
        run(Ended(0, "done: 3"))


def test_an_execution_that_failed_may_have_printed_nothing():
    execution, _ = run(Ended(1, ""))
    assert not execution.verified
    assert execution.marks == ((execution.start_s, 0.0),)


def test_the_lab_keeps_the_pieces_of_output(tmp_path):
    path = tmp_path / "port"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        runner = Runner(path, "guest")
        guest, _ = listener.accept()
        with guest:
            command = runner.start("steps")
            for text in ("step 1\nst", "ep 2\n"):
                guest.sendall(f"out {command.identity} {text.encode().hex()}\n".encode())
            guest.sendall(f"exit {command.identity} 0\n".encode())
            done = command.wait(60)
            pieces = command.pieces()
            runner.close()
    assert done == (0, b"step 1\nstep 2\n")
    assert [text for _, text in pieces] == ["step 1\nst", "ep 2\n"]
    assert pieces[0][0] <= pieces[1][0]
