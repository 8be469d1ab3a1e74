"""`make bench-pairs`: pairs of NPB programs in two guests, and without guests, under vscaf against four baselines.

The runs are those of `vscaf bench pairs`: OUTPUT/pairs and OUTPUT/pairs-native have their samples and reports. An
interrupted run goes on from there. `pairs.*` are ratios of sums of speedups in guests, `native.*` those of plain
processes. `geomean` is over all pairs, `min` is the pair whose interval ends lowest. The exit status is 1 if a
verification failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from vscaf.bench.designs import POLICY, POLICY_WITHOUT_GUESTS, together
from vscaf.bench.figures import Figures
from vscaf.bench.intervals import Figure
from vscaf.bench.measure import measure
from vscaf.bench.options import RunOptions
from vscaf.bench.places.options import PlaceOptions
from vscaf.bench.workloads.options import Sources

from .report import Report, Result

TARGETS = {"passive": None, "static": (0.98, 0.93), "unmanaged": (1.9, 0.95), "pinned": None}
"""By baseline: what the geometric mean must reach, and the upper end of each pair's interval; None: it is reported."""
FULL = RunOptions(
    arrangements=(),
    rounds=5,
    seconds=6.0,
    delay_s=0.0,
    quick=False,
    place=PlaceOptions(cpus=2),
    image=Path(os.environ.get("VSCAF_IMAGE", "build/image/current")),
    output=Path(),
    restart=False,
)
NATIVE_SECONDS = 1.5  # a program takes a tenth of its time in a guest without KVM


def results(prefix: str, found: Figures, policy: str, *, judged: bool) -> list[Result]:
    """The results of all pairs: geometric mean and lowest pair to each baseline, and each pair's ratio."""
    out = []
    for baseline, targets in TARGETS.items():
        ratios = pair_ratios(found, policy, baseline)
        mean = next(
            (one.mean for one in found.comparisons if (one.arrangement, one.baseline) == (policy, baseline)), None
        )
        if not ratios or mean is None:
            continue
        name = f"{prefix}.vs_{baseline}"
        lowest = min(ratios.values(), key=lambda ratio: ratio.high)
        bars = ("", "")
        if judged and targets is not None:
            mean_target, high_target = targets
            bars = (
                f"at least {mean_target}: {met(mean.value >= mean_target)}",
                f"high at least {high_target}: {met(lowest.high >= high_target)}",
            )
        out.append(result(f"{name}.geomean", mean, baseline, bars[0]))
        out.append(result(f"{name}.min", lowest, baseline, bars[1]))
        by_value = sorted(ratios.items(), key=lambda item: item[1].value)
        out += [result(f"{name}.{pair}", ratio, baseline) for pair, ratio in by_value]
    return out


def met(target: bool) -> str:
    """Whether a target was reached."""
    return "met" if target else "MISSED"


def pair_ratios(found: Figures, policy: str, baseline: str) -> Mapping[str, Figure]:
    """The ratio of each pair's sums of speedups, by the pair's name."""
    return {
        "+".join(group.workloads): one.ratios[baseline]
        for group in found.groups
        for one in group.arrangements
        if one.arrangement == policy and baseline in one.ratios
    }


def result(name: str, figure: Figure, baseline: str, bar: str = "") -> Result:
    return Result(
        name, "x", figure.value, figure.low, figure.high, figure.n, baseline, 1.0, ratio=figure.value, bar=bar
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-pairs", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="directory for pairs.json")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1", help="fewer runs")
    parser.add_argument("--restart", action="store_true", help="remove the samples of an interrupted run")
    given = parser.parse_args()
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    options = replace(FULL, quick=given.quick, restart=given.restart)
    if given.quick:
        options = replace(options, rounds=1, seconds=3.0)
    report, verified = Report("pairs"), True
    for prefix, directory, policy in (("pairs", "pairs", POLICY), ("native", "pairs-native", POLICY_WITHOUT_GUESTS)):
        no_vm = prefix == "native"
        found = measure(
            together((), 2, no_vm=no_vm),
            Sources(),
            replace(
                options,
                place=PlaceOptions(no_vm=no_vm, cpus=2),
                arrangements=(*TARGETS, policy),
                output=given.output / (f"{directory}-quick" if given.quick else directory),
                seconds=NATIVE_SECONDS if no_vm else options.seconds,
            ),
            console,
            "make bench-pairs",
        )
        for one in results(prefix, found, policy, judged=not no_vm):
            report.add(one)
        verified = verified and found.verified
    print(report.table())
    print(f"written to {report.write(given.output)}")
    if not verified:
        raise SystemExit("bench-pairs: a program's verification failed: see the tables above")


if __name__ == "__main__":
    main()
