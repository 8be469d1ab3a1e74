"""`vscaf top` in a terminal."""

import os
from pathlib import Path

from vscaf.lab.polling import until
from vscaf_bench.pseudo_terminal import in_terminal


def test_it_opens_says_that_no_daemon_runs_and_ends(tmp_path: Path) -> None:
    with in_terminal("top", "--socket", f"{tmp_path}/s") as terminal:
        terminal.wait_for("running?")
        terminal.type(b"q")
        until(terminal.ended)
        assert terminal.process.returncode == 0, terminal.output


def test_without_textual_the_message_says_what_to_do(tmp_path: Path) -> None:
    """As on a host where it is not installed: the first textual that is found cannot be imported."""
    (tmp_path / "textual.py").write_text("raise ImportError('no textual here')\n", encoding="utf-8")
    with in_terminal(
        "top", "--socket", f"{tmp_path}/s", PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    ) as terminal:
        until(terminal.ended)
        assert terminal.process.returncode == 1
        assert b"no textual here" in terminal.output and b"'.[top]'" in terminal.output


def test_a_terminal_that_cannot_move_its_cursor_gets_tables(tmp_path: Path) -> None:
    with in_terminal("top", "--socket", f"{tmp_path}/s", TERM="dumb") as terminal:
        terminal.wait_for("running?")
        assert b"\x1b" not in terminal.output
        terminal.type(b"\x03")
        until(terminal.ended)
        assert terminal.process.returncode == 0
