"""host-daemon/README.md lists all commands, events, metrics, endpoints and states that exist, and no others."""

import re
from pathlib import Path

from click import Group
from metric_names import metric_names
from vscaf.cli.main import main
from vscaf.control.messages import ENDPOINTS
from vscaf.events import Kind
from vscaf.values import State

main.load_all()  # else `commands` has those that were used
HOST_DAEMON = Path(__file__).parents[2] / "host-daemon"
README = (HOST_DAEMON / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text: str) -> set[str]:
    """All text in backquotes in the first cells of the tables of *text*."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_events() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (HOST_DAEMON / "vscaf").rglob("*.py")]
    recorded = {kind.value for kind in Kind if any(f"Kind.{kind.name}" in text for text in sources)}
    assert first_cells(section("Events")) == recorded


def test_metrics() -> None:
    there = {name for name in metric_names() if "_process_" not in name}
    assert first_cells(section("Metrics")) - {"vscaf_daemon_process_..."} == there


def test_endpoints_and_their_access() -> None:
    rows = re.findall(r"^\| (GET|POST) `([^`?]+)[^`]*` \| (read|write) \|", section("Control API"), re.MULTILINE)
    assert set(rows) == {(one.method, one.path, one.access.name.lower()) for one in ENDPOINTS}


def test_states() -> None:
    assert first_cells(section("States")) == set(State)


def test_commands() -> None:
    listed = section("Commands")
    for name, command in main.commands.items():
        assert f"`vscaf {name}" in listed, name
        for below in command.commands if isinstance(command, Group) else ():
            assert f"{name} {below}" in listed or f"`{below}`" in listed, f"{name} {below}"
