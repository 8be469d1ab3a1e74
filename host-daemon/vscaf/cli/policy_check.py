"""`vscaf policy check`: tries a policy in a separate process, and shows the findings."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import IO, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from vscaf_policies.conformance import Finding, Verdict
from vscaf_policies.pool_states import as_python, pool_states

from vscaf.command_line import parse_options, policy_options, progress
from vscaf.errors import UsageError
from vscaf.policy.trial import Request
from vscaf.terminal import printable

STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.SLOW: "yellow", Verdict.NOTED: "cyan"}
CALLS = 10
"""All checks together may take as long as this many calls at their limit."""

LONGEST_EXAMPLE = 24
"""How many lines of an example are shown; --json has all."""

IMPURE = frozenset({"options", "repeated", "later", "order-of-calls", "returns"})
"""A policy that fails one of these would answer differently in another process for the same reason."""


@click.command("check", short_help="Try a policy of your own on many states of a pool.")
@click.argument("target", metavar="MODULE")
@policy_options
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for the states that it is tried on.")
@click.option(
    "--limit",
    "call_s",
    type=click.FloatRange(min=0.1, max=3600),
    default=20.0,
    show_default=True,
    help=f"Seconds that one decision may take. All checks may take {CALLS} times as long. Longer counts as a hang.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")
def check(*, target: str, options: tuple[str, ...], seed: int, call_s: float, as_json: bool) -> None:
    """Try the policy MODULE on many states of a pool, and show which parts of the contract it breaks.

    MODULE is FILE.py or package.module, with :FUNCTION if it has several functions, or the name of an installed policy.
    No daemon is needed. The policy runs in a separate process: a policy that hangs is reported and ended.

    Exit status: 0: no check failed. 1: a check failed. 2: the policy cannot be loaded.

    \b
    Example:
      vscaf policy check half_and_rest.py --option 'favourite="cfd"'
    """
    parsed = parse_options(options)
    with progress(f"trying {printable(target)}"):
        findings = run_checks(Request("check", target, parsed, seed, call_s, CALLS * call_s))
    passed = all(one.verdict is not Verdict.FAILED for one in findings)
    if as_json:
        values = {"policy": target, "options": parsed, "seed": seed, "passed": passed}
        click.echo(json.dumps(values | {"findings": [asdict(one) for one in findings]}, indent=2))
    else:
        show(target, findings, Console())
    sys.exit(0 if passed else 1)


def run_checks(request: Request) -> tuple[Finding, ...]:
    """The findings of all checks. UsageError if the policy cannot be loaded."""
    result, printed = run_trial(request)
    if isinstance(result, Finding):
        return (result,)
    findings = [Finding(**one | {"verdict": Verdict(one["verdict"])}) for one in result["findings"]]
    if not any(one.check in IMPURE and one.verdict is Verdict.FAILED for one in findings):
        findings.append(_same_in_other_processes(request))
    if printed:
        message = f"it prints {printed.splitlines()[0]!r:.100}: this will be in the daemon's log with every decision"
        findings.append(Finding("prints", Verdict.NOTED, message))
    return tuple(findings)


def _same_in_other_processes(request: Request) -> Finding:
    """Checks that two new processes, in which sets of strings have different orders, give the same answers."""
    answers = []
    for hash_seed in (1, 2):
        again = replace(request, mode="answers")
        result, _printed = run_trial(again, hash_seed)
        if isinstance(result, Finding):
            return result
        answers.append(result["answers"])
    for state, one, other in zip(pool_states(request.seed), *answers, strict=True):
        if one != other:
            message = "it answers differently in another process: sort what comes from a set, and use no hash() or id()"
            return Finding("fresh-process", Verdict.FAILED, message, as_python(state, request.options))
    return Finding("fresh-process", Verdict.PASSED, "the same in other processes, with any PYTHONHASHSEED")


def run_trial(request: Request, hash_seed: int | None = None) -> tuple[Mapping[str, Any] | Finding, str]:
    """The result that the process printed, or a finding if it printed none. Then its other output.

    UsageError if the policy cannot be loaded.
    """
    environment = dict(os.environ) | ({} if hash_seed is None else {"PYTHONHASHSEED": str(hash_seed)})
    # -u: unbuffered, so that its output is complete however it ends.
    command = [sys.executable, "-u", "-P", "-m", "vscaf.policy.trial", json.dumps(asdict(request))]
    # Files, not pipes: a process that the policy started could keep a pipe open, and we would wait for its end.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=printed, env=environment, start_new_session=True
        )
        try:
            status = process.wait(request.total_s + 10.0)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        result_text, other_output = _end_of(output), printable_lines(_end_of(printed, 20_000))
    try:
        result: dict[str, Any] = json.loads(result_text)
    except json.JSONDecodeError:
        return _ended_early(status, other_output, request), other_output
    if "refused" in result:
        raise UsageError(result["refused"])
    return result, other_output


def _end_of(file: IO[bytes], most: int = 2**30) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - most))
    return file.read().decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all processes of its group that still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ended_early(status: int | None, printed: str, request: Request) -> Finding:
    """The finding for a process that ended without a result. printed: its output, perhaps with a stack trace."""
    if status is None or "Timeout (" in printed:
        problem = f"it did not finish all calls within {request.total_s:g} s"
        why = "it hangs while it is loaded or in a call, and would hang the daemon; if not, give a longer --limit"
    else:
        problem = f"it ends the process ({f'signal {-status}' if status < 0 else f'exit status {status}'})"
        why = "it would end the daemon"
    return Finding("returns", Verdict.FAILED, f"{problem}: {why}", printed)


def printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())


def show(target: str, findings: Sequence[Finding], console: Console) -> None:
    """Prints a table of the findings, then an example for each, then the counts of the verdicts."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(
            Text(finding.check), Text(finding.verdict, STYLES[finding.verdict]), Text(printable(finding.words))
        )
    console.print(table)
    for finding in findings:
        lines = finding.example.splitlines()
        if lines:
            console.print(Text(f"\n# {finding.check}: this shows it"), soft_wrap=True)
            cut = [f"# ... and {len(lines) - LONGEST_EXAMPLE} more lines: --json has them"]
            shown = lines if len(lines) <= LONGEST_EXAMPLE else lines[:LONGEST_EXAMPLE] + cut
            console.print(Text(printable_lines("\n".join(shown))), soft_wrap=True)
    counts = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    totals = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    console.print(Text(f"\n{printable(target)}: {', '.join(totals)}"), soft_wrap=True)
