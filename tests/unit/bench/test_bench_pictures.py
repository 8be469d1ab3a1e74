"""The pictures of a bench: what they show, and their files."""

import itertools
import struct
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from made_samples import CONTEXT, alone, run
from matplotlib.colors import to_rgba
from vscaf.bench.figures import Figures, figures
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.files import write_report
from vscaf.bench.report.pictures import (
    COLOURS,
    FEW_PAIRS,
    alone_figure,
    looks,
    pictures,
    programs_figure,
    ratios_figure,
    sums_figure,
)
from vscaf.bench.report.table import arrangement_order
from vscaf.bench.samples import Sample

CG, LU, BOTH = ("cg.W", "cg.W"), ("lu.W", "lu.W"), ("cg.W", "lu.W")
KINDS = ("static", "unmanaged", "fair")


def some() -> list[Sample]:
    """Two rounds. Each program alone does its work once a second. static of LU is disturbed."""
    samples = []
    for number, factor in ((1, 0.9), (2, 1.1)):
        samples += [*alone(number, "cg.W", 1.0, 1.5), *alone(number, "lu.W", 1.0, 1.75)]
        for group, gain in ((CG, 1.5), (BOTH, 4.0), (LU, 1.0)):
            samples += [
                run(number, group, "unmanaged", (0.5, 0.4)),
                run(number, group, "static", (0.9, 0.7), allocations=(1, 1), disturbed=group == LU),
                run(number, group, "fair", (0.5 * gain * factor, 0.4 * gain * factor)),
            ]
    return samples


@pytest.fixture(scope="module")
def found() -> Figures:
    return figures(some(), BASELINES)


def legend(canvas: matplotlib.figure.Figure) -> list[str]:
    return [text.get_text() for one in canvas.legends for text in one.get_texts()]


def ticks(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_yticklabels()]


def colour_of(name: str) -> Any:
    return to_rgba(looks(KINDS)[name].colour)


def test_sums_are_bars_with_whiskers(found: Figures) -> None:
    canvas = sums_figure(found)
    (axis,) = canvas.axes
    assert ticks(axis) == ["cg.W+cg.W", "cg.W+lu.W", "lu.W+lu.W"]
    bars = sorted(axis.patches, key=lambda bar: bar.get_y())
    assert [bar.get_width() for bar in bars] == pytest.approx([1.6, 0.9, 1.35, 1.6, 0.9, 3.6, 1.6, 0.9, 0.9])
    assert [bar.get_facecolor() for bar in bars[:3]] == [colour_of(name) for name in KINDS]
    ends = sorted({round(x, 6) for lines in axis.collections for path in lines.get_paths() for x, _ in path.vertices})
    assert {round(3.6 * 0.9, 6), round(3.6 * 1.1, 6)} <= set(ends)
    assert legend(canvas) == [*KINDS, "disturbed: does not count", "95% interval"]
    assert "sum of speedups" in axis.get_xlabel()


def test_one_round_has_no_whiskers() -> None:
    once = figures([one for one in some() if one.key.round == 1], BASELINES)
    canvas = sums_figure(once)
    paths = [path for lines in canvas.axes[0].collections for path in lines.get_paths()]
    assert not [path for path in paths if not np.isnan(path.vertices).any()]
    assert "95% interval" not in legend(canvas) and "95% interval" not in legend(alone_figure(once, 2))


def test_a_bar_of_disturbed_runs_is_empty(found: Figures) -> None:
    bars = sorted(sums_figure(found).axes[0].patches, key=lambda bar: bar.get_y())
    empty = [number for number, bar in enumerate(bars) if bar.get_facecolor() == to_rgba("white")]
    assert empty == [6]  # static of lu.W+lu.W
    quiet = figures([one for one in some() if not one.disturbed], BASELINES)
    assert "disturbed: does not count" not in legend(sums_figure(quiet))


def test_ratios_are_sorted_and_without_the_baseline(found: Figures) -> None:
    canvas = ratios_figure(found, "unmanaged")
    (axis,) = canvas.axes
    assert ticks(axis) == ["lu.W+lu.W", "cg.W+cg.W", "cg.W+lu.W"]
    points = [line for line in axis.lines if line.get_marker() in ("o", "D")]
    values = {(line.get_color(), round(float(line.get_xdata()[0]), 3)) for line in points}
    grey, colour = looks(KINDS)["static"].colour, looks(KINDS)["fair"].colour
    assert values == {(grey, 1.778), (colour, 1.5), (colour, 4.0), (colour, 1.0)}
    assert legend(canvas) == ["static", "fair", "even: within 5% of unmanaged"]
    assert "ratio" in axis.get_xlabel() and axis.get_xscale() == "log"


def test_a_pair_without_a_ratio_is_not_in_the_picture(found: Figures) -> None:
    canvas = ratios_figure(found, "static")
    assert "lu.W+lu.W" not in ticks(canvas.axes[0]) and len(ticks(canvas.axes[0])) == 2
    assert legend(canvas) == ["fair", "even: within 5% of static"]
    caption = {one.name: one.caption for one in pictures(found, 2)}["ratio-static"]
    assert "1 of 3 pairs have no undisturbed runs to compare." in caption


def test_programs_have_a_panel_for_each_arrangement_without_disturbed_runs(found: Figures) -> None:
    canvas = programs_figure(found)
    assert [axis.get_title() for axis in canvas.axes] == list(KINDS)
    points = [
        {
            (round(float(line.get_xdata()[0]), 3), round(float(line.get_ydata()[0]), 3))
            for line in axis.lines
            if line.get_marker() in ("o", "s", "D")
        }
        for axis in canvas.axes
    ]
    assert points == [{(0.9, 0.7)}, {(0.5, 0.4)}, {(0.75, 0.6), (2.0, 1.6), (0.5, 0.4)}]
    names = [sorted(text.get_text() for text in axis.texts) for axis in canvas.axes]
    assert names == [["1", "2"], ["1", "2", "3"], ["1", "2", "3"]]
    caption = {one.name: one.caption for one in pictures(found, 2)}["programs"]
    assert "1 cg.W+cg.W, 2 cg.W+lu.W, 3 lu.W+lu.W" in caption


def test_names_next_to_points_at_one_place_are_apart() -> None:
    samples = [*alone(1, "cg.W", 1.0), *alone(1, "lu.W", 1.0)]
    samples += [run(1, group, "unmanaged", (0.5, 0.5)) for group in (CG, LU, BOTH)]
    texts = programs_figure(figures(samples, BASELINES)).axes[0].texts
    places = [text.get_position() for text in texts]
    assert len(places) == 3
    assert all(
        (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 >= 81 for number, a in enumerate(places) for b in places[:number]
    )


def test_many_points_have_no_names() -> None:
    names = [f"p{number}" for number in range(6)]
    samples = [sample for name in names for sample in alone(1, name, 1.0)]
    samples += [run(1, pair, "unmanaged", (0.5, 0.5)) for pair in itertools.combinations(names, 2)]
    assert len(programs_figure(figures(samples, BASELINES)).axes[0].texts) == FEW_PAIRS
    samples.append(run(1, ("p0", "p0"), "unmanaged", (0.5, 0.5)))
    found = figures(samples, BASELINES)
    assert not programs_figure(found).axes[0].texts
    assert "The table has the names" in {one.name: one.caption for one in pictures(found, 2)}["programs"]


def test_each_program_alone_is_a_bar_next_to_linear_speedup(found: Figures) -> None:
    canvas = alone_figure(found, 2)
    (axis,) = canvas.axes
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([1.5, 1.75])
    assert ticks(axis) == ["cg.W", "lu.W"]
    assert legend(canvas) == ["median", "95% interval", "linear speedup: 2"]


def test_arrangements_can_be_told_apart() -> None:
    policies = [f"policy-{number:02}" for number in range(16)]
    every = looks(arrangement_order([*policies, *BASELINES]))
    assert len({(one.colour, one.hatch) for one in every.values()}) == len(every) == 16 + len(BASELINES)
    assert list(every)[: len(BASELINES)] == list(BASELINES)
    assert not {one.colour for name, one in every.items() if name in BASELINES} & set(COLOURS)


def test_what_this_machine_cannot_show_is_said(found: Figures) -> None:
    two, four = ({one.name: one.caption for one in pictures(found, cpus)} for cpus in (2, 4))
    for name in ("sums", "ratio-static"):
        assert "can only be split 1 + 1" in two[name] and "split 1 + 1" not in four[name]


def test_of_several_splits_the_best_is_shown() -> None:
    samples = [
        *alone(1, "cg.W", 1.0),
        run(1, CG, "static", (0.2, 0.9), allocations=(1, 3)),
        run(1, CG, "static", (0.9, 0.9), allocations=(2, 2)),
    ]
    found = figures(samples, BASELINES)
    assert [bar.get_width() for bar in sums_figure(found).axes[0].patches] == pytest.approx([1.8])
    assert "the best is shown" in {one.name: one.caption for one in pictures(found, 4)}["sums"]


def test_a_baseline_to_which_only_unmanaged_is_compared_has_no_picture() -> None:
    without_policy = [one for one in some() if one.key.arrangement != "fair"]
    names = [one.name for one in pictures(figures(without_policy, BASELINES), 2)]
    assert "ratio-unmanaged" in names and "ratio-static" not in names


def test_nothing_measured_has_no_pictures() -> None:
    assert pictures(figures([], BASELINES), 2) == []
    only_one_thread = figures(alone(1, "cg.W", 1.0), BASELINES)
    assert pictures(only_one_thread, 2) == []


def test_pictures_are_png_and_svg_and_the_same_each_time(tmp_path: Path, found: Figures) -> None:
    for name in ("one", "two"):
        write_report(tmp_path / name, some(), found, CONTEXT)
    names = sorted(path.name for path in (tmp_path / "one" / "pictures").iterdir())
    kinds = ("alone", "programs", "ratio-static", "ratio-unmanaged", "sums")
    assert names == [f"{kind}.{ending}" for kind in kinds for ending in ("png", "svg")]
    for kind in kinds:
        head = (tmp_path / "one" / "pictures" / f"{kind}.png").read_bytes()[:24]
        width, height = struct.unpack(">II", head[16:24])
        assert head[:8] == b"\x89PNG\r\n\x1a\n" and width == 1500 and height > 100
        svg = (tmp_path / "one" / "pictures" / f"{kind}.svg").read_text()
        assert svg == (tmp_path / "two" / "pictures" / f"{kind}.svg").read_text()
        assert "<text" in svg  # text that can be searched
    assert (tmp_path / "one" / "report.html").read_text() == (tmp_path / "two" / "report.html").read_text()
