"""A thread of its own for a meter: what goes wrong in it is told at its end."""

import pytest
from vscaf.worker_thread import WorkerThread


def fail() -> None:
    raise ValueError("no such file")


def test_an_error_in_the_thread_is_raised_at_the_end() -> None:
    worker = WorkerThread(fail, "fails")
    worker.start()
    with pytest.raises(ValueError, match="no such file"):
        worker.end(raises=True)


def test_another_error_comes_first() -> None:
    worker = WorkerThread(fail, "fails")
    worker.start()
    worker.end(raises=False)


def test_work_goes_on_until_the_end() -> None:
    done = []

    def work() -> None:
        worker.stop.wait()
        done.append("all")

    worker = WorkerThread(work, "waits")
    worker.start()
    assert not done
    worker.end(raises=True)
    assert done == ["all"]
