"""The picture of all splits of a pair: what it shows."""

import pytest
from made_samples import alone, run
from matplotlib.colors import to_rgba
from vscaf.bench.figures import Figures, figures
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.pictures import looks
from vscaf.bench.report.split_pictures import split_pictures, splits_figure
from vscaf.bench.samples import Sample

PAIR, SAME = ("cg.W", "lu.W"), ("cg.W", "cg.W")
BY_SPLIT = {(1, 3): (0.5, 2.0), (2, 2): (0.9, 1.8), (3, 1): (1.2, 0.7)}


def measured(splits: dict[tuple[int, int], tuple[float, float]], rounds: int = 2) -> Figures:
    samples: list[Sample] = []
    for number in range(1, rounds + 1):
        samples += [
            *alone(number, "cg.W", 1.0, 1.5),
            *alone(number, "lu.W", 1.0, 3.0),
            run(number, PAIR, "passive", (0.5, 0.7)),
            run(number, PAIR, "unmanaged", (0.4, 0.6)),
            run(number, PAIR, "fair", (0.85, 1.75)),
            run(number, PAIR, "static", (9.0, 9.0), allocations=(4, 0), disturbed=True),
            *(run(number, PAIR, "static", speeds, allocations=split) for split, speeds in splits.items()),
            run(number, SAME, "static", (0.9, 0.9), allocations=(2, 2)),
        ]
    return figures(samples, BASELINES)


def test_splits_are_points_and_the_others_are_lines() -> None:
    found = measured(BY_SPLIT)
    (picture,) = split_pictures(found)
    (axis,) = picture.canvas.axes  # a pair with one split has no panel
    assert axis.get_title() == "cg.W+lu.W"
    points = axis.containers[0][0]
    assert list(points.get_xdata()) == [1, 2, 3]  # the disturbed one is left out
    assert list(points.get_ydata()) == pytest.approx([2.5, 2.7, 1.9])
    level = {
        line.get_color(): line.get_ydata()[0] for line in axis.lines if line is not points and len(line.get_ydata())
    }
    assert level[looks(("unmanaged", "static", "fair"))["fair"].colour] == pytest.approx(2.6)
    assert level["0.55"] == pytest.approx(1.0)
    labels = [text.get_text() for one in picture.canvas.legends for text in one.get_texts()]
    assert labels == ["static, each split", "passive", "unmanaged", "fair", "95% interval"]
    found = measured(BY_SPLIT, rounds=1)
    once = splits_figure(found, found.groups[:1])
    assert "95% interval" not in [text.get_text() for one in once.legends for text in one.get_texts()]


def test_baselines_that_are_lines_differ_from_policies() -> None:
    found = measured(BY_SPLIT)
    canvas = splits_figure(found, found.groups[:1])
    colours = [to_rgba(line.get_color()) for line in canvas.axes[0].lines[1:] if len(line.get_ydata()) == 2]
    assert len(set(colours)) == len(colours)


def test_no_picture_of_one_split() -> None:
    assert split_pictures(measured({(2, 2): (0.9, 1.8)})) == []
