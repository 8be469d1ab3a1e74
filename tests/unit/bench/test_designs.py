"""Which workloads compute together, and when they start."""

import pytest
from click.testing import CliRunner
from vscaf.bench import measure
from vscaf.bench.command import WITH_STATIC, WITHOUT_STATIC
from vscaf.bench.designs import STARTS_S, alone, barriers, coming_going, together
from vscaf.bench.workloads.gather import gather
from vscaf.bench.workloads.options import Sources
from vscaf.cli.main import main
from vscaf.errors import UsageError

TREES = ("uts-geometric.A", "uts-geometric.W", "uts-geometric.S")
SIZES = dict(zip("LMS", TREES, strict=True))


def workloads(*names):
    return gather(Sources(shipped=names), None, print)


def test_trees_come_and_go_as_in_the_study():
    design = coming_going(SIZES, 0.5, no_vm=False)
    large, medium, small = TREES
    assert design.groups(workloads(*TREES)) == [
        (large, medium),
        (large, small, small, small),
        (large, medium, medium, medium),
        (large, large, large, large),
    ]
    assert design.starts_s == tuple(start_s / 2 for start_s in STARTS_S)
    assert "static" not in design.arrangements
    with pytest.raises(UsageError, match="no workload"):
        design.groups(workloads(*TREES[:2]))


def test_two_sizes_may_be_the_same_tree(monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "run", lambda design, sources, options: seen.append((design, sources)) or 0)
    done = CliRunner().invoke(main, ["bench", "coming-going", "--medium", TREES[2]])
    assert done.exit_code == 0, done.output
    ((design, sources),) = seen
    large, small = TREES[0], TREES[2]
    assert design.groups(gather(sources, None, print))[2] == (large, small, small, small)


def test_barriers_run_in_one_guest_then_in_two():
    loop = workloads("barrier.S")
    design = barriers("barrier.S", 3, no_vm=False)
    assert design.groups(loop) == [("barrier.S",) * count for count in (1, 2, 3)]
    assert "static" in design.default_arrangements(2, 2) and "static" in design.default_arrangements(3, 3)
    assert "static" not in design.default_arrangements(3, 2)


@pytest.mark.parametrize("no_vm", [False, True])
def test_every_command_measures_passive_waiting_beside_unmanaged(no_vm):
    designs = (
        together((), 2, no_vm=no_vm),
        coming_going(SIZES, 1.0, no_vm=no_vm),
        barriers("barrier.S", 2, no_vm=no_vm),
        alone(no_vm=no_vm),
    )
    assert all({"passive", "unmanaged"} <= set(design.arrangements) for design in designs)


def test_the_defaults_of_the_help_are_those_of_the_designs():
    assert together((), 2, no_vm=False).arrangements == tuple(WITH_STATIC.split(","))
    assert alone(no_vm=False).arrangements == tuple(WITHOUT_STATIC.split(","))


def test_a_chosen_group_has_the_size_of_the_command():
    with pytest.raises(UsageError, match="give 2 workloads"):
        together(("cg.W+cg.W+cg.W",), 2, no_vm=False).groups(workloads("cg.W"))
