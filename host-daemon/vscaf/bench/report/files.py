"""Writes the report of a bench: pages, pictures, tables and numbers."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from vscaf.bench.figures import Figures, figures
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.context import ReportContext, load_context
from vscaf.bench.report.page import Drawn, page
from vscaf.bench.report.recommendation import Recommendation, recommend
from vscaf.bench.report.table import numbers, terminal_report
from vscaf.bench.report.timelines import TIMELINES, Timeline, Timelines
from vscaf.bench.samples import Sample, counted, read_samples
from vscaf.bench.speed import work_between
from vscaf.drawing import why_no_pictures


class Results(msgspec.Struct, frozen=True):
    """The content of results.json."""

    context: ReportContext
    recommendation: Recommendation
    figures: Figures


def write_report(output: Path, samples: Sequence[Sample], figures: Figures, context: ReportContext) -> None:
    """Writes report.html, pictures/, results.json, samples.csv and table.csv into *output*.

    The samples may be of an unfinished bench. Without matplotlib there are no pictures, and the page says so.
    """
    output.mkdir(parents=True, exist_ok=True)
    recommendation = recommend(figures)
    results = Results(context, recommendation, figures)
    (output / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    _write_csv(output / "samples.csv", sample_rows(samples))
    _write_csv(output / "table.csv", numbers(figures))
    drawn = _draw(output / "pictures", figures, context.cpus, Timelines(output / TIMELINES).read())
    html = page(figures, recommendation, context, samples, drawn)
    (output / "report.html").write_text(html, encoding="utf-8")


def write_again(output: Path) -> int:
    """Writes the report of a bench again, from its samples, and prints it. Returns the exit status of the command.

    UsageError if there are no samples.
    """
    context = load_context(output)
    samples = read_samples(output / "samples.jsonl")
    found = figures(samples, BASELINES)
    write_report(output, samples, found, context)
    print_report(found, output, Console(width=shutil.get_terminal_size((120, 40)).columns))
    return 0 if found.verified else 1


def print_report(figures: Figures, output: Path, console: Console) -> None:
    """Prints the tables, the recommendation, and where the page is."""
    console.print(terminal_report(figures, recommend(figures), console.width))
    console.print(f"The report is {output / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


def sample_rows(samples: Sequence[Sample]) -> list[dict[str, object]]:
    """A row for each program and run. counts: whether the run is the one of its attempts that counts, and undisturbed.
    executions: how often the program did its work in the window; the first and the last count in part."""
    chosen = set(map(id, counted(samples)))
    return [
        {
            "round": sample.key.round,
            "programs": "+".join(sample.key.workloads),
            "arrangement": sample.key.arrangement,
            "allocations": "+".join(map(str, sample.key.allocations)),
            "threads": sample.key.threads,
            "attempt": sample.attempt,
            "at": sample.at,
            "member": program.member,
            "program": program.workload,
            "executions": work_between(program.executions, *sample.window),
            "seconds": sample.window[1] - sample.window[0],
            "steady_seconds": "" if program.steady_s is None else program.steady_s,
            "verified": all(one.verified for one in program.executions),
            "transitions": sample.transitions,
            "lost": sample.lost,
            "disturbed": sample.disturbed,
            "counts": id(sample) in chosen and not sample.disturbed,
        }
        for sample in samples
        for program in sample.programs
    ]


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _draw(directory: Path, figures: Figures, cpus: int, timelines: Sequence[Timeline]) -> list[Drawn] | None:
    """Draws all pictures into *directory*; None if matplotlib is missing or too old."""
    if why_no_pictures():
        return None
    import matplotlib  # noqa: PLC0415  (optional, and slow to import)

    from vscaf.bench.report.pictures import pictures  # noqa: PLC0415
    from vscaf.bench.report.split_pictures import split_pictures  # noqa: PLC0415
    from vscaf.bench.report.timeline_pictures import timeline_pictures  # noqa: PLC0415

    directory.mkdir(exist_ok=True)
    out = []
    for one in [*pictures(figures, cpus), *split_pictures(figures), *timeline_pictures(timelines)]:
        # Text stays text, so that a reader can search it. The same figures give the same file.
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": one.name}):
            svg = io.StringIO()
            one.canvas.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        one.canvas.savefig(directory / f"{one.name}.png", dpi=150)
        (directory / f"{one.name}.svg").write_text(svg.getvalue(), encoding="utf-8")
        out.append(Drawn(one.name, one.title, one.caption, inline_svg(svg.getvalue(), one.name)))
    return out


def inline_svg(svg: str, name: str) -> str:
    """An SVG file as an element of a page: without its head, with ids that no other picture of the page has."""
    element = svg[svg.index("<svg") :]
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", element)
