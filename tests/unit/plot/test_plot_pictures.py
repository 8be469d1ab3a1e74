"""The timeline as text and as a picture."""

from pathlib import Path

import pytest
from matplotlib.collections import PolyCollection
from vscaf.occupancy.timeline import Track
from vscaf.plot.allocations import Change
from vscaf.plot.figure import BAND, colours, occupancy_figure
from vscaf.plot.terminal import text, timeline


def lines(changes: list[Change], domains: list[str], pcpus: list[int], width: int = 80) -> list[str]:
    return [line.rstrip() for line in text(timeline(TRACK, changes, domains, pcpus, width)).plain.splitlines()]


# Four bins; the last one is not over.
TRACK = Track(
    100.0,
    1.0,
    {
        0: {"cfd": [1.0, 1.0, 0.5, 0.0], "web": [0.0, 0.0, 0.5, 0.0]},
        1: {"cfd": [1.0, 0.0, 0.0, 0.0], "web": [0.0, 0.9, 1.0, 0.0]},
    },
)
CHANGES = [
    Change(100.0, "cfd", frozenset({0, 1})),
    Change(101.0, "cfd", frozenset({0})),
    Change(101.0, "web", frozenset({1})),
]


def test_the_timeline_as_text() -> None:
    assert lines(CHANGES, ["cfd", "web"], [0, 1, 2]) == [
        "a cfd: has 1, uses 0.5  █▄▂",
        "b web: has 1, uses 1.5   ▅█",
        "pCPU 0, of a            aaa",
        "pCPU 1, of b            abb",
        "pCPU 2, of .            ...",
    ]


def test_letters_have_colours() -> None:
    shown = text(timeline(TRACK, CHANGES, ["cfd", "web"], [1], 80))
    styles = {shown.plain[span.start : span.end]: span.style for span in shown.spans}
    assert styles["a"] != styles["bb"] and styles["▅"] == styles["bb"]


def test_the_newest_bins_are_kept_if_not_all_fit() -> None:
    assert lines(CHANGES, ["cfd", "web"], [1], 26)[2] == "pCPU 1, of b            bb"


def test_an_allocation_that_is_not_known_is_no_number() -> None:
    assert lines([], ["cfd"], [])[0].startswith("a cfd: has ?, uses 0.5")


def test_nothing_was_recorded() -> None:
    nothing = Track(100.0, 1.0, {})
    assert text(timeline(nothing, [], [], [0], 80)).plain.strip() == "pCPU 0, of ."
    assert occupancy_figure(nothing, [], [], []).axes


def test_the_picture_has_a_row_for_each_domain_and_pcpu() -> None:
    canvas = occupancy_figure(TRACK, CHANGES, ["cfd", "web"], [0, 1], "no daemon")
    assert [axis.get_ylabel() for axis in canvas.axes] == ["cfd\nCPUs", "web\nCPUs", "pCPU 0", "pCPU 1"]
    assert "no daemon" in canvas.axes[-1].get_xlabel()
    (line,) = canvas.axes[0].lines
    assert list(line.get_xdata()) == [0.0, 1.0, 3.0] and list(line.get_ydata()) == [2.0, 1.0, 1.0]


def test_the_band_over_a_pcpu_shows_whose_it_is() -> None:
    canvas = occupancy_figure(TRACK, CHANGES, ["cfd", "web"], [0, 1])
    spans = []
    for collection in canvas.axes[3].collections:
        assert isinstance(collection, PolyCollection)
        for path in collection.get_paths():
            box = path.get_extents()
            if box.y0 == pytest.approx(1.05) and box.y1 == pytest.approx(1.05 + BAND):
                spans.append((box.x0, box.x1))
    assert spans == [(0.0, 1.0), (1.0, 3.0)], "cfd first, then web"


def test_many_domains_have_colours() -> None:
    names = [f"d{number}" for number in range(30)]
    assert colours(names).keys() == set(names) and len(set(colours(names[:20]).values())) == 20


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_it_can_be_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    occupancy_figure(TRACK, CHANGES, ["cfd", "web"], [0, 1]).savefig(path)
    assert path.stat().st_size > 1000
