"""What bench-policies computes from its runs: shares, exponents, mean allocations, and SCAF's loop as a calculation."""

import math
from dataclasses import replace

import pytest
from simulated_runs import EQUAL, FITTED, a_run
from vscaf.simulate.scenarios.curves import load_curve
from vscaf_bench.libgomp import error_result
from vscaf_bench.policies_bound import LIMITS, effective, price, table
from vscaf_bench.policies_decide import SIZES, _add_growth, growth
from vscaf_bench.policies_equipartition import _shares
from vscaf_bench.policies_oracle import NINE, SECONDS, _converged, gap, name_of_run
from vscaf_bench.policies_runs import allocations_between, mean_result, share_result, worst_result
from vscaf_bench.policies_thesis import exact_share, linear, settled, split, weight
from vscaf_bench.report import Report, Result


def test_allocations_are_weighed_by_time_within_the_stretch() -> None:
    run = a_run("mine", {"one": 1.0}, {0.0: {"one": 16}, 10.0: {"one": 4}, 30.0: {}})
    assert allocations_between(run, "one", 5.0, 20.0) == (pytest.approx((5 * 16 + 10 * 4) / 15), 4, 16)
    assert allocations_between(run, "one", 35.0, 40.0) == (0.0, 0, 0)
    with pytest.raises(ValueError, match="no allocation is known"):
        allocations_between(replace(run, moments=run.moments[1:]), "one", 0.0, 5.0)


def test_a_share_has_wilsons_interval() -> None:
    none, half = share_result("x", 0, 4), share_result("x", 5, 10)
    assert (none.value, none.low, none.n) == (0.0, 0.0, 4) and none.high == pytest.approx(48.99, abs=0.01)
    assert half.value == 50.0 and (half.low, half.high) == pytest.approx((23.66, 76.34), abs=0.01)


def test_means_and_worst_are_of_all_values() -> None:
    values = [1.0, 2.0, 6.0]
    mean, worst = mean_result("x", "%", values), worst_result("x", "%", values)
    assert mean.value == 3.0 and 1.0 <= mean.low < 3.0 < mean.high <= 6.0
    assert worst.low == worst.value == worst.high == 6.0, "a maximum has no interval by bootstrap"


def test_the_mean_error_of_estimates_lies_in_its_interval() -> None:
    """Most are small, and the mean is far above the median."""
    found = error_result([0.1] * 40 + [50.0] * 10)
    assert found.value == pytest.approx(10.08) and found.low < found.value < found.high


def test_the_exponent_is_that_of_a_power() -> None:
    domains = [size for size, _cpus in SIZES]
    slope, error = growth(domains, [3.0 * size**1.5 for size in domains])
    assert slope == pytest.approx(1.5) and error == pytest.approx(0.0, abs=1e-6)


def test_what_every_size_needs_does_not_hide_the_growth_of_the_largest() -> None:
    report = Report("x")
    by_size = [Result("x", "ms", 50.0 + size, 49.0 + size, 51.0 + size, 1) for size, _cpus in SIZES]
    _add_growth(report, "decide.growth.x", by_size)
    over_all, largest = report.results
    assert (over_all.name, largest.name) == ("decide.growth.x", "decide.growth.x.largest")
    assert over_all.value < 0.9 < largest.low < largest.value < largest.high < 1.0


def test_who_never_converges_counts_as_the_whole_run() -> None:
    curves, report = ("cg-t2", "lu-t2"), Report("x")
    never, soon = replace(FITTED, converged_periods=None, decisions=7), replace(EQUAL, converged_periods=12)
    _converged(report, {("max-speedup-fitted", curves): never, ("max-speedup", curves): soon}, [curves])
    assert [one.value for one in report.results] == [SECONDS * 4, 12.0]  # four periods a second
    assert report.details == {"oracle.never_converged": 1, "oracle.never_converged.max-speedup": 0}


def test_gaps_wins_and_losses() -> None:
    assert gap(9.5, 10.0) == pytest.approx(5.0)
    found = _shares([1.2, 1.1, 1.05, 1.0, 0.95, 0.9, 0.8, 1.0])
    assert found == pytest.approx({"wins": 25.0, "even": 50.0, "losses": 25.0, "win": 1.15, "loss": 0.85})


def test_scafs_worked_example() -> None:
    """Creech 2015, section 4.3.5: E = 2/3 on 12 contexts and E = 3/8 on 4, of 16 contexts."""
    weights = {"foo": weight(8.0, 12), "baz": weight(1.5, 4)}
    assert weights == pytest.approx({"foo": 7 / math.log(12), "baz": 0.5 / math.log(4)})
    assert exact_share(weights, "foo", 16) == pytest.approx(14.18, abs=0.01)
    assert split(weights, 16) == {"foo": 14, "baz": 2}


def test_scafs_loop_ends_where_it_stays_or_with_those_it_goes_on_among() -> None:
    assert settled({"a": linear(0.5), "b": linear(0.5)}, 16) == [{"a": 8, "b": 8}]
    ends = settled({"a": linear(1.0), "b": linear(0.1)}, 16)
    for one in ends:
        assert sum(one.values()) == 16 and one["a"] > 12
    hops = settled({"a": lambda cpus: 9.0 if cpus <= 8 else 2.0, "b": lambda cpus: 5.0}, 16)
    assert len(hops) > 1 and hops[0]["a"] != hops[1]["a"]


def test_a_limit_that_changes_nothing_needs_no_run_of_its_own() -> None:
    pair, triple = NINE[:2], NINE[:3]
    assert [effective(limit, 2, 64) for limit in LIMITS] == [1.1, 1.5, 0.0, 0.0, 0.0]
    assert [effective(limit, 3, 64) for limit in LIMITS] == [1.1, 1.5, 2.0, 0.0, 0.0]
    assert [name_of_run(limit, pair) for limit in (3.0, 2.0, 0.0)] == ["max-speedup-fitted"] * 3
    names = [name_of_run(limit, triple) for limit in (3.0, 2.0, 1.1)]
    assert names == ["max-speedup-fitted", "max-speedup-fitted.most_of_equal_2", "max-speedup-fitted.bounded"]


def test_the_price_of_a_limit_is_what_the_best_split_loses() -> None:
    """EP scales and IS falls: the best split of 64 CPUs gives EP nearly all, and 1.5 equal shares are 48."""
    curves = ("ep-t2", "is-t2")
    first, second = map(load_curve, curves)

    def best(most: int) -> float:
        splits = ((one, other) for one in range(1, most + 1) for other in range(1, min(most, 64 - one) + 1))
        return max(first.speedup(one) + second.speedup(other) for one, other in splits)

    assert price(curves, 64, 3.0) == 0.0
    assert price(curves, 64, 1.5) == pytest.approx(gap(best(48), best(64))) and price(curves, 64, 1.5) > 1.0


def test_the_table_of_limits_has_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("x")
    report.add(Result("oracle.gap.mean", "%", 1.5, 1.0, 2.0, 9))
    report.add(Result("liar.gain.max-speedup-fitted.bounded.over_equal_share", "%", 6.0, 6.0, 6.0, 9))
    table(report, NINE[:3], 64)
    found = report.details["most_of_equal"]
    assert isinstance(found, dict) and found["default"] == 3.0
    rows = {row["most_of_equal"]: row for row in found["rows"]}
    assert rows["3"]["gap_mean"] == 1.5 and rows["1.1"]["liar_over_equal_share"] == 6.0
    assert rows["1.1"]["price_worst"] >= rows["1.1"]["price_for_2"] > rows["3"]["price_for_2"] == 0.0
    assert "gap_mean" in capsys.readouterr().out
