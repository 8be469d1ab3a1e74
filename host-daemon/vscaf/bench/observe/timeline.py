"""The timeline picture: which domain ran on which pCPU over time, from the kernel's accounting of vCPU threads."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vscaf.bench.observe.sampler import Sample


@dataclass(frozen=True)
class Track:
    """Shares of pCPU time: `shares[pcpu][domain]` is a value in 0..1 for each bin of *bin_s* seconds from `start_s`."""

    start_s: float
    bin_s: float
    shares: Mapping[int, Mapping[str, list[float]]]


def track(samples: Sequence[Sample], bin_s: float) -> Track:
    """Bins the CPU time that each thread used between two samples, on the pCPU where it last ran.

    Programs may be too short to be sampled, so there may be no samples: then there are no shares.
    """
    if not samples:
        return Track(0.0, bin_s, {})
    start_s = min(sample.monotonic_s for sample in samples)
    bins = int((max(sample.monotonic_s for sample in samples) - start_s) / bin_s) + 1
    domains = sorted({sample.domain for sample in samples})
    used: dict[int, dict[str, list[float]]] = defaultdict(lambda: {name: [0.0] * bins for name in domains})
    by_thread: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_thread[sample.thread].append(sample)
    for rows in by_thread.values():
        for before, after in itertools.pairwise(rows):
            if after.domain != before.domain or after.run_ns < before.run_ns:
                continue  # another thread with the number of one that has ended
            middle_s = (before.monotonic_s + after.monotonic_s) / 2 - start_s
            used[after.last_cpu][after.domain][int(middle_s / bin_s)] += (after.run_ns - before.run_ns) / 1e9 / bin_s
    return Track(start_s, bin_s, {pcpu: used[pcpu] for pcpu in sorted(used)})


def draw(
    path: Path, title: str, tracks: Mapping[str, Track], marks: Mapping[str, Mapping[str, tuple[float, float]]]
) -> None:
    """Writes a picture with a row for each policy and pCPU. `marks`: policy -> domain -> when its program computed."""
    import matplotlib  # noqa: PLC0415  (slow to import, and only needed by the demo)

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    rows = [(policy, pcpu) for policy, one in tracks.items() for pcpu in one.shares]
    domains = sorted({name for one in tracks.values() for share in one.shares.values() for name in share})
    colours = dict(zip(domains, itertools.cycle(["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"]), strict=False))
    figure, axes = pyplot.subplots(
        len(rows), 1, sharex=True, sharey=True, figsize=(11, 1.0 + 0.85 * len(rows)), squeeze=False
    )
    for (policy, pcpu), axis in zip(rows, axes[:, 0], strict=True):
        one = tracks[policy]
        shares = one.shares[pcpu]
        times = [index * one.bin_s for index in range(len(next(iter(shares.values()))))]
        stacked = [[min(1.0, value) for value in shares[name]] for name in domains if name in shares]
        names = [name for name in domains if name in shares]
        axis.stackplot(times, stacked, colors=[colours[name] for name in names], step="post", linewidth=0)
        for name, (start_s, end_s) in marks.get(policy, {}).items():
            for at_s in (start_s, end_s):
                axis.axvline(at_s - one.start_s, color=colours[name], linestyle=":", linewidth=1.2)
        axis.set_ylim(0, 1.02)
        axis.set_yticks([0, 1])
        axis.set_ylabel(f"{policy}\npCPU {pcpu}", rotation=0, ha="right", va="center", fontsize=8)
        axis.margins(x=0)
    axes[-1, 0].set_xlabel("seconds; dotted: a program's timed part begins or ends")
    handles = [Patch(color=colours[name]) for name in domains]
    figure.legend(handles, [f"domain {name}" for name in domains], loc="upper right", ncols=len(domains), fontsize=8)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
