"""The workloads of a bench from several sources, and the command line that names them."""

import subprocess

import pytest
from click.testing import CliRunner
from vscaf.bench.places import choice
from vscaf.bench.places.place import PlaceError
from vscaf.bench.workloads.gather import gather
from vscaf.bench.workloads.options import Sources
from vscaf.cli.main import main
from vscaf.errors import UsageError


@pytest.fixture
def programs(tmp_path):
    path = tmp_path / "programs"
    path.mkdir()
    subprocess.run(["gcc", "-x", "c", "-", "-o", path / "cg.A.x"], input=b"int main(void) { return 0; }", check=True)
    return path


def found(tmp_path, **sources):
    return gather(Sources(**sources), tmp_path / "cache", lambda _: None)


def test_without_sources_there_are_shipped_ones(tmp_path):
    assert list(found(tmp_path)) == ["cg.W", "mg.W", "ep.S", "lu.S"]


def test_all_sources_come_together(tmp_path, programs):
    every = found(tmp_path, directory=programs, commands=("sort=sort x",), shipped=("ep.S",))
    assert sorted(every) == ["cg.A", "ep.S", "sort"]
    assert [every[name].npb for name in sorted(every)] == [True, True, False]


def test_progress_belongs_to_a_workload(tmp_path, programs):
    every = found(tmp_path, directory=programs, commands=("sort=sort x",), progress=(r"cg.A=Time step +(\d+)",))
    assert every["cg.A"].progress.search(" Time step   20")[1] == "20"
    assert every["cg.A"].files
    assert every["sort"].progress is None
    with pytest.raises(UsageError, match=r"no workload bt\.A: there are cg\.A"):
        found(tmp_path, directory=programs, progress=("bt.A=(1)",))


def test_two_of_one_name_are_refused(tmp_path, programs):
    with pytest.raises(UsageError, match=r"two workloads cg\.A"):
        found(tmp_path, directory=programs, shipped=("cg.A",))
    (programs / "cg.A").write_bytes((programs / "cg.A.x").read_bytes())
    (programs / "cg.A").chmod(0o755)
    with pytest.raises(UsageError, match=r"two workloads cg\.A"):
        found(tmp_path, directory=programs)


def test_a_class_without_a_source_is_refused(tmp_path):
    with pytest.raises(UsageError, match="give --npb-source"):
        found(tmp_path, npb_class="A")


@pytest.fixture
def no_guests(monkeypatch):
    """No guest is booted. The list gets the names of the workloads that the guests would have had."""
    brought = []

    def place(_names, workloads, *_, **__):
        brought.append(sorted(one.name for one in workloads))
        raise PlaceError("guests would be booted now")

    monkeypatch.setattr(choice, "lab_place", place)
    return brought


def invoke(tmp_path, *arguments):
    """Exit status and output of `vscaf bench pairs`."""
    done = CliRunner().invoke(main, ["bench", "pairs", "--output", str(tmp_path / "out"), *arguments])
    return done.exit_code, done.output


def test_pairs_are_chosen_among_the_workloads(tmp_path, programs, no_guests):
    sources = ["--workloads", str(programs), "--command", "a=true", "--command", "b=true"]
    assert invoke(tmp_path, *sources, "--pairs", "cg.A+b,b+b")[0] == 1
    assert invoke(tmp_path, *sources)[0] == 1
    assert no_guests == [["b", "cg.A"], ["a", "b", "cg.A"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "cg.W+ft.W"], "there is no workload ft.W: there are cg.W, ep.S, lu.S, mg.W"),
        (["--command", "a=true", "--pairs", "a+cg.W"], "there is no workload cg.W: there are a"),
        (["--command", "a=true", "--pairs", "a"], "give 2 workloads"),
        (["--shipped", "cg"], "not a shipped workload"),
        (["--workloads", "missing"], "no such directory"),
        (["--class", "A"], "give --npb-source"),
        (["--command", "true"], "give it as in --command"),
    ],
)
def test_wrong_arguments_are_told(tmp_path, no_guests, arguments, message):
    status, output = invoke(tmp_path, *arguments)
    assert status == 2
    assert no_guests == []
    assert message in output


def test_samples_of_another_command_are_not_mixed(tmp_path, no_guests):
    path = tmp_path / "out" / "samples.jsonl"
    assert invoke(tmp_path, "--command", "a=true")[0] == 1
    before = path.read_bytes()
    assert invoke(tmp_path, "--command", "a=true")[0] == 1
    assert no_guests == [["a"], ["a"]]
    status, output = invoke(tmp_path, "--command", "a=false")
    assert status == 2
    assert "other settings" in output
    assert path.read_bytes() == before
