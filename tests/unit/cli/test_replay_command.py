"""`vscaf replay` as a command: what it prints, its exit status, and what it refuses."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pools import domain, pool
from vscaf.cli.main import main
from vscaf.config import PolicyConfig
from vscaf.core.decide.damping import with_allocations
from vscaf.core.decide.decision import DecideMemory
from vscaf.daemon.decider import Decider
from vscaf.record.files import RecordFiles, recorded_files
from vscaf.record.lines import Decided, Encoder, State, result_of
from vscaf_policies.equipartition import equipartition


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Two files of ten decisions each by equipartition; the demand of `b` comes and goes."""
    directory, encoder, decider, memory = tmp_path / "record", Encoder(), Decider(0.0), DecideMemory()
    held: dict[str, int] = {}
    for begin in (0, 10):
        files = RecordFiles(directory, 10**6)
        files.write(encoder.line(State("r", memory, decider.memory)), new=True)
        for second in range(begin, begin + 10):
            scaling = domain("a", scaf_weight=2.0)
            state = pool(8, scaling, domain("b", demand=8 * (second % 4 < 2)), time_s=float(second))
            state = with_allocations(state, held)
            decision = decider.decide(state, equipartition, {}, memory)
            memory, held = decision.memory, dict(decision.allocations)
            result = result_of(decision, frozenset(), False)
            policy = PolicyConfig(name="equipartition")
            files.write(encoder.line(Decided(f"t{second}", state, policy, 0.0, 0.5, result)), new=False)
        files.close()
    return directory


def test_all_is_as_recorded(record: Path) -> None:
    for given in ([record], recorded_files(record)):
        done = replay(*given)
        assert (done.exit_code, done.output) == (0, "20 decisions: all as recorded\n")
    second_only = replay(recorded_files(record)[1], "--json")
    assert json.loads(second_only.output) == {"decisions": 10, "difference": None}


def test_the_first_difference(record: Path) -> None:
    first, second = recorded_files(record)
    with gzip.open(second) as file:
        text = file.read().decode()
    changed = text.replace('"allocations":{"a":8,"b":0}', '"allocations":{"a":7,"b":0}', 1)
    assert changed != text
    with gzip.open(second, "wt") as file:
        file.write(changed)
    done = replay(first, second)
    assert done.exit_code == 1
    assert done.output == (
        "decision 11, at t10, is not as recorded: allocations was {'a': 7, 'b': 0}, and is now {'a': 8, 'b': 0}\n"
    )
    assert json.loads(replay(second, "--json").output)["difference"]["recorded"] == {"a": 7, "b": 0}


def test_a_file_that_is_cut_off_is_told(record: Path) -> None:
    second = recorded_files(record)[1]
    second.write_bytes(second.read_bytes()[:-30])
    done = replay(record)
    assert done.exit_code == 0
    assert "cut off after" in done.stderr and done.stderr.count("\n") == 1
    assert "decisions: all as recorded" in done.stdout
    compared = replay(record, "--policy", "fair", "--policy", "gang")
    assert compared.exit_code == 0 and compared.stderr.count("cut off") == 1


def test_other_policies(record: Path) -> None:
    done = replay(record, "--policy", "static", "--option", "allocations={a=6, b=2}", "--json")
    was, other = json.loads(done.output)
    assert (was["policy"], was["decisions"], was["seconds"]) == ("as recorded", 20, 19.0)
    assert was["pcpus"] == {"a": pytest.approx((4 * 10 + 8 * 9) / 19), "b": pytest.approx(4 * 10 / 19)}
    assert other["pcpus"] == {"a": 6.0, "b": pytest.approx(2 * 10 / 19)}
    assert (was["changes"], other["changes"]) == (18, 9)
    known = [1 + 2 * number for number in (1.386294, 2.079442, 1.791759)]  # C = 2: on 4, 8 and 6
    assert was["sum_of_speedups"] == pytest.approx((10 * known[0] + 9 * known[1]) / 19, rel=1e-4)
    assert other["sum_of_speedups"] == pytest.approx(known[2], rel=1e-4)
    table = replay(record, "--policy", "unmanaged", "--policy", "fair", "--option", "fair.alpha=2").output
    assert "20 decisions, 19 s" in table and "as recorded" in table and "100%" in table


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--policy", "best"], "best"),
        (["--policy", "fair", "--option", "beta=1"], "beta"),
        (["--policy", "fair", "--option", "alpha"], "KEY=VALUE"),
        (["--option", "alpha=1"], "--policy"),
        (["--policy", "fair", "--policy", "gang", "--option", "alpha=1"], "NAME.KEY=VALUE"),
        (["--policy", "static"], "allocations"),
    ],
)
def test_what_is_refused(record: Path, arguments: list[str], expected: str) -> None:
    done = replay(record, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert expected in done.stderr and done.stderr.count("\n") == 1


def test_files_without_a_decision_are_refused(tmp_path: Path, record: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("text\n")
    for given, expected in (("empty", "no decision"), ("text", "vscaf record")):
        for more in ((), ("--policy", "fair")):
            done = replay(tmp_path / given, *more)
            assert done.exit_code == 2 and expected in done.stderr
    assert replay(tmp_path / "nothing").exit_code == 2
    with gzip.open(recorded_files(record)[0]) as file:
        lines = file.read().splitlines(keepends=True)
    with gzip.open(tmp_path / "middle", "wb") as file:
        file.write(b"".join(lines[3:]))
    assert "its beginning is missing" in replay(tmp_path / "middle").stderr
