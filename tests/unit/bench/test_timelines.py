"""Where the programs of a run computed: kept, read again, and drawn."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from made_samples import CONTEXT, alone, run
from matplotlib.colors import to_rgba
from vscaf.bench.figures import figures
from vscaf.bench.observe.watch import Watched
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.files import write_report
from vscaf.bench.report.timeline_pictures import timeline_figure, timeline_pictures
from vscaf.bench.report.timelines import TIMELINES, Timeline, Timelines
from vscaf.bench.samples import Sample
from vscaf.occupancy.pictures import COLOURS
from vscaf.occupancy.timeline import Track

PAIR = ("cg.W", "lu.W")


def watched(first: float) -> Watched:
    """For ten seconds the first member uses so much of pCPU 0 and the second uses pCPU 1."""
    shares = {0: {"first": [first] * 100, "second": [0.0] * 100}, 1: {"first": [0.0] * 100, "second": [1.0] * 100}}
    return cast(Watched, SimpleNamespace(track=Track(0.0, 0.1, shares)))


@pytest.fixture
def timelines(tmp_path: Path) -> Timelines:
    return Timelines(tmp_path / TIMELINES)


def both(number: int, arrangement: str, **others: Any) -> Sample:
    return run(number, PAIR, arrangement, [1.0, 1.0], **others)


def test_the_last_run_of_each_kind_is_kept(timelines: Timelines) -> None:
    timelines.keep(both(1, "unmanaged"), watched(0.25))
    timelines.keep(both(2, "unmanaged"), watched(0.5))
    timelines.keep(both(1, "static", allocations=(1, 1)), watched(1.0))
    timelines.keep(alone(1, "cg.W", 1.0)[0], watched(1.0))
    kept = {(one.arrangement, one.allocations): one for one in timelines.read()}
    assert kept.keys() == {("unmanaged", ()), ("static", (1, 1))}
    unmanaged = kept[("unmanaged", ())]
    assert unmanaged.round == 2 and unmanaged.track == watched(0.5).track
    assert unmanaged.computed == {"first": (0.0, 11.0), "second": (0.0, 11.0)}
    timelines.remove()
    assert timelines.read() == []
    timelines.remove()


def test_a_timeline_that_is_being_written_or_was_damaged_is_left_out(timelines: Timelines, tmp_path: Path) -> None:
    timelines.keep(both(1, "unmanaged"), watched(1.0))
    (kept,) = (tmp_path / TIMELINES).iterdir()
    whole = kept.read_bytes()
    (tmp_path / TIMELINES / "other.json").write_bytes(whole[: len(whole) // 2])
    assert [one.round for one in timelines.read()] == [1]
    seen: list[list[int]] = []
    write = Path.write_bytes

    def half_first(path: Path, content: bytes) -> int:
        write(path, content[: len(content) // 2])
        seen.append([one.round for one in timelines.read()])
        return write(path, content)

    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(Path, "write_bytes", half_first)
        timelines.keep(both(2, "unmanaged"), watched(0.5))
    assert seen == [[1]] and [one.round for one in timelines.read()] == [2]


def test_a_picture_has_a_row_for_each_arrangement_and_pcpu(timelines: Timelines) -> None:
    for sample in (both(1, "max-speedup"), both(1, "unmanaged"), both(1, "static", allocations=(1, 1))):
        timelines.keep(sample, watched(1.0))
    canvas = timeline_figure(timelines.read())
    assert [axis.get_ylabel() for axis in canvas.axes] == [
        f"{name}, pCPU {pcpu}" for name in ("static 1+1", "unmanaged", "max-speedup") for pcpu in (0, 1)
    ]
    (picture,) = timeline_pictures(timelines.read())
    assert picture.name == "timeline-cg.W+lu.W" and "those of round 1." in picture.caption
    timelines.keep(both(2, "unmanaged"), watched(1.0))
    (interrupted,) = timeline_pictures(timelines.read())
    assert "those of rounds 1 and 2." in interrupted.caption


def bands(axis: Any) -> dict[tuple[float, ...], tuple[float, float]]:
    """The lowest and the highest point of each colour of a row."""
    return {
        tuple(one.get_facecolor()[0]): (box.y0, box.y1)
        for one in axis.collections
        for box in [one.get_paths()[0].get_extents()]
    }


def test_the_picture_shows_who_waits_for_a_pcpu_below_its_line() -> None:
    """Both members use half of pCPU 0 and a thread of each waits the other half. Two more wait for pCPU 1."""
    half, none = [0.5] * 10, [0.0] * 10
    shares = {0: {"first": half, "second": half}, 1: {"first": [1.0] * 10, "second": none}}
    waits = {0: {"first": half, "second": [0.25] * 10}, 1: {"first": [1.5] * 10, "second": half}}
    computed = {"first": (0.0, 1.0), "second": (0.0, 1.0)}
    fight = Timeline(PAIR, "unmanaged", (), 1, computed, Track(0.0, 0.1, shares, waits))
    canvas = timeline_figure([fight])
    first, second = (to_rgba(colour) for colour in COLOURS[:2])
    assert bands(canvas.axes[0]) == {
        first: (0.0, 0.5),
        second: (0.5, 1.0),
        (*first[:3], 0.5): (-0.5, 0.0),
        (*second[:3], 0.5): (-0.75, -0.5),
    }
    assert bands(canvas.axes[1]) == {
        first: (0.0, 1.0),
        (*first[:3], 0.5): (-0.75, 0.0),
        (*second[:3], 0.5): (-1.0, -0.75),
    }
    assert all(axis.get_ylim() == (-1.02, 1.02) for axis in canvas.axes)
    assert "below the line: waits for the pCPU" in [text.get_text() for text in canvas.legends[0].get_texts()]


def test_a_run_in_which_nobody_waits_has_nothing_below_its_line(timelines: Timelines) -> None:
    timelines.keep(both(1, "static", allocations=(1, 1)), watched(0.5))
    for axis in timeline_figure(timelines.read()).axes:
        assert all(low >= 0 for low, _ in bands(axis).values())


def test_timelines_of_an_older_bench_have_no_waits() -> None:
    one = Timeline(PAIR, "unmanaged", (), 1, {"first": (0.0, 1.0)}, watched(0.5).track)
    text = msgspec.json.encode(one).replace(b',"waits":{}', b"")
    assert b"waits" not in text and msgspec.json.decode(text, type=Timeline) == one
    assert [label.get_text() for label in timeline_figure([one]).legends[0].get_texts()][-1] == "begins, ends"
    assert not [text for text in timeline_figure([one]).legends[0].get_texts() if "waits" in text.get_text()]


def test_a_run_that_was_too_short_to_be_seen_has_no_picture() -> None:
    nothing = Timeline(PAIR, "unmanaged", (), 1, {"first": (0.0, 0.1)}, Track(0.0, 0.1, {}))
    assert timeline_pictures([nothing]) == []


def test_the_report_has_the_timelines(tmp_path: Path) -> None:
    samples = [*alone(1, "cg.W", 1.0, 1.5), *alone(1, "lu.W", 1.0, 1.5), both(1, "unmanaged")]
    Timelines(tmp_path / TIMELINES).keep(samples[-1], watched(1.0))
    write_report(tmp_path, samples, figures(samples, BASELINES), CONTEXT)
    assert (tmp_path / "pictures" / "timeline-cg.W+lu.W.png").exists()
    assert "Who computed where: cg.W+lu.W" in (tmp_path / "report.html").read_text()


def test_a_timeline_reads_as_it_was_written() -> None:
    one = Timeline(PAIR, "static", (1, 1), 1, {"first": (0.0, 1.0)}, watched(0.5).track)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Timeline) == one
