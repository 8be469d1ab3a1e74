"""`vscaf bench accept`: from its arguments to the file to send back."""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from vscaf.bench.accept import counters, siblings, splits, unplug
from vscaf.bench.accept.archive import host_names, scrubbed_values, write_archive
from vscaf.bench.accept.context import Context, Part
from vscaf.bench.accept.host import Host, read_host
from vscaf.bench.accept.part import Deadline, Outcome, Result, Verdict, end_of_first
from vscaf.bench.machine import machine, versions
from vscaf.errors import UsageError
from vscaf.lab import LabError, accelerator
from vscaf.terminal import one_line

PARTS = (unplug.PART, counters.PART, siblings.PART, splits.PART)
TOTAL_S = 870.0  # of all parts, so that start and end stay within 15 minutes
CACHE = Path("build/lab/cache")
LOGS = "vscaf-accept-logs"  # nobody else's directory has this name: it is removed, and sent away


@dataclass(frozen=True, slots=True)
class Arguments:
    """The command's arguments, as `command.accept` describes them. line: as it was typed."""

    parts: tuple[str, ...]
    image: Path
    output: Path
    line: str


def run(arguments: Arguments) -> int:
    """Runs the parts; returns the exit status. Raises UsageError, or LabError if no guest can run here."""
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    parts = chosen(arguments.parts)
    if os.geteuid() != 0:
        raise LabError("guests of a private libvirtd need root: run this as root, or with sudo")
    if not (arguments.image / "image.json").exists():
        raise LabError(f"there is no guest image in {arguments.image}: build it with `make image`, or give --image")

    def print_line(text: str) -> None:
        console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    end_s = time.monotonic() + TOTAL_S
    logs = empty_logs(arguments.output)
    described = machine()  # first, because it has the load at the start
    print_line("looking whether guests run under KVM")
    host = read_host(accelerator.domain_type(arguments.image, CACHE) == "kvm")

    def once(part: Part, deadline: Deadline) -> Result:
        return run_part(part, Context(host, arguments.image, logs / part.name, CACHE, deadline, print_line))

    results = run_parts(parts, host, end_s, once)
    names = host_names()
    report = {
        "vscaf_accept": 1,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": arguments.line,
        "machine": described | {"guests": "KVM" if host.accelerated else "TCG", "cores": host.cores},
        "versions": versions() | {"guest kernel": json.loads((arguments.image / "image.json").read_text())["kernel"]},
        "results": results,
    }
    path = arguments.output / "accept.json"
    path.write_bytes(
        msgspec.json.format(msgspec.json.encode(scrubbed_values(msgspec.to_builtins(report), names))) + b"\n"
    )
    archive = arguments.output / "vscaf-accept.tar.gz"
    files = write_archive(archive, path, logs, names)
    console.print(table(parts, results))
    console.print(
        f"Send back {archive}. It holds accept.json and {len(files) - 1} logs and samples: the kind of machine, "
        "versions, figures, commands, paths of files, and what libvirt, QEMU, guests and daemons logged. It holds no "
        "host name.",
        soft_wrap=True,
        highlight=False,
    )
    return 1 if any(result.outcome is Outcome.FAILED for result in results) else 0


def empty_logs(output: Path) -> Path:
    """The directory for logs, without those of an earlier acceptance."""
    logs = output / LOGS
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    return logs


def chosen(names: Sequence[str]) -> list[Part]:
    """The parts of these names, in their usual order; all if there are none. Raises UsageError."""
    known = [part.name for part in PARTS]
    for name in names:
        if name not in known:
            raise UsageError(f"--parts: there is no part {name}: the parts are {', '.join(known)}")
    return [part for part in PARTS if not names or part.name in names]


def run_parts(
    parts: Sequence[Part], host: Host, end_s: float, once: Callable[[Part, Deadline], Result]
) -> list[Result]:
    """Runs the parts that are possible on the host, one after the other. What one does not need, later ones may use."""
    obstacles = {part.name: part.obstacle(host) for part in parts}
    results = []
    for number, part in enumerate(parts):
        obstacle = obstacles[part.name]
        if obstacle is not None:
            results.append(Result(part.name, Outcome.NOT_POSSIBLE, obstacle, 0.0, {}, [], []))
            continue
        budgets_s = [one.budget_s for one in parts[number:] if obstacles[one.name] is None]
        results.append(once(part, Deadline(end_of_first(budgets_s, end_s))))
    return results


def run_part(part: Part, context: Context) -> Result:
    """Runs one part. An error is its result, and never ends the other parts."""
    context.print_line(f"{part.name}: {part.shows}")
    context.logs.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    try:
        verdict = part.run(context)
    except Exception as error:  # noqa: BLE001  whatever stops one part, the others are still run
        (context.logs / "error.txt").write_text(traceback.format_exc())
        late = "" if context.deadline.left_s() else "its time was over: "
        verdict = Verdict(Outcome.FAILED, f"{late}{type(error).__name__}: {one_line(error)}")
    took_s = round(time.monotonic() - begin_s, 1)
    context.print_line(f"{part.name}: {verdict.outcome}, after {took_s:.0f} s")
    return Result(part.name, verdict.outcome, verdict.reason, took_s, verdict.figures, context.commands, context.events)


def table(parts: Sequence[Part], results: Sequence[Result]) -> Table:
    """The results for people."""
    colours = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.NOT_POSSIBLE: "yellow"}
    shown = Table("part", "shows", "result", "seconds", "why", title="Acceptance on this host", show_lines=True)
    for part, result in zip(parts, results, strict=True):
        outcome = f"[{colours[result.outcome]}]{result.outcome}[/]"
        shown.add_row(part.name, part.shows, outcome, f"{result.took_s:.0f}", escape(result.reason))
    return shown
