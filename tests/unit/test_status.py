"""What `vscaf status` shows of the programs that agents report."""

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console
from vscaf.agentlink.messages import ReportedProcess
from vscaf.status import process_status, table

LEARNING = {"cost": 0.31, "budget": 0.01, "used": 0.0082, "metric": "rate", "counters": True}
DECOMPOSITION = {
    "useful": 0.8123,
    "inflation": 0.02,
    "fork": 0.001,
    "dispatch": 0.0177,
    "barrier": 0.109,
    "steal": 0.04,
    "idle_rate": 0.1277,
    "section_ms": 1.72,
}


def process(**fields: Any) -> dict[str, Any]:
    """A process as it comes from the agent, then as the daemon says it to `vscaf status`."""
    reported = {"pid": 123, "name": "cg.A", "team": 2, "malleable": "full", "running": True, "points": [], **fields}
    return process_status(msgspec.convert(reported, ReportedProcess))


def shown(*processes: dict[str, Any], width: int = 120) -> str:
    domain = {
        "name": "a",
        "state": "contained",
        "partition": "0-1",
        "demand": 2,
        "busy_cpus": 1.97,
        "vcpus": 2,
        "vcpus_maximum": 2,
        "agent": "connected",
        "scaf_weight": 1.21,
        "processes": list(processes),
    }
    state = {
        "policy": "max-speedup",
        "pool": "0-3",
        "transitions": 7,
        "unknown": False,
        "domains": [domain, {"name": "b", "state": "not running"}],
    }
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table(state))
    return console.export_text()


def row(*processes: dict[str, Any]) -> list[str]:
    """The cells of the second table's only row, their lines joined by commas."""
    lines = [line for line in shown(*processes, width=80).split("learning")[1].splitlines() if "│" in line]
    columns = zip(*(line.split("│")[1:-1] for line in lines), strict=True)
    return [", ".join(cell for one in column if (cell := one.strip())) for column in columns]


def test_no_program_no_second_table() -> None:
    assert "learning" not in shown()
    assert "learning" not in shown(process(running=False))


def test_a_program_of_which_nothing_is_known() -> None:
    assert row(process()) == ["a", "cg.A", "2", "full", "unknown", "", ""]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"malleable": "shrink"}, "shrink"),
        ({"malleable": "rigid", "override": True}, "rigid, override"),
        ({"malleable": "full", "long_section": True}, "full, long section"),
        ({"malleable": "rigid", "contained": True}, "rigid, contained"),
        ({"malleable": "shrink", "override": True, "long_section": True}, "shrink, override, long section"),
    ],
)
def test_malleability(fields: dict[str, Any], words: str) -> None:
    assert row(process(**fields))[3] == words


@pytest.mark.parametrize(("team", "words"), [(1, "1.84±0.06, on 2"), (3, "1.84±0.06, on 2"), (4, "3.10±0.20, on 4")])
def test_speedup_at_the_team_size(team: int, words: str) -> None:
    points = [
        {"p": 1, "speedup": 1.0, "standard_error": 0.0, "samples": 9},
        {"p": 2, "speedup": 1.84, "standard_error": 0.03, "samples": 9},
        {"p": 4, "speedup": 3.1, "standard_error": 0.1, "samples": 9},
    ]
    assert row(process(team=team, points=points))[4] == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "0.82% of 1%"),
        ({"metric": "ipc"}, "0.82% of 1%, ipc"),
        ({"counters": False}, "0.82% of 1%, no counters"),
        ({"used": 1.0, "budget": 1.0}, "100% of 100%"),
        ({"used": 0.0, "budget": 0.000001}, "0% of 0.0001%"),
    ],
)
def test_what_learning_costs(fields: dict[str, Any], words: str) -> None:
    cell = row(process(learning={**LEARNING, **fields}))[5]
    assert cell.replace(",", "").split() == words.replace(",", "").split()


def test_where_the_time_goes() -> None:
    assert row(process(decomposition=DECOMPOSITION))[6] == "useful 81%, barrier 11%, steal 4%"
    nothing_lost = dict.fromkeys(DECOMPOSITION, 0.0) | {"useful": 0.995, "fork": 0.005}
    assert row(process(decomposition=nothing_lost))[6] == "useful 100%"


def test_a_guest_cannot_write_markup() -> None:
    text = shown(process(name="[/b][red]x"))
    assert text.count("[/b][red]x") == 1
