"""`vscaf bench pairs` writes its report between rounds and at its end. The runs are made up, without
pictures; all else is real."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from made_samples import run
from vscaf.bench import measure
from vscaf.bench.places import choice
from vscaf.bench.report import files
from vscaf.bench.report.context import load_context
from vscaf.bench.samples import RunKey, Sample
from vscaf.bench.session import Session
from vscaf.cli.main import main

COMMAND = ["bench", "pairs", "--shipped", "cg.S", "--arrangements", "unmanaged,static,max-speedup"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RunKey]:
    """Every run is made up: this is the list of them. A verification fails in round 3."""
    keys: list[RunKey] = []

    @contextmanager
    def no_guests(*_: Any, **__: Any) -> Iterator[Any]:
        yield SimpleNamespace(
            description="no guests",
            cpus=2,
            members=("first", "second"),
            commands=lambda arrangement, allocations: [f"make {arrangement} of {allocations}"],
        )

    def once(_session: Session, key: RunKey, attempt: int) -> Sample:
        keys.append(key)
        return run(
            key.round,
            key.workloads,
            key.arrangement,
            [1.0 if key.arrangement == "alone" else 0.5] * 2,
            threads=key.threads,
            allocations=key.allocations,
            attempt=attempt,
            verified=key.round < 3,
        )

    monkeypatch.setattr(choice, "lab_place", no_guests)
    monkeypatch.setattr(Session, "_once", once)
    monkeypatch.setattr(files, "why_no_pictures", lambda: "they take a second each")
    return keys


def test_the_report_is_written_after_each_round(
    tmp_path: Path, made: list[RunKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = []
    monkeypatch.setattr(measure, "write_report", lambda *_: reported.append(len(made)))
    done = CliRunner().invoke(main, [*COMMAND, "--rounds", "2", "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert len(made) == 10 and reported == [5, 10]
    context = load_context(tmp_path)
    assert context.place == "no guests" and context.baselines == {
        "unmanaged": ["make unmanaged of (1, 1)"],
        "static": ["make static of (1, 1)"],
    }
    assert context.settings["rounds"] == 2


def test_guests_of_another_size_do_not_go_on(tmp_path: Path, made: list[RunKey]) -> None:
    for memory, code in (("512", 0), ("1024", 2)):
        done = CliRunner().invoke(main, [*COMMAND, "--rounds", "1", "--memory", memory, "--output", str(tmp_path)])
        assert done.exit_code == code, done.output
    assert "other settings" in done.output and len(made) == 5


def test_a_bench_that_goes_on_reports_all_rounds(tmp_path: Path, made: list[RunKey]) -> None:
    for rounds, code in (("1", 0), ("2", 0), ("2", 0), ("3", 1)):
        done = CliRunner().invoke(main, [*COMMAND, "--rounds", rounds, "--output", str(tmp_path)])
        assert done.exit_code == code, done.output
        assert len(made) == 5 * int(rounds)
        assert f"{5 * int(rounds)} runs from" in (tmp_path / "report.html").read_text()
        assert "cg.S+cg.S" in done.output and "The report is" in done.output
