"""What `make bench-pairs` reports of made-up runs."""

from made_samples import alone, run
from vscaf.bench.figures import figures
from vscaf.bench.places.place import BASELINES
from vscaf_bench.pairs import TARGETS, results
from vscaf_bench.report import Report

CG, EP = ("cg.W", "cg.W"), ("ep.S", "ep.S")
SPEEDS = {"passive": 0.8, "static": 1.0, "unmanaged": 0.4, "pinned": 0.3, "fair": 0.96}


def found(rounds=3):
    samples = []
    for number in range(1, rounds + 1):
        samples += [*alone(number, "cg.W", 1.0), *alone(number, "ep.S", 1.0)]
        for group, more in ((CG, 1.0), (EP, 1.05)):
            samples += [
                run(number, group, name, [speed * (more if name == "fair" else 1.0)] * 2)
                for name, speed in SPEEDS.items()
            ]
    return figures(samples, BASELINES)


def test_every_baseline_has_its_ratios_and_two_have_targets():
    made = {one.name: one for one in results("pairs", found(), "fair", judged=True)}
    assert set(made) == {
        f"pairs.vs_{name}.{of}" for name in TARGETS for of in ("geomean", "min", "cg.W+cg.W", "ep.S+ep.S")
    }
    assert (round(made["pairs.vs_passive.geomean"].value, 2), made["pairs.vs_passive.min"].value) == (1.23, 1.2)
    bars = {name.split(".")[1] for name, one in made.items() if one.bar}
    assert bars == {"vs_static", "vs_unmanaged"}
    assert made["pairs.vs_static.geomean"].bar == "at least 0.98: met"
    assert made["pairs.vs_unmanaged.min"].bar == "high at least 0.95: met"
    assert not any(one.bar for one in results("native", found(), "fair", judged=False))


def test_of_a_single_round_no_interval_is_printed():
    for rounds, printed in ((1, False), (3, True)):
        report = Report("pairs", results("pairs", found(rounds), "fair", judged=True))
        assert all((" .. " in line) is printed for line in report.table().splitlines()[1:])


def test_what_was_not_measured_has_no_result():
    assert results("pairs", found(), "max-speedup", judged=True) == []
