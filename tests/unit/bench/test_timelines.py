"""Where the programs of a run computed: kept, read again, and drawn."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from made_samples import CONTEXT, alone, run
from vscaf.bench.figures import figures
from vscaf.bench.observe.watch import Watched
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.files import write_report
from vscaf.bench.report.timeline_pictures import timeline_figure, timeline_pictures
from vscaf.bench.report.timelines import TIMELINES, Timeline, Timelines
from vscaf.bench.samples import Sample
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
