"""Pictures of runs: the content of the figures, and their files."""

import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from simulated_runs import EQUAL, FITTED, UNMANAGED, a_run, outcomes, two_guests
from vscaf.simulate.report.document import Outcomes
from vscaf.simulate.report.oracle import best_static
from vscaf.simulate.report.picture_files import file_name, first_seed, write_pictures
from vscaf.simulate.report.pictures import (
    FEW_GUESTS,
    allocations_figure,
    colours,
    shown_s,
    steps,
)
from vscaf.simulate.report.split_pictures import best_split, splits_figure
from vscaf.simulate.report.summary import Oracle
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.scenario import Amdahl, Guest, Host, Log, Phase, Scenario

RUNS = [UNMANAGED, EQUAL, FITTED]


def legend(figure: Figure) -> list[str]:
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend() is not None)]
    return [text.get_text() for one in legends for text in one.get_texts()]


def heading(figure: Figure) -> str:
    text: str = figure.get_suptitle()
    return text


def line(figure: Figure, label: str) -> Any:
    return next(one for axis in figure.axes for one in axis.lines if one.get_label() == label)


def three_guests(pool: int = 24) -> Scenario:
    more = (*two_guests().guests, Guest(name="three", curve=Amdahl(serial=0.2)))
    return two_guests(guests=more, host=Host(pcpus=pool))


def test_files_are_png_with_names_that_files_can_have(tmp_path: Path) -> None:
    written = write_pictures(outcomes(), tmp_path)
    assert [path.name for path in written] == ["allocations-two-guests.png", "splits-two-guests.png"]
    for path in written:
        head = path.read_bytes()[:24]
        width, height = struct.unpack(">II", head[16:24])
        assert head[:8] == b"\x89PNG\r\n\x1a\n" and width > 1000 and height > 400
    assert file_name("../../etc/x y") == "etc-x-y" and file_name("//") == "scenario"


def test_no_run_no_picture(tmp_path: Path) -> None:
    assert write_pictures(Outcomes(two_guests(), {}, ()), tmp_path) == []


def test_allocations_over_time() -> None:
    figure = allocations_figure(two_guests(), RUNS)
    assert len(figure.axes) == len(RUNS)
    assert legend(figure) == [
        "the pool", "two (curve of two)", "one (curve of one)", "a guest starts", "a guest ends",
    ]  # fmt: skip
    assert "two guests (16 pCPUs, seed 1)" in heading(figure)
    assert "One that scales" in heading(figure) and r"Source: made up, for \$10" in heading(figure)
    for axis, run in zip(figure.axes, RUNS, strict=True):
        assert axis.get_ylabel() == "CPUs" and axis.get_title("left").startswith(f"{run.policy}: sum of speedups")
        assert axis.get_xlim() == (0.0, 40.0)
    assert figure.axes[-1].get_xlabel() == "time (seconds)"
    assert "exploring cost 1.2%" in figure.axes[2].get_title("left") or "1.3%" in figure.axes[2].get_title("left")


def test_the_areas_are_the_allocations_and_exploration_is_seen() -> None:
    axis = allocations_figure(two_guests(), [FITTED]).axes[0]
    edges = [one for one in axis.lines if one.get_drawstyle() == "steps-post"]
    assert [len(one.get_xdata()) for one in edges] == [8, 8]
    assert list(edges[0].get_ydata()) == [16, 8, 11, 13, 12, 13, 12, 12]  # of `one`, at the bottom
    assert list(edges[1].get_ydata()) == [16] * 8  # both, one above the other
    assert list(edges[0].get_xdata())[-2:] == [31.0, 40.0]  # up to the end of the run


def test_who_comes_and_goes_is_marked_in_its_colour() -> None:
    ended = replace(EQUAL, guests=(replace(EQUAL.guests[0], end_s=30.0), EQUAL.guests[1]))
    axis = allocations_figure(two_guests(), [ended]).axes[0]
    marks = {(one.get_marker(), one.get_xdata()[0]): one.get_color() for one in axis.lines if one.get_marker() in "^v"}
    first, second = colours(2)
    assert marks == {("^", 5.0): second, ("v", 30.0): first}  # no mark at 0, where the run begins


def test_without_partitions_it_says_so() -> None:
    axis = allocations_figure(two_guests(), [UNMANAGED]).axes[0]
    assert any("no CPUs of their own" in text.get_text() for text in axis.texts)
    none = allocations_figure(two_guests(), [replace(UNMANAGED, moments=())]).axes[0]
    assert any("no CPUs of their own" in text.get_text() for text in none.texts)


def test_many_guests_are_drawn_by_totals_and_quantiles() -> None:
    names = [f"guest-{number}" for number in range(FEW_GUESTS + 1)]
    moments = {0.0: dict.fromkeys(names, 1), 20.0: {name: number for number, name in enumerate(names)}}
    run = a_run("mine", dict.fromkeys(names, 1.0), moments)
    figure = allocations_figure(two_guests(), [run])
    total, count, each = figure.axes
    assert not any("guest-" in label for label in legend(figure)) and "10% to 90%" in legend(figure)
    assert list(count.lines[0].get_ydata()) == [9, 8, 8]  # guests without CPUs do not count
    fewer = replace(run, policy="fewer", moments=run.moments[1:])
    alone = allocations_figure(two_guests(), [run, replace(run, policy="none", moments=())])
    assert [[text.get_text() for text in axis.texts] for axis in (alone.axes[0], alone.axes[3])] == [
        [], ["no CPUs of their own"],
    ]  # fmt: skip
    for order in ([run, fewer], [fewer, run]):  # nothing is cut off, whichever is drawn first
        assert allocations_figure(two_guests(), order).axes[1].get_ylim() == pytest.approx((0.0, 9.72))
    assert list(each.lines[0].get_ydata()) == [1.0, 4.5, 4.5]  # the median of the guests that have some
    assert max(point[1] for point in total.collections[0].get_paths()[0].vertices) == 36  # 0 + 1 + ... + 8


def test_days_are_in_hours() -> None:
    day = replace(EQUAL, seconds=86_400.0)
    figure = allocations_figure(two_guests(seconds=86_400.0), [day])
    assert figure.axes[0].get_xlabel() == "time (hours)" and figure.axes[0].get_xlim() == (0.0, 24.0)


def test_steps_go_to_the_end() -> None:
    assert steps(EQUAL) == ([0.0, 5.25, 40.0], [{"one": 16}, {"one": 8, "two": 8}, {"one": 8, "two": 8}])
    assert steps(replace(EQUAL, moments=())) == ([], [])


def test_colours_differ_in_grey() -> None:
    for count in range(2, FEW_GUESTS + 1):
        grey = [np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) for colour in colours(count)]
        assert all(later - earlier > 0.05 for earlier, later in pairwise(grey))


def test_splits_of_two() -> None:
    figure = splits_figure(outcomes(), RUNS)
    assert figure is not None
    assert legend(figure) == [
        "sum of both", "one (amdahl serial 0.02)", "two (log weight 1.5)", "oracle", "unmanaged (measured sum)",
        "equipartition", "fitted",
    ]  # fmt: skip
    first, second = (plan.curve for plan in expanded(outcomes().scenario))
    total = line(figure, "sum of both")
    assert list(total.get_xdata()) == list(range(1, 16))
    assert total.get_ydata()[3] == pytest.approx(first.speedup(4) + second.speedup(12))
    split, most = best_static([first, second], 16)
    star = line(figure, "oracle")
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (split[0], pytest.approx(most))
    assert line(figure, "equipartition").get_xdata()[0] == 8
    chosen = line(figure, "fitted")
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (12, pytest.approx(first.speedup(12) + second.speedup(4)))
    assert line(figure, "unmanaged (measured sum)").get_ydata()[0] == 6.0
    above, below, sums_axis = figure.axes
    assert "speedup" in above.get_ylabel() and below.get_xlabel() == "CPUs of one (two has the rest of 16)"
    assert [label.get_text() for label in below.get_yticklabels()] == ["oracle", "unmanaged", "equipartition", "fitted"]
    labels = [label.get_text() for label in sums_axis.get_yticklabels()]
    assert [one.split(", ")[0] for one in labels] == [f"{split[0]}:{split[1]}", "no split", "8:8", "12:4"]
    assert labels[1] == f"no split, 6.0 ({6.0 / most:.1%})"


def test_who_ends_has_no_sum_beside_that_of_splits() -> None:
    """Its sum covers the guests' whole lives, also times in which one was alone. So it may exceed the best split."""
    guests = tuple(msgspec.structs.replace(guest, work_s=100.0) for guest in two_guests().guests)
    run = a_run("unmanaged", {"one": 14.0, "two": 4.0}, {})
    figure = splits_figure(Outcomes(two_guests(guests=guests), {}, (run, EQUAL)), [run, EQUAL])
    assert figure is not None and not any("unmanaged" in text for text in legend(figure))
    assert [label.get_text() for label in figure.axes[2].get_yticklabels()][1] == "no split"


def test_policies_without_a_split_have_lines_of_their_own() -> None:
    other = replace(UNMANAGED, policy="other", sum_of_speedups=7.0)
    figure = splits_figure(outcomes(), [UNMANAGED, other])
    assert figure is not None
    lines = [line(figure, f"{name} (measured sum)") for name in ("unmanaged", "other")]
    assert [one.get_ydata()[0] for one in lines] == [6.0, 7.0]
    assert lines[0]._unscaled_dash_pattern != lines[1]._unscaled_dash_pattern


def test_splits_are_of_whole_cores() -> None:
    scenario = two_guests(host=Host(pcpus=16, threads_per_core=4))
    figure = splits_figure(Outcomes(scenario, {}, (EQUAL,)), [EQUAL])
    assert figure is not None and list(line(figure, "sum of both").get_xdata()) == [4, 8, 12]


def test_a_guest_gains_nothing_beyond_its_vcpus() -> None:
    guests = (Guest(name="one", curve=Amdahl(serial=0.0), vcpus=4), Guest(name="two", curve=Log(weight=1.5)))
    figure = splits_figure(Outcomes(two_guests(guests=guests), {}, (EQUAL,)), [EQUAL])
    assert figure is not None and line(figure, "one (amdahl serial 0)").get_ydata()[-1] == 4.0


def test_splits_of_three_are_a_map() -> None:
    scenario = three_guests()
    moments = {0.0: {"one": 8, "two": 8, "three": 8}}
    run = a_run("mine", {"one": 1.0, "two": 1.0, "three": 1.0}, moments)
    figure = splits_figure(Outcomes(scenario, {}, (run,)), [run])
    assert figure is not None
    axis = figure.axes[0]
    plans = expanded(scenario)
    split, most = best_static([plan.curve for plan in plans], 24)
    shown = ":".join(map(str, split))
    assert legend(figure)[0] == f"oracle: {shown}, {most:.1f}" and legend(figure)[1].startswith("mine: 8:8:8, ")
    names = {plan.name for plan in plans}
    labels = axis.get_xlabel() + axis.get_ylabel() + figure.axes[1].get_ylabel()
    assert all(name in labels for name in names)
    assert best_split(plans, scenario) == (split, pytest.approx(most))


def test_no_splits_of_one_or_four_guests_nor_of_changing_curves() -> None:
    for guests in (two_guests().guests[:1], (Guest(name="x", curve=Log(weight=1.0), count=4),)):
        one = Outcomes(two_guests(guests=guests), {}, (EQUAL,))
        assert splits_figure(one, [EQUAL]) is None
    phases = (Phase(seconds=1.0, serial=True), Phase(seconds=1.0))
    changing = (Guest(name="one", curve=Log(weight=1.0), phases=phases), two_guests().guests[1])
    assert splits_figure(Outcomes(two_guests(guests=changing), {}, (EQUAL,)), [EQUAL]) is None
    assert splits_figure(Outcomes(two_guests(host=Host(pcpus=1)), {}, (EQUAL,)), [EQUAL]) is None


def test_the_first_seed_of_each_policy_is_drawn() -> None:
    again = replace(FITTED, seed=2)
    assert first_seed([EQUAL, FITTED, again]) == [EQUAL, FITTED]


def test_names_with_dollars_are_drawn(tmp_path: Path) -> None:
    guests = (Guest(name="a$b", curve=Log(weight=1.0)), Guest(name="c$^{", curve=Log(weight=1.0)))
    run = a_run("mine$", {"a$b": 1.0, "c$^{": 1.0}, {0.0: {"a$b": 8, "c$^{": 8}})
    one = Outcomes(two_guests(guests=guests), {1: Oracle(1.0, None)}, (run,))
    assert len(write_pictures(one, tmp_path)) == 2


def test_long_names_leave_room_for_the_picture(tmp_path: Path) -> None:
    """Nothing is drawn over something else. Labels beside the axes stay there, within the picture."""
    names = ("a guest with quite a long name, one", "a guest with quite a long name, two")
    guests = tuple(Guest(name=name, curve=Log(weight=1.0)) for name in names)
    policies = ("mine/of/plug-ins/file.py:allocate", "other/of/plug-ins/file.py:allocate", "short")
    runs = [a_run(policy, dict.fromkeys(names, 1.0), {0.0: dict.fromkeys(names, 8)}) for policy in policies]
    one = Outcomes(two_guests(guests=guests), {}, tuple(runs))
    write_pictures(one, tmp_path)
    figure = splits_figure(one, runs)
    assert figure is not None and len(set(legend(figure))) == len(legend(figure))
    figure.draw_without_rendering()  # computes the layout
    above, below, sums_axis = figure.axes
    assert below.get_window_extent().width > 0.55 * figure.get_window_extent().width
    inside, whole = below.get_window_extent(), figure.get_window_extent()
    for axis, left, right in ((below, whole.x0, inside.x0), (sums_axis, inside.x1, whole.x1)):
        for label in axis.get_yticklabels():
            box = label.get_window_extent()
            assert left <= box.x0 and box.x1 <= right, label.get_text()
    title = figure._suptitle  # type: ignore[attr-defined]
    assert not title.get_window_extent().overlaps(figure.legends[0].get_window_extent())
    assert not title.get_window_extent().overlaps(above.get_window_extent())


def test_time_is_shown_for_as_long_as_something_happens() -> None:
    done = a_run("equipartition", {"one": 1.0}, {0.0: {"one": 8}}, end_s=10.0)
    late = a_run("fitted", {"one": 1.0}, {0.0: {"one": 8}}, end_s=20.0)
    assert shown_s([done, late]) == 21.0 and shown_s([done, EQUAL]) == 40.0
    assert allocations_figure(two_guests(), [done, late]).axes[0].get_xlim() == (0.0, 21.0)
