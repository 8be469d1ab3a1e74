"""top, explain, plot, record and replay beside two guests that compute in turns: they agree with what the daemon did.

Only in `make soak`, where the guests take turns for an hour (VSCAF_EXPLORE=3600, seconds): on a busy machine a guest's
demand changes by itself, and the sentences of `explain` with it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from vscaf.cpulist import parse_cpu_list
from vscaf.lab import PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import HANG_S, until
from vscaf.plot.figure import BAND, colours
from vscaf.record.files import read_lines, recorded_files
from vscaf.record.lines import Decided, Line

from .conftest import HANGS_S, POOL, POOL_LIST, Pair
from .test_crashes import agents_connected

SOAK_S = float(os.environ.get("VSCAF_EXPLORE", "0"))
pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(HANGS_S + 4 * SOAK_S),
    pytest.mark.skipif("VSCAF_EXPLORE" not in os.environ, reason="in make soak: set VSCAF_EXPLORE=3600"),
]
PROGRAM = "NPB_REPEAT=10000 vscaf-run cg.S"  # one process, so that a guest computes without a pause
TERMINATED = 128 + signal.SIGTERM
CONNECTED = "03"  # in /proc/net/unix
SVG = "{http://www.w3.org/2000/svg}"

Bars = dict[tuple[int, str], list[tuple[float, float]]]
"""When a pCPU belonged to a domain, in seconds since the picture begins."""


def said(daemon: DaemonProcess, *arguments: str, seed: int = 0) -> str:
    """What a command of vscaf prints, with Python's hashes seeded by *seed*."""
    environment = {"VSCAF_CONFIG": str(daemon.directory / "vscaf.toml"), "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-m", "vscaf", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANG_S + SOAK_S,  # a replay makes all decisions of the hour again
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


@contextmanager
def running(daemon: DaemonProcess, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of vscaf that runs until it is interrupted."""
    command = [sys.executable, "-m", "vscaf", *arguments, "--socket", str(daemon.control_socket)]
    # If the tests run in the background, SIGINT may be ignored, and child processes inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGINT, before)
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: subprocess.Popen[str]) -> str:
    """What it has printed until it ended after a Ctrl-C."""
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=HANG_S)
    return output


def listens(daemon: DaemonProcess) -> bool:
    """Whether somebody is connected to the control socket. The kernel knows it by the name that it had at first."""
    name = str(daemon.control_socket)[:-1]
    lines = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
    return any(line.split()[5] == CONNECTED and line.split()[-1].startswith(name) for line in lines)


def take_turns(daemon: DaemonProcess, pair: Pair, look: Callable[[], None]) -> None:
    """left computes alone, then both, then left again, then none. look: called while both compute."""
    a, b = pair
    sizes = {"alone": {a.name: 2, b.name: 0}, "both": {a.name: 1, b.name: 1}, "none": {a.name: 0, b.name: 0}}

    def wait(phase: str) -> None:
        daemon.wait(lambda domains: {name: one["allocation"] for name, one in domains.items()} == sizes[phase])

    first = a.start(PROGRAM)
    wait("alone")
    second = b.start(PROGRAM)
    wait("both")
    look()
    second.kill(signal.SIGTERM)
    wait("alone")
    first.kill(signal.SIGTERM)
    wait("none")
    for command in (first, second):
        assert command.wait(HANG_S).status == TERMINATED


def test_the_time_out_lets_the_tools_agree_for_an_hour(request: pytest.FixtureRequest) -> None:
    """It is named so that `-k tools_agree` takes it, too. It needs no guest."""
    marker = request.node.get_closest_marker("timeout")
    assert marker is not None and marker.args == (HANGS_S + 4 * SOAK_S,)


def test_the_tools_agree_with_what_the_daemon_did(shared_lab: PrivateLibvirt, pair: Pair, tmp_path: Path) -> None:
    names = sorted(guest.name for guest in pair)
    picture, events = tmp_path / "timeline.svg", dict[int, dict[str, Any]]()
    tables: dict[str, dict[str, Any]] = {name: {} for name in names}
    with DaemonProcess(shared_lab, POOL_LIST, tables, name="tools", policy="max-speedup-fitted") as daemon:
        daemon.wait(agents_connected)
        daemon.wait(lambda domains: all(one["state"] == "resting" for one in domains.values()))
        since = json.loads(said(daemon, "record", "start", "--json"))["since"]

        def changes() -> list[dict[str, Any]]:
            """All allocations so far, also those that the daemon has forgotten since the last call."""
            for one in daemon.events():  # the first may say that others are lost, with the number of the last of them
                events.setdefault(one["number"], one)
            return [one for one in events.values() if one["kind"] == "allocation"]

        with running(daemon, "plot", *names, "--seconds", "86400", "--json", "--output", str(picture)) as plot:
            until(lambda: listens(daemon))
            take_turns(daemon, pair, lambda: check_views(daemon, names))
            plotted = json.loads(interrupted(plot))
            assert plot.returncode == 0
        check_plotted(plotted, changes())
        assert bars(picture, names, plotted) == close_to(allotted(plotted))
        end_s = time.monotonic() + SOAK_S
        while time.monotonic() < end_s:
            take_turns(daemon, pair, lambda: None)
            changes()
        assert json.loads(said(daemon, "record", "stop", "--json"))["failed"] in (None, "")
        check_replay(daemon, names, recorded_files(daemon.directory / "state" / "record"), changes(), since)


def check_views(daemon: DaemonProcess, names: list[str]) -> None:
    """top and explain, while each domain has one pCPU and wants two."""
    daemon.wait(lambda domains: all((one["allocation"], one["demand"]) == (1, 2) for one in domains.values()))
    shown = {one["name"]: one for one in daemon.status()["domains"]}
    rows = said(daemon, "top", "--once").splitlines()
    with running(daemon, "top", "--interval", "0.25") as piped, running(daemon, "top", "--json") as as_json:
        assert piped.stdout is not None and as_json.stdout is not None
        tables = "".join(itertools.islice(iter(piped.stdout.readline, ""), 2 * len(rows))).splitlines()
        told = {one["name"]: one for one in json.loads(as_json.stdout.readline())["domains"]}
        for process in (piped, as_json):
            interrupted(process)
            assert process.returncode in (0, 130), process.returncode
    for name in names:
        allocation, partition = shown[name]["allocation"], shown[name]["partition"]
        assert (allocation, partition) in ((1, str(cpu)) for cpu in POOL)
        assert (told[name]["allocation"], told[name]["partition"]) == (allocation, partition)
        for lines in (rows, tables):
            (row,) = [line.split() for line in lines if line.split()[:1] == [name]][:1]
            number = row.index("1", 1)  # after the state, which may have several words
            assert row[number + 1].rpartition(":")[2] == partition, row
        check_explained(daemon, name, partition, *(one for one in names if one != name))


def check_explained(daemon: DaemonProcess, name: str, partition: str, other: str) -> None:
    """The sentences have the numbers of the status, and the answers those of the pool. It is asked again until the
    daemon knows the speedup curves that the answers need."""
    sentences = (
        f"{name}: what it has It has 1 of the 2 pCPUs of the pool: {partition}.",
        "It could use 2 pCPUs now: its agent reports so.",
        "Policy max-speedup-fitted: ",
        f"It competes with {other} (1).",
        "All 2 pCPUs of the pool are given.",
        f"Without demand of {other} it would have 2, not 1, and {other} 0 (now 1).",
    )
    text = ""

    def told() -> bool:
        nonlocal text
        text = " ".join(said(daemon, "explain", name).split())
        return all(sentence in text for sentence in sentences)

    until(told, lambda: text, HANGS_S / 2)
    (used,) = re.findall(r"Its vCPUs used (\d\.\d\d) in the last window", text)
    assert 0.0 < float(used) <= 2.0
    answer: dict[str, Any] = {}

    def answered() -> bool:
        nonlocal answer
        found = json.loads(said(daemon, "explain", name, "--json"))["what_if"]
        answer = next((one for one in found if one["question"] == f"without demand of {other}"), {})
        return bool(answer) and (answer["cpus"], answer["others"]) == (2, {other: [1, 0]})

    until(answered, lambda: answer, HANGS_S / 2)


def check_replay(
    daemon: DaemonProcess, names: list[str], files: list[Path], events: list[dict[str, Any]], since: str
) -> None:
    """The recording has the allocations of the events since it began, and what each domain had then: a guest that has
    just booted may have a pCPU. Made again, all decisions are the same, each time."""
    lines = [line for path in files for line in read_lines(path)]
    number = sum(isinstance(line, Decided) for line in lines)
    for name in names:
        changes = [(one["time"], sizes_after(one["to"])) for one in events if one["domain"] == name]
        first = [size for time_text, size in changes if time_text < since][-1:] or [0]
        later = [size for time_text, size in changes if time_text >= since]
        assert recorded_sizes(lines, name) == without_repeats(first + later)
    paths = list(map(str, files))
    assert said(daemon, "replay", *paths) == f"{number} decisions: all as recorded\n"
    compare = ("--policy", "equipartition", "--policy", "fair", "--option", "fair.alpha=2", "--json")
    figures = [said(daemon, "replay", *paths, *compare, seed=seed) for seed in (1, 2)]
    assert figures[0] == figures[1], "it is not deterministic"
    was, equal, _fair = json.loads(figures[0])
    assert was["decisions"] == equal["decisions"] == number
    assert set(was["pcpus"]) == set(names) and equal["failed"] == 0


def sizes_after(to: str) -> int:
    """How many pCPUs a domain has after an event."""
    return 0 if to == "rest" else len(parse_cpu_list(to))


def without_repeats(values: list[int]) -> list[int]:
    return [value for value, _ in itertools.groupby(values)]


def recorded_sizes(lines: list[Line], name: str) -> list[int]:
    """The sizes of a domain in the recorded decisions, one after the other."""
    return without_repeats([line.result.allocations.get(name, 0) for line in lines if isinstance(line, Decided)])


def check_plotted(plotted: Mapping[str, Any], events: list[dict[str, Any]]) -> None:
    """The plot has the events' allocations, at their times, and the use of the pCPUs that were allotted."""
    assert plotted["not_known"] == []
    changes = list(itertools.dropwhile(lambda one: one["pcpus"] == "", plotted["allotted"]))  # both rest at first
    known = run_of(events, [(one["domain"], one["pcpus"]) for one in changes])
    times = [datetime.fromisoformat(one["time"]).timestamp() for one in known]
    for change, time_s in zip(changes, times, strict=True):
        assert change["at_s"] - changes[0]["at_s"] == pytest.approx(time_s - times[0], abs=0.003)
    for name in {one["domain"] for one in known}:
        assert any(sum(by_domain.get(name, [])) > 0 for by_domain in plotted["used"].values())


def run_of(events: list[dict[str, Any]], changes: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The events that follow each other and say the same as *changes*. On a busy machine there may be some before, of a
    guest that has just booted."""
    told = [(one["domain"], "" if one["to"] == "rest" else one["to"]) for one in events]
    starts = [start for start in range(len(told)) if told[start : start + len(changes)] == changes]
    assert len(starts) == 1, (changes, told)
    return events[starts[0] :][: len(changes)]


def allotted(plotted: Mapping[str, Any]) -> Bars:
    """The bars that a picture of what was plotted must have."""
    bins = max(len(values) for by_domain in plotted["used"].values() for values in by_domain.values())
    end_s = (bins - 1) * plotted["bin_s"]
    made: Bars = {}
    for name in {one["domain"] for one in plotted["allotted"]}:
        changes = [(one["at_s"], one["pcpus"]) for one in plotted["allotted"] if one["domain"] == name]
        for (begin_s, pcpus), (until_s, _) in itertools.pairwise([*changes, (end_s, "")]):
            for pcpu in parse_cpu_list(pcpus):
                made.setdefault((pcpu, name), []).append((max(0.0, begin_s), min(end_s, until_s)))
    return {key: joined([one for one in spans if one[1] > one[0]]) for key, spans in made.items()}


def bars(picture: Path, names: list[str], plotted: Mapping[str, Any]) -> Bars:
    """The bars above the pCPUs in a picture."""
    bins = max(len(values) for by_domain in plotted["used"].values() for values in by_domain.values())
    end_s = (bins - 1) * plotted["bin_s"]
    axes = [one for one in ElementTree.parse(picture).iter(f"{SVG}g") if one.get("id", "").startswith("axes_")]
    name_of = {colour: name for name, colour in colours(names).items()}
    made: Bars = {}
    for pcpu, axis in zip(sorted(map(int, POOL)), axes[len(names) :], strict=True):
        ground, *paths = [one for one in axis.iter(f"{SVG}path") if "fill: #" in one.get("style", "")]
        left, top, right, bottom = box(ground)
        for path in paths:
            begin, high, end, low = box(path)
            if high == top and low - top == pytest.approx((bottom - top) * BAND / (1.05 + BAND), rel=0.01):
                colour = re.findall(r"fill: (#\w+)", path.get("style", ""))[0]
                span = [(one - left) / (right - left) * end_s for one in (begin, end)]
                made.setdefault((pcpu, name_of[colour]), []).append((span[0], span[1]))
    return {key: joined(spans) for key, spans in made.items()}


def box(path: ElementTree.Element) -> tuple[float, float, float, float]:
    """The left, upper, right and lower edge of a path."""
    points = [tuple(map(float, one)) for one in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", ""))]
    across, down = zip(*points, strict=True)
    return min(across), min(down), max(across), max(down)


def joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans that touch are one."""
    made: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if made and begin - made[-1][1] < 0.002:
            made[-1] = (made[-1][0], end)
        else:
            made.append((begin, end))
    return made


def close_to(expected: Bars) -> Any:
    """Equal to bars that differ by no more than what a picture rounds."""
    return {key: [pytest.approx(one, abs=0.005) for one in spans] for key, spans in expected.items()}
