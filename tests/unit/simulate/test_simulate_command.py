"""`vscaf simulate` with short scenarios that really run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from vscaf.cli.main import main
from vscaf.lab.polling import HANG_S, until
from vscaf.simulate.policies import DEFAULT_POLICIES, find_policy, options_for
from vscaf.simulate.scenarios.files import load_scenario, shipped_scenarios
from vscaf.simulate.sweep import Failure, Job, run_all
from vscaf_policies.registry import policy_names

pytestmark = pytest.mark.slow

SCENARIO = """
name = "short"
title = "Two guests for some seconds"
source = "made up"
seconds = 6.0
settle_s = 3.0
host = {{ pcpus = 8 }}
noise = {{ speedup = 0.05 }}
{more}
[[guest]]
name = "one"
curve = {{ model = "amdahl", serial = 0.02 }}
[[guest]]
name = "two"
curve = {{ model = "log", weight = 1.0 }}
start_s = 1.0
"""

OWN = '''
from helper_beside import DIVISOR
from vscaf_policies import PolicyError


def halves(pool, options):
    """The option `most` for the first, the rest for the others."""
    if set(options) - {"most"}:
        raise PolicyError("policy halves: unknown option: remove it")
    most = options.get("most", pool.cpus // DIVISOR)
    return {one.name: most if number == 0 else 1 for number, one in enumerate(pool.domains)}


def broken(pool, options):
    return {1 / 0: 2}


def deadly(pool, options):
    import os, signal
    if pool.domains:
        os.kill(os.getpid(), signal.SIGKILL)
    return {}
'''


def vscaf(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return written(tmp_path, "short")


def written(directory: Path, name: str, more: str = "") -> Path:
    path = directory / f"{name}.toml"
    path.write_text(SCENARIO.format(more=more).replace('"short"', f'"{name}"'), encoding="utf-8")
    return path


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "helper_beside.py").write_text("DIVISOR = 2\n", encoding="utf-8")
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    yield path
    sys.modules.pop("helper_beside", None)


def without_wall_times(text: str) -> str:
    document = json.loads(text)
    for scenario in document["scenarios"]:
        for run in scenario["runs"]:
            assert run.pop("wall_s") > 0
    return json.dumps(document)


def test_a_table_for_each_scenario_and_a_row_for_each_default_policy(short: Path, tmp_path: Path) -> None:
    done = vscaf(short, written(tmp_path, "other"), "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "short: 8 pCPUs, 6 s" in done.stdout and "other: 8 pCPUs, 6 s" in done.stdout
    for policy in DEFAULT_POLICIES:
        assert done.stdout.count(f"│ {policy} ") == (3 if policy in policy_names() else 0)
    assert "2 scenarios together" in done.stdout
    assert "oracle: " in done.stdout and done.stderr == ""


def test_a_file_of_pairs_is_run_as_a_scenario_for_each(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    curves = "[{ model = 'perfect' }, { model = 'amdahl', serial = 0.1 }, { model = 'log', weight = 2.0 }]"
    path.write_text(f'name = "all"\nseconds = 3.0\nhost = {{ pcpus = 8 }}\npairs = {{ curves = {curves} }}\n')
    done = vscaf(path, "--policy", "equipartition", "--json", "--jobs", 1)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["scenarios"]] == [
        "all-perfect-amdahl serial 0.1", "all-perfect-log weight 2", "all-amdahl serial 0.1-log weight 2",
    ]  # fmt: skip
    assert (found["together"][0]["runs"], found["together"][0]["even"]) == (3, 3)


def test_json(short: Path) -> None:
    done = vscaf(short, "--policy", "equipartition,max-speedup", "--json")
    assert done.exit_code == 0 and done.stderr == ""
    (scenario,) = json.loads(done.stdout)["scenarios"]
    assert [run["policy"] for run in scenario["runs"]] == ["equipartition", "max-speedup"]
    first = scenario["runs"][0]
    assert first["to_equipartition"] == 1.0 and 0.5 < first["to_oracle"] <= 1.0
    assert [guest["name"] for guest in first["guests"]] == ["one", "two"]
    assert first["moments"][-1]["allocations"] == {"one": 4, "two": 4}
    assert scenario["oracles"][0]["sum_of_speedups"] == pytest.approx(7.2, abs=0.6)


def test_the_number_of_jobs_changes_nothing(short: Path, tmp_path: Path) -> None:
    arguments = (short, written(tmp_path, "other"), "--policy", "unmanaged,max-speedup", "--seeds", 2, "--json")
    one, two, again = vscaf(*arguments, "--jobs", 1), vscaf(*arguments, "--jobs", 2), vscaf(*arguments, "--jobs", 1)
    assert one.exit_code == two.exit_code == 0
    assert without_wall_times(one.stdout) == without_wall_times(two.stdout) == without_wall_times(again.stdout)
    runs = [run for scenario in json.loads(two.stdout)["scenarios"] for run in scenario["runs"]]
    assert [(run["seed"], run["policy"]) for run in runs] == [
        (seed, policy) for _ in range(2) for seed in (1, 2) for policy in ("unmanaged", "max-speedup")
    ]


def test_seeds(short: Path) -> None:
    found = json.loads(vscaf(short, "--policy", "max-speedup", "--seed", 7, "--seeds", 2, "--json").stdout)
    runs = found["scenarios"][0]["runs"]
    assert [run["seed"] for run in runs] == [7, 8]
    assert runs[0]["guests"] != runs[1]["guests"]  # the noise differs
    assert "2 seeds: median" in vscaf(short, "--policy", "max-speedup", "--seeds", 2).stdout


def test_output_holds_the_document_and_pictures(short: Path, tmp_path: Path) -> None:
    out = tmp_path / "not" / "there" / "yet"
    done = vscaf(short, "--policy", "equipartition", "--output", out)
    assert done.exit_code == 0, done.output
    names = {"results.json", "allocations-short.png", "splits-short.png"}
    assert {path.name for path in out.iterdir()} == names
    assert all(f"wrote {out / name}\n" in done.stdout for name in names)
    plain = vscaf(short, "--policy", "equipartition", "--output", tmp_path / "plain", "--no-pictures", "--json")
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["results.json"]
    assert (tmp_path / "plain" / "results.json").read_text(encoding="utf-8") == plain.stdout
    assert "wrote" in plain.stderr


def test_without_matplotlib_the_rest_works(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vscaf.simulate.session.why_no_pictures", lambda: "pictures need matplotlib")
    done = vscaf(short, "--policy", "equipartition", "--output", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "vscaf: no pictures: pictures need matplotlib\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.json"]
    asked = vscaf(short, "--policy", "equipartition", "--output", tmp_path / "asked", "--pictures")
    assert (asked.exit_code, asked.stdout) == (2, "") and not (tmp_path / "asked").exists()


def test_list() -> None:
    done = vscaf("--list")
    assert done.exit_code == 0
    for name in shipped_scenarios():
        assert name in done.stdout and load_scenario(name).title.split(",")[0][:30] in done.stdout
    as_json = json.loads(vscaf("--list", "--json").stdout)
    assert [one["name"] for one in as_json] == list(shipped_scenarios())
    assert all(one["title"] and one["source"] for one in as_json)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["no scenario", "--list"]),
        (["nowhere"], ["nowhere", "cg-lu"]),
        (["{short}", "--policy", "nowhere"], ["policy nowhere", "equipartition", "FILE.py"]),
        (["{short}", "--policy", "nowhere:x"], ["policy nowhere:x", "MODULE:FUNCTION"]),
        (["{short}", "--policy", "{own}:nothing"], ["nothing", "halves", "give one of its functions"]),
        (["{short}", "--policy", "absent.py:x"], ["absent.py", "No such file"]),
        (["{short}", "--policy", "{own}:broken"], ["broken", "ZeroDivisionError", "fix it first"]),
        (["{short}", "--pictures"], ["--pictures", "--output"]),
        (["{short}", "--output", "{short}/below"], ["--output", "Not a directory"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said_before_anything_runs(
    arguments: list[str], expected: list[str], short: Path, own: Path
) -> None:
    done = vscaf(*(word.format(short=short, own=own) for word in arguments))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("vscaf: ") and done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in expected), done.stderr


def test_bad_scenarios(tmp_path: Path) -> None:
    for more, expected in {
        "colour = 3": ["colour", "its keys are", "settle_s"],
        "[policy_options.equipartition]\nfast = true": ["scenario bad", "fast", "it takes none"],
        "period_ms = 1": ["period_ms", ">= 10"],
    }.items():
        done = vscaf(written(tmp_path, "bad", more), "--policy", "equipartition")
        assert (done.exit_code, done.stdout) == (2, "") and all(word in done.stderr for word in expected), done.stderr


def test_two_scenarios_of_one_name(short: Path, tmp_path: Path) -> None:
    (tmp_path / "same.toml").write_text(short.read_text(encoding="utf-8"), encoding="utf-8")
    done = vscaf(short, tmp_path / "same.toml", "--policy", "equipartition")
    assert done.exit_code == 2 and "are both named short" in done.stderr
    assert vscaf(short, short, "--policy", "equipartition").exit_code == 0  # the same file twice


def test_a_policy_from_a_file_with_options_of_the_scenario(tmp_path: Path, own: Path) -> None:
    path = written(tmp_path, "mine", "[policy_options.halves]\nmost = 6")
    for jobs in (1, 2):
        done = vscaf(path, "--policy", f"{own}:halves,equipartition", "--json", "--jobs", jobs)
        assert done.exit_code == 0, done.output
        runs = json.loads(done.stdout)["scenarios"][0]["runs"]
        assert runs[0]["policy"] == f"{own}:halves"
        final: dict[str, int] = {}
        for moment in runs[0]["moments"]:
            final.update(moment["allocations"])
        assert final == {"one": 6, "two": 1}
    bad = vscaf(written(tmp_path, "bad", "[policy_options.halves]\nleast = 6"), "--policy", f"{own}:halves")
    assert bad.exit_code == 2 and "unknown option" in bad.stderr


def test_options_for_nobody_are_told(tmp_path: Path, own: Path) -> None:
    path = written(tmp_path, "mine", "[policy_options.equipartitoin]\n[policy_options.halves]\nmost = 6")
    message = "vscaf: scenario mine: policy_options.{} names no policy that is installed or tried: check the name\n"
    alone = vscaf(path, "--policy", "unmanaged")
    assert (alone.exit_code, alone.stderr) == (0, message.format("equipartitoin") + message.format("halves"))
    assert vscaf(path, "--policy", f"{own}:halves").stderr == message.format("equipartitoin")


def test_find_policy_by_module_and_options_by_name(tmp_path: Path) -> None:
    equal = find_policy("equipartition")
    assert find_policy("vscaf_policies.equipartition:equipartition") is equal
    options = {"static": {"a": 1}, "half-and-rest": {"b": 2}, "max-speedup": {"c": 3}}
    (tmp_path / "half.py").write_text("def half_and_rest(pool, options):\n    return {}\n", encoding="utf-8")
    assert options_for("static", options) == {"a": 1}
    assert options_for(f"{tmp_path}/half.py:half_and_rest", options) == {"b": 2}
    assert options_for(f"{tmp_path}/half.py", options) == {"b": 2}  # its only function
    assert options_for("vscaf_policies.max_speedup:max_speedup", options) == {"c": 3}
    assert options_for("unmanaged", options) == {}


def test_two_files_of_one_name_are_two_policies(tmp_path: Path) -> None:
    found = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / str(number) / "own.py"
        path.write_text(f"def mine(pool, options):\n    return {{'n': {number}}}\n", encoding="utf-8")
        found.append(find_policy(f"{path}:mine"))
    assert [policy(None, {}) for policy in found] == [{"n": 1}, {"n": 2}]  # type: ignore[arg-type]


def failing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Makes runs with this seed raise, but only in this process. So the test must use one job."""
    from vscaf.simulate import sweep  # noqa: PLC0415

    real = sweep.simulate

    def simulate(*arguments: Any, **options: Any) -> Any:
        if options["seed"] == seed:
            raise ZeroDivisionError("division\nby zero")
        return real(*arguments, **options)

    monkeypatch.setattr(sweep, "simulate", simulate)


def test_a_run_that_fails_is_told_and_the_others_go_on(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 2)
    arguments = (short, "--policy", "equipartition", "--seeds", 3, "--jobs", 1)
    done = vscaf(*arguments, "--json")
    assert done.exit_code == 1
    (scenario,) = json.loads(done.stdout)["scenarios"]
    assert [run["seed"] for run in scenario["runs"]] == [1, 3]
    assert scenario["failures"] == [
        {"policy": "equipartition", "seed": 2, "why": "ZeroDivisionError: division by zero"}
    ]
    table = vscaf(*arguments)
    assert table.exit_code == 1 and "failed: equipartition, seed 2: ZeroDivisionError" in table.stdout


def test_a_run_that_kills_its_process_is_told_and_the_others_go_on(short: Path, own: Path) -> None:
    scenario = load_scenario(short)
    jobs = [Job(scenario, policy, 1) for policy in ("equipartition", f"{own}:deadly", "unmanaged", "max-speedup")]
    progress: list[float] = []
    outcomes = run_all(jobs, 2, progress.append)
    assert [one.policy for one in outcomes] == [job.policy for job in jobs]
    assert [isinstance(one, Failure) for one in outcomes] == [False, True, False, False]
    assert "process was killed" in outcomes[1].why  # type: ignore[union-attr]
    assert progress[-1] == 4 and all(0 <= share <= 4 for share in progress)


def test_runs_that_a_dead_pool_does_not_take_are_tried_again(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may die before the last run is submitted."""
    real, refused = ProcessPoolExecutor.submit, []

    def submit(pool: ProcessPoolExecutor, function: Any, number: int, job: Job) -> Any:
        if number == 1 and not refused:
            refused.append(number)
            raise BrokenProcessPool("a child process terminated abruptly, the process pool is not usable anymore")
        return real(pool, function, number, job)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    jobs = [Job(load_scenario(short), "equipartition", seed) for seed in (1, 2)]
    outcomes = run_all(jobs, 2)
    assert refused == [1]
    assert [(one.seed, isinstance(one, Failure)) for one in outcomes] == [(1, False), (2, False)]


def test_progress_rises_to_the_number_of_runs(short: Path) -> None:
    jobs = [Job(load_scenario(short), "equipartition", seed) for seed in (1, 2)]
    for processes in (1, 2):
        progress: list[float] = []
        run_all(jobs, processes, progress.append)
        assert progress == sorted(progress) and progress[-1] == 2 and len(progress) >= 2


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "vscaf", "simulate", *map(str, arguments)]


def test_as_a_program(short: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        command(short, "--policy", "equipartition,max-speedup", "--jobs", 2, "--output", out, "--no-pictures"),
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "│ max-speedup" in done.stdout and "\x1b" not in done.stdout
    assert json.loads((out / "results.json").read_text(encoding="utf-8"))["scenarios"][0]["name"] == "short"


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_its_workers_end_with_it(how: signal.Signals, status: int, tmp_path: Path) -> None:
    path = written(tmp_path, "long")
    path.write_text(path.read_text(encoding="utf-8").replace("seconds = 6.0", "seconds = 90000.0"), encoding="utf-8")
    # If the tests run in the background, SIGINT may be ignored, and child processes inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command(path, "--policy", "equipartition", "--seeds", 3, "--jobs", 2),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    try:
        until(lambda: len(busy_in_session(process.pid)) >= 3, "the command and two workers", poll_s=0.2)
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.kill()
        assert process.wait(HANG_S) == status
        until(lambda: not busy_in_session(process.pid), "the end of its workers", poll_s=0.1)
        assert process.stderr is not None
        if how is signal.SIGINT:
            assert process.stderr.read() == "vscaf: interrupted: no results were written\n"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def busy_in_session(session: int) -> list[int]:
    """The processes of the session that have used at least 0.1 s of CPU time: the command and its workers."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z" and int(fields[11]) + int(fields[12]) >= 10:
            found.append(int(directory.name))
    return found


def test_other_commands_do_not_load_it() -> None:
    heavy = ["vscaf.simulate.session", "vscaf.simulate.engine.run", "matplotlib"]
    code = f"import sys, vscaf.cli.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
