"""The report as one HTML page. It needs no network and no scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from vscaf.bench.figures import EVEN, Figures
from vscaf.bench.observe.host_load import ATTEMPTS, MOST_LOST
from vscaf.bench.report.context import ReportContext
from vscaf.bench.report.recommendation import Recommendation, word_for
from vscaf.bench.report.table import (
    ALONE_COLUMNS,
    BARRIER_COLUMNS,
    BARRIERS,
    LEFT,
    Cell,
    alone_rows,
    barrier_rows,
    baselines_of,
    columns,
    rows,
    summary_columns,
    summary_rows,
)
from vscaf.bench.samples import Sample
from vscaf.drawing import INSTALL, NEEDED

STYLE = """
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: white; max-width: 74rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } h3 { font-size: 1.05rem; }
p, dd, figcaption { max-width: 48rem; }
.answer { border-left: 5px solid #0072b2; padding: 0.2rem 1rem; background: #f2f7fb; }
.answer p:first-child { font-weight: 600; font-size: 1.15rem; }
.warning { border-left: 5px solid #d55e00; padding: 0.2rem 1rem; background: #fdf4ee; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.4rem 0; color: #444; }
th, td { padding: 0.2rem 0.4rem; text-align: right; vertical-align: top; white-space: nowrap; }
th { border-bottom: 2px solid #444; } .text { text-align: left; }
tr.first td { border-top: 1px solid #bbb; }
small { display: block; color: #555; font-size: 0.75rem; }
.win { color: #00664a; font-weight: 600; } .loss, .FAILED { color: #a83c00; font-weight: 600; } .even { color: #555; }
.disturbed { color: #8a5a00; font-weight: 600; }
figure { margin: 1.5rem 0; } figure svg { width: 100%; height: auto; }
figcaption { font-size: 0.9rem; color: #333; }
pre { background: #f5f5f5; padding: 0.6rem; overflow-x: auto; font-size: 0.8rem; }
dt { font-weight: 600; } dd { margin: 0 0 0.4rem 0; }
"""


@dataclass(frozen=True)
class Drawn:
    """A picture for the page. svg: its SVG element."""

    name: str
    title: str
    caption: str
    svg: str


def page(
    figures: Figures,
    recommendation: Recommendation,
    context: ReportContext,
    samples: Sequence[Sample],
    pictures: Sequence[Drawn] | None,
) -> str:
    """The page. pictures: None if matplotlib is missing or too old."""
    parts = [
        _answer(recommendation, context),
        _tables(figures),
        _pictures(pictures),
        _machine(context, samples),
        _method(context, samples),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>What vscaf is worth on this machine</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>What vscaf is worth on this machine</h1>\n{''.join(parts)}</body>\n</html>\n"
    )


def _answer(recommendation: Recommendation, context: ReportContext) -> str:
    preview = (
        '<div class="warning"><p>This is a preview with little work (--quick). It is not a measurement.</p></div>\n'
        if context.quick
        else ""
    )
    return (
        f'<h2 id="answer">Is it worth it?</h2>\n{preview}<div class="answer">\n'
        f"{_paragraphs(recommendation.sentences)}</div>\n"
    )


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>\n" for sentence in sentences)


def _tables(figures: Figures) -> str:
    baselines, word = baselines_of(figures), word_for(figures)
    about = (
        f"A speedup is relative to the program alone on one thread. A ratio is of sums of speedups of the same round. "
        f"Below each figure is its 95% interval. A ratio is a win if its whole interval is above {1 + EVEN:.2f}, a "
        f"loss if it is below {1 - EVEN:.2f}, and even otherwise. A single round has no interval: then the ratio "
        "itself decides, and may do so by chance."
    )
    counts = (
        "Runs: how many runs the figures are from. Disturbed: how many more runs do not count, because the host was "
        "busy with something else. If there are no other runs, the speedups are those of the disturbed ones, are "
        "marked, and are not compared."
    )
    return (
        f'<h2 id="table">The figures</h2>\n<p>{about}</p>\n<p>{counts}</p>\n'
        + _table(
            "summary",
            f"All {word}s together, as in Table 7.1 of Creech 2015. A mean ratio is a geometric mean.",
            summary_columns(figures),
            summary_rows(figures.comparisons),
        )
        + _table("together", f"Each {word} in each arrangement.", columns(figures, baselines), rows(figures, baselines))
        + _table("alone", "Each program alone.", ALONE_COLUMNS, alone_rows(figures))
        + (
            _table("barriers", f"{BARRIERS}.", BARRIER_COLUMNS, barrier_rows(figures.barriers))
            if figures.barriers
            else ""
        )
    )


def _table(name: str, caption: str, names: Sequence[str], cells: Sequence[Sequence[Cell]]) -> str:
    if not cells:
        return f"<p>{escape(caption)} Nothing has been measured for this yet.</p>\n"
    head = "".join(f'<th scope="col"{_class(name)}>{escape(name)}</th>' for name in names)
    body = []
    for number, row in enumerate(cells):
        first = number == 0 or cells[number - 1][0].text != row[0].text
        opening = '<tr class="first">' if first else "<tr>"
        body.append(f"{opening}{_row(names, row)}</tr>\n")
    return (
        f'<div class="scroll"><table id="{name}">\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(body)}</tbody>\n</table></div>\n"
    )


def _row(names: Sequence[str], cells: Sequence[Cell]) -> str:
    out = []
    for name, cell in zip(names, cells, strict=True):
        mark = f' <span class="{cell.mark}">{cell.mark}</span>' if cell.mark else ""
        interval = f"<small>{escape(cell.interval)}</small>" if cell.interval else ""
        out.append(f"<td{_class(name)}>{escape(cell.text)}{mark}{interval}</td>")
    return "".join(out)


def _class(column: str) -> str:
    return ' class="text"' if column in LEFT else ""


def _pictures(pictures: Sequence[Drawn] | None) -> str:
    out = ['<h2 id="pictures">Pictures</h2>\n']
    if pictures is None:
        out.append(
            f"<p>There are no pictures, because they need {NEEDED}: {escape(INSTALL)}. Then <code>vscaf bench report"
            " DIRECTORY</code>.</p>\n"
        )
    else:
        out.append(
            "<p>After Figures 7.1 to 7.7 and 7.9 to 7.12 of the thesis: T. Creech, <cite>Efficient Multiprogramming "
            "for Multicores with SCAF</cite>, University of Maryland, 2015. The last pictures show where the programs "
            "computed.</p>\n"
        )
        for one in pictures:
            svg = one.svg.replace("<svg", f'<svg role="img" aria-label="{escape(one.title)}"', 1)
            caption = f"{escape(one.caption)} (pictures/{one.name}.svg)"
            out.append(
                f'<figure id="picture-{one.name}">\n<h3>{escape(one.title)}</h3>\n{svg}'
                f"<figcaption>{caption}</figcaption>\n</figure>\n"
            )
    return "".join(out)


def _machine(context: ReportContext, samples: Sequence[Sample]) -> str:
    times = sorted(sample.at for sample in samples)
    entries: dict[str, object] = {
        "CPU": f"{context.machine.get('cpu')}, {context.machine.get('cpus')} CPUs",
        "Cores": context.machine.get("cores", "unknown"),
        "NUMA nodes": context.machine.get("numa_nodes", "unknown"),
        "Memory in GiB": context.machine.get("memory_gib", "unknown"),
        "Is itself a guest": "yes" if context.machine.get("is_a_guest") else "no, or unknown",
        "Programs ran in": context.place,
        "System": f"{context.machine.get('system')}, Linux {context.machine.get('kernel')}, "
        f"clock source {context.machine.get('clocksource')}",
        "Load at the start": f"{context.machine.get('load_at_start')} threads ran or waited, on average of a minute",
        "Versions": "; ".join(f"{name}: {text}" for name, text in context.versions.items()),
        "Command": context.command,
        "Settings": "; ".join(f"{name}: {value}" for name, value in context.settings.items()),
        "Measured": f"{len(samples)} runs from {times[0]} to {times[-1]}" if times else "nothing yet",
    }
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>\n" for name, text in entries.items())
    return f'<h2 id="machine">The machine</h2>\n<dl>\n{items}</dl>\n'


REPEATED = (
    "the programs of a group run at the same time, each again and again. Only the time in which all compute counts. An "
    "execution that lies partly in that time counts in part."
)
ONCE = (
    "the programs of a group start one after the other, and each program is executed once. All time counts, from the "
    "first start to the last end."
)


def _method(context: ReportContext, samples: Sequence[Sample]) -> str:
    disturbed = sum(sample.disturbed for sample in samples)
    once = any(sample.once for sample in samples)
    paragraphs = (
        "Alone: in each round each program runs alone, on one thread and on all CPUs, "
        f"{'once' if once else 'again and again'}. Its speed on one "
        "thread is what speedups are relative to.",
        f"Together: {ONCE if once else REPEATED} In each round every run is made once, in another order.",
        "Steady seconds: the CPUs of a machine change their pace, by frequency or because a hypervisor takes time "
        "away. A small program measures the pace of each CPU all the time, and each second counts by the pace of the "
        "CPUs that the program used.",
        f"Disturbed runs: a run is disturbed if processes outside the bench had more than {MOST_LOST:.0%} of the CPU "
        f"time that the programs wanted. It is repeated, at most {ATTEMPTS} times in total. {disturbed} of "
        f"{len(samples)} runs were disturbed. A figure is from disturbed runs only if there are no others. Then it is "
        "marked, and not compared. samples.csv has all runs.",
        "Intervals: each figure is a median over rounds, with its 95% interval by order statistics. With fewer than "
        "six rounds, the interval is from the least to the largest value, which is less: 94% with five rounds, 75% "
        "with three. A single round has no interval, and neither has a mean over groups if one of them has a single "
        "round.",
    )
    baselines = "".join(
        f"<h3>{escape(name)}</h3>\n"
        + (f"<pre>{escape(chr(10).join(lines))}</pre>\n" if lines else "<p>Nothing is set.</p>\n")
        for name, lines in context.baselines.items()
    )
    commands = (
        f"<p>An operator can make the baselines with these commands:</p>\n{baselines}" if context.baselines else ""
    )
    return f'<h2 id="method">How it was measured</h2>\n{_paragraphs(paragraphs)}{commands}'
