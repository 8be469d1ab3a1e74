"""What is started in a block does not outlive it, with real processes."""

import os
import signal
import subprocess

import pytest
from vscaf.lab import processes
from vscaf.lab.polling import until
from vscaf.lab.processes import no_child_left, start_time, tree

STARTS_ANOTHER_ON_USR1 = "trap 'sleep 200000 &' USR1; sleep 100000 & while :; do wait; done"


def test_a_child_that_is_started_after_the_others_were_listed_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def listed_before_another_starts(pid: int) -> list[int]:
        listed = tree(pid)
        if not found:
            os.kill(child.pid, signal.SIGUSR1)
            until(lambda: len(tree(child.pid)) == 3, "the child has two children")
            found.extend(tree(child.pid))
        return listed

    with no_child_left():
        child = subprocess.Popen(["sh", "-c", STARTS_ANOTHER_ON_USR1])
        until(lambda: len(tree(child.pid)) == 2, "the child has a child")
        monkeypatch.setattr(processes, "tree", listed_before_another_starts)
    left = [pid for pid in found if start_time(pid) is not None]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(found) == 3 and left == []
    child.wait()


def test_what_ran_before_the_block_goes_on() -> None:
    before = subprocess.Popen(["sleep", "100000"])
    try:
        with no_child_left():
            subprocess.Popen(["sleep", "100000"])
        assert before.poll() is None and tree(os.getpid()).count(before.pid) == 1
    finally:
        before.kill()
        before.wait()
