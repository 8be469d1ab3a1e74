"""The host's side of the runner in a guest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vscaf.lab.polling import HANG_S
from vscaf.lab.runner import Runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """Connected to a guest that answers the time 7."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "lab"))
    listener.listen()

    def answer() -> None:
        guest, _ = listener.accept()
        with guest, guest.makefile("rw") as lines:
            for line in lines:
                word, identity, _ = line.split()
                lines.write(f"{word} {identity} 7\n")
                lines.flush()

    thread = threading.Thread(target=answer)
    thread.start()
    runner = Runner(tmp_path / "lab", "a")
    try:
        yield runner
    finally:
        runner.close()
        thread.join()
        listener.close()


class GivenUp(dict[int, Any]):
    """At the moment when an answer is taken, the one who has asked gives up."""

    def pop(self, identity: int, *default: Any) -> Any:
        super().pop(identity, None)
        return super().pop(identity, *default)


def test_an_answer_that_comes_when_its_asker_gives_up_does_not_end_the_connection(runner: Runner) -> None:
    clocks, runner._clocks = runner._clocks, GivenUp()
    with pytest.raises(TimeoutError):
        runner.clock(0.2)
    runner._clocks = clocks
    assert runner.clock(HANG_S)[1] == 7
