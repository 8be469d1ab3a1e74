"""`vscaf policy check`: what it loads, what it finds only in a second process, and how it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from vscaf.cli.main import main
from vscaf.cli.policy_check import run_checks, run_trial
from vscaf.errors import UsageError
from vscaf.lab.polling import until
from vscaf.policy.trial import Request
from vscaf_policies.conformance import Finding, Verdict

pytestmark = pytest.mark.slow

GOOD = """
from vscaf_policies import bounded_partition, refuse_unknown_options

def good(pool, options):
    refuse_unknown_options("good", options, frozenset({"factor"}))
    return bounded_partition(pool, {domain.name: 1.0 for domain in pool.domains})
"""
QUICK = ["--seed", "3", "--limit", "20"]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["policy", "check", *arguments])


def written(directory: Path, text: str, name: str = "mine.py") -> str:
    (directory / name).write_text(text, encoding="utf-8")
    return str(directory / name)


def of(directory: Path, body: str, call_s: float = 20.0, total_s: float = 200.0) -> dict[str, Finding]:
    """The findings that did not pass, of a correct policy that first runs *body*."""
    text = GOOD.replace("    return", f"{body}\n    return")
    findings = run_checks(Request("check", written(directory, text), {}, 0, call_s, total_s))
    return {one.check: one for one in findings if one.verdict not in (Verdict.PASSED, Verdict.SLOW)}


def test_a_good_one(tmp_path: Path) -> None:
    done = check(written(tmp_path, GOOD), "--option", "factor=0.5", *QUICK, "--json")
    result = json.loads(done.stdout)
    assert done.exit_code == 0 and result["passed"] and result["options"] == {"factor": 0.5} and result["seed"] == 3
    checks = [one["check"] for one in result["findings"]]
    assert checks[-2:] == ["io", "fresh-process"] and len(set(checks)) == len(checks) == 17


def test_a_bad_one_is_shown(tmp_path: Path) -> None:
    text = GOOD.replace("1.0 for", "1.0 / (2 - len(pool.domains)) for")
    done = check(written(tmp_path, text), *QUICK)
    assert done.exit_code == 1 and "ZeroDivisionError" in done.output
    shown: dict[str, Any] = {}
    exec(done.output.split("# raises: this shows it\n")[1].rsplit("\n\n", 1)[0], shown)
    assert len(shown["pool"].domains) == 2
    assert done.output.endswith("1 failed\n") or ", 1 failed" in done.output.splitlines()[-1]


def test_what_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    two = written(tmp_path, GOOD + "\ndef other(pool, options):\n    return None\nnumber = 3\n", "two.py")
    for target, message in {
        "no-such": "give MODULE:FUNCTION, FILE.py or the name of an installed policy",
        "no_such.module:function": "not found",
        str(tmp_path / "absent.py"): "No such file",
        two: f"name one function: {two}:FUNCTION (good, other)",
        f"{two}:third": "has no third: give one of its functions (good, other)",
        f"{two}:number": "not a function of (pool, options)",
        written(tmp_path, "def x(:\n", "syntax.py"): "SyntaxError",
        written(tmp_path, "1 / 0\n", "zero.py"): "ZeroDivisionError",
        written(tmp_path, "import sys\nsys.exit(0)\n", "leaves.py"): "SystemExit",
        written(tmp_path, "import no_such_thing\n", "lacks.py"): "No module named 'no_such_thing': install it",
        written(tmp_path, "x = 1\n", "empty.py"): "it has no public function",
        "": "correct it",
    }.items():
        done = check(target)
        assert (done.exit_code, done.stdout) == (2, ""), (target, done.output)
        assert done.stderr.count("\n") == 1 and message in done.stderr, done.stderr
    assert check(two, "--option", "a").exit_code == 2


def test_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    written(tmp_path / "package", "", "__init__.py")
    written(tmp_path / "package", "FACTOR = 1.0\n", "beside.py")
    text = GOOD.replace("\n\n", "\nfrom .beside import FACTOR\n\n", 1).replace("1.0 for", "FACTOR for")
    written(tmp_path / "package", text, "policy.py")
    written(tmp_path, "FACTOR = 1.0\n", "neighbour.py")
    written(tmp_path, GOOD.replace("\n\n", "\nimport neighbour\n\n", 1), "json.py")  # the name of a standard module
    monkeypatch.chdir(tmp_path)
    for target in ("package.policy:good", "package.policy", "json.py", "json.py:good", "max-speedup"):
        result, _printed = run_trial(Request("answers", target, {}, 0, 20.0, 200.0))
        assert not isinstance(result, Finding) and len(result["answers"]) > 100, (target, result)


def test_another_process_that_says_something_else(tmp_path: Path) -> None:
    body = "    return bounded_partition(pool, {one.name: 1.0 + hash(one.name) % 97 for one in pool.domains})"
    findings = of(tmp_path, body)
    assert set(findings) == {"fresh-process"}
    one = findings["fresh-process"]
    assert one.verdict is Verdict.FAILED and "PoolState(" in one.example and "hash()" in one.words


def test_what_it_does_besides(tmp_path: Path) -> None:
    body = """    if not pool.domains:
        import os, socket
        from pathlib import Path
        open("/etc/passwd").close()
        os.system("true")
        os.fork()
        socket.socket().close()
        list(Path("/").iterdir())"""
    findings = of(tmp_path, body)
    assert set(findings) == {"io"} and findings["io"].verdict is Verdict.FAILED
    for message in ("open('/etc/passwd') at mine.py:9;", "os.system(b'true') at mine.py:10;", "os.fork at mine.py:11;"):
        assert message in findings["io"].words
    assert "socket.__new__(" in findings["io"].words and "dir('/') at" in findings["io"].words


def test_an_import_at_the_first_call_is_no_io(tmp_path: Path) -> None:
    written(tmp_path, "import colorsys\n", "late.py")
    assert of(tmp_path, "    import late") == {}


def test_what_it_prints(tmp_path: Path) -> None:
    findings = of(tmp_path, "    print('hello')")
    assert set(findings) == {"prints"} and findings["prints"].verdict is Verdict.NOTED
    assert "'hello'" in findings["prints"].words


def test_one_that_hangs_is_told(tmp_path: Path) -> None:
    findings = of(tmp_path, "    while len(pool.domains) > 1: pass", call_s=1.0)
    assert set(findings) == {"returns"}
    one = findings["returns"]
    assert "did not return within 1 s (mine.py:6)" in one.words
    shown: dict[str, Any] = {}
    exec(one.example, shown)
    assert len(shown["pool"].domains) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "    import itertools\n    sum(itertools.repeat(len(pool.domains[1:])))",
            "did not finish",
        ),  # Python handles no signal during this call
        ("    import os\n    if pool.domains: os._exit(0)", "ends the process (exit status 0)"),
        ("    import os\n    if pool.domains: os.kill(os.getpid(), 9)", "ends the process (signal 9)"),
    ],
    ids=["for good", "leaves", "killed"],
)
def test_one_that_nothing_stops(tmp_path: Path, body: str, message: str) -> None:
    hangs = message == "did not finish"
    findings = of(tmp_path, body, total_s=8.0 if hangs else 200.0)
    assert set(findings) == {"returns"}
    assert message in findings["returns"].words
    if hangs:
        assert "mine.py" in findings["returns"].example, "the example does not say where it was"


def test_one_that_hangs_where_it_is_loaded(tmp_path: Path) -> None:
    findings = run_checks(Request("check", written(tmp_path, "while True: pass\n"), {}, 0, 0.5, 2.0))
    assert [one.check for one in findings] == ["returns"] and "while it is loaded" in findings[0].words


def running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = f"""
import subprocess
from pathlib import Path
process = subprocess.Popen(["sleep", "100000"])
Path({str(note)!r}).write_text(str(process.pid))
def policy(pool, options):
    return None
"""
    run_trial(Request("answers", written(tmp_path, text), {}, 0, 20.0, 200.0))  # does not wait for sleep
    until(lambda: not running(note.read_text()), "its end")


def test_output_without_end_is_cut(tmp_path: Path) -> None:
    findings = of(tmp_path, "    if pool.domains: print('x' * 2**20)")
    assert set(findings) == {"raises", "prints"} and "File too large" in findings["raises"].words


def test_no_libvirt_is_needed(tmp_path: Path) -> None:
    code = "import sys; sys.modules['libvirt'] = None; from vscaf.cli.main import main; main()"
    command = [sys.executable, "-c", code, "policy", "check", "equipartition"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


def test_a_refusal_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not found"):
        run_checks(Request("check", "no-such", {}, 0, 20.0, 200.0))
