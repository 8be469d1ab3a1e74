"""What bench-scaled reports: the results for scaled.json, and a table of all arrangements for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from vscaf.bench.figures import Figures
from vscaf.bench.intervals import median_interval
from vscaf.bench.samples import Sample

from .pairs import met, pair_ratios, result
from .report import Report, Result
from .scaled_figures import BASELINES, EQUAL, Cells, scaled_figures, settled_times

POLICY = "max-speedup"
BESIDE = "equipartition"
CANNOT_SHOW = (
    "A scaled machine cannot show: caches and memory bandwidth (its CPUs share those of two), spinning, SMT and NUMA."
)
# What the geometric mean must reach, and the end of each pair's interval that is compared: (least, its upper end).
TARGETS = {"oracle": (0.95, 0.90), "equal": (1.10, 0.97), "passive": (1.15, None)}
MOST_SETTLED_S = 40.0


def fill(report: Report, samples: Sequence[Sample], cells: Cells) -> None:
    """Adds all results."""
    found = scaled_figures(samples, cells)
    for ratio in (*ratio_results(found, POLICY, "scaled"), *ratio_results(found, BESIDE, f"scaled.{BESIDE}")):
        report.add(ratio)
    for group in found.groups:
        name = "+".join(group.workloads)
        for one in group.arrangements:
            split = ".".join(["", *map(str, one.allocations)])
            kind = f"scaled.sum.{name}.{one.arrangement}{split}"
            report.add(Result(kind, "x", one.total.value, one.total.low, one.total.high, one.total.n))
    settled = settled_times(samples, cells, POLICY)
    if settled:
        value, low, high = median_interval([one.value for one in settled.values()])
        bar = f"at most {MOST_SETTLED_S:g} s: {met(value <= MOST_SETTLED_S)}"
        report.add(Result("scaled.settled_s", "s", value, low, high, len(settled), bar=bar))
        for pair, time in settled.items():
            report.add(Result(f"scaled.settled_s.{'+'.join(pair)}", "s", time.value, time.low, time.high, time.n))
    report.details["cannot_show"] = CANNOT_SHOW
    report.details["left_out"] = ["+".join(group) for group in found.left_out]
    report.details["verified"] = found.verified


def ratio_results(found: Figures, policy: str, prefix: str) -> list[Result]:
    """The ratios of a policy to each baseline: the geometric mean, and each pair. POLICY alone is judged."""
    out = []
    for baseline in BASELINES:
        means = [one.mean for one in found.comparisons if (one.arrangement, one.baseline) == (policy, baseline)]
        if not means:
            continue
        least, least_high = TARGETS[baseline] if policy == POLICY else (None, None)
        bar = f"at least {least}: {met(means[0].value >= least)}" if least is not None else ""
        out.append(result(f"{prefix}.vs_{baseline}.geomean", means[0], baseline, bar))
        for pair, ratio in sorted(pair_ratios(found, policy, baseline).items(), key=lambda item: item[1].value):
            bar = f"high at least {least_high}: {met(ratio.high >= least_high)}" if least_high is not None else ""
            out.append(result(f"{prefix}.vs_{baseline}.{pair}", ratio, baseline, bar))
    return out


def pair_table(samples: Sequence[Sample], cells: Cells) -> Table:
    """The speedups of each program and their sum, by pair and arrangement, the largest sum first.

    settled: the median seconds to 90% of the final sum, under policies. A row of disturbed runs alone is marked.
    """
    found = scaled_figures(samples, cells)
    table = Table(title="sums of speedups on six slow CPUs", caption=CANNOT_SHOW)
    for column in ("pair", "arrangement", "first", "second", "sum", "interval", "n", "settled s", ""):
        table.add_column(column)
    for group in found.groups:
        rows = sorted((one for one in group.arrangements if one.arrangement != EQUAL), key=lambda one: -one.total.value)
        for number, one in enumerate(rows):
            settled = settled_times(samples, cells, one.arrangement).get(group.workloads)
            split = f" {'+'.join(map(str, one.allocations))}" if one.allocations else ""
            table.add_row(
                "+".join(group.workloads) if number == 0 else "",
                f"{'by hand' if one.arrangement == 'oracle' else one.arrangement}{split}",
                *(f"{speedup.value:.2f}" for speedup in one.speedups),
                f"{one.total.value:.2f}",
                one.total.interval(2),
                str(one.total.n),
                f"{settled.value:.0f}" if settled and one.arrangement in (POLICY, BESIDE) else "",
                "disturbed" if one.only_disturbed else "",
                end_section=number == len(rows) - 1,
            )
    return table
