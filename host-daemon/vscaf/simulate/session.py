"""The work of `vscaf simulate`: loads scenarios and policies, runs them, shows and writes the results."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from vscaf_policies import PolicyError, PoolState
from vscaf_policies.registry import policy_names

from vscaf.drawing import why_no_pictures
from vscaf.errors import UsageError, VscafError
from vscaf.simulate.policies import DEFAULT_POLICIES, find_policy, option_names, options_for
from vscaf.simulate.report.document import Outcomes, document
from vscaf.simulate.report.oracle import BestDynamic, best_dynamic
from vscaf.simulate.report.summary import Oracle
from vscaf.simulate.report.table import table, together_table
from vscaf.simulate.scenarios.expansion import expanded, scenarios_of
from vscaf.simulate.scenarios.files import load_scenario, shipped_scenarios
from vscaf.simulate.scenarios.scenario import Scenario
from vscaf.simulate.sweep import Job, run_all, usable_cpus
from vscaf.terminal import printable

LARGEST_ORACLE = 20_000
"""Guests times pCPUs. Above this, computing the best split at every instant takes minutes or more."""

WIDE = 200
"""Columns of a table if the output is not a terminal."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The user's arguments; see the options of `vscaf simulate`. No policies: the default ones."""

    files: tuple[str, ...]
    policies: tuple[str, ...] = ()
    processes: int | None = None
    seed: int | None = None
    seeds: int = 1
    output: Path | None = None
    as_json: bool = False
    pictures: bool | None = None


def list_scenarios(as_json: bool) -> None:
    """Print names, titles and sources of the shipped scenarios."""
    found = {name: load_scenario(name) for name in shipped_scenarios()}
    if as_json:
        click.echo(
            json.dumps(
                [{"name": name, "title": one.title, "source": one.source} for name, one in found.items()], indent=2
            )
        )
        return
    rows = Table(box=None)
    for column in ("name", "title", "source"):
        rows.add_column(column, no_wrap=column == "name")
    for name, one in found.items():
        rows.add_row(Text(name), Text(one.title), Text(one.source))
    _console().print(rows)


def run(arguments: Arguments) -> int:
    """Runs everything and returns the exit status. UsageError before the first run if an argument is wrong."""
    scenarios = _scenarios(arguments.files)
    policies = arguments.policies or tuple(name for name in DEFAULT_POLICIES if name in policy_names())
    for scenario in scenarios:
        for policy in policies:
            _check_policy(policy, scenario)
        _warn_of_options(scenario, policies)
    draw = _draws_pictures(arguments)
    if arguments.output is not None:
        _make_directory(arguments.output)
    seeds = {one.name: _seeds(one, arguments) for one in scenarios}
    jobs = [Job(one, policy, seed) for one in scenarios for seed in seeds[one.name] for policy in policies]
    with _progress(len(jobs)) as report_progress:
        outcomes = run_all(jobs, arguments.processes or usable_cpus(), report_progress)
    each = len(outcomes) // len(scenarios)
    found = [
        Outcomes(scenario, _oracles(scenario, seeds[scenario.name]), outcomes[number * each : (number + 1) * each])
        for number, scenario in enumerate(scenarios)
    ]
    _show(found, arguments, draw)
    good = all(not one.failures and not any(run.violations for run in one.runs) for one in found)
    return 0 if good else 1


def _scenarios(files: Sequence[str]) -> list[Scenario]:
    """UsageError if one cannot be used, or if two have the same name."""
    scenarios = [(file, one) for file in files for one in scenarios_of(load_scenario(file))]
    for name, count in Counter(one.name for _file, one in scenarios).items():
        if count > 1:
            same = [file for file, one in scenarios if one.name == name]
            raise UsageError(f"{' and '.join(same)} are both named {name}: give each file a name of its own")
    return [one for _file, one in scenarios]


def _seeds(scenario: Scenario, arguments: Arguments) -> range:
    first = scenario.seed if arguments.seed is None else arguments.seed
    return range(first, first + arguments.seeds)


def _check_policy(policy: str, scenario: Scenario) -> None:
    """UsageError if the policy or the scenario's options for it cannot be used. Calls it with a pool without guests."""
    options = options_for(policy, scenario.policy_options)
    try:
        find_policy(policy)(PoolState(scenario.host.pcpus, scenario.host.threads_per_core, 0.0, ()), options)
    except PolicyError as error:
        raise UsageError(f"scenario {scenario.name}: {error}") from error
    except VscafError:
        raise
    except Exception as error:  # a user's policy may raise anything
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"policy {policy} fails on a pool without guests ({why}): fix it first") from error


def _warn_of_options(scenario: Scenario, policies: Sequence[str]) -> None:
    """Warns of options that no policy uses: with a misspelt name, a policy would silently run without its options."""
    known = {*policy_names(), *(name for policy in policies for name in option_names(policy))}
    for name in sorted(set(scenario.policy_options) - known):
        message = f"policy_options.{name} names no policy that is installed or tried: check the name"
        click.echo(printable(f"vscaf: scenario {scenario.name}: {message}"), err=True)


def _draws_pictures(arguments: Arguments) -> bool:
    """Whether to draw pictures. UsageError if the user wants pictures and they cannot be drawn."""
    if arguments.output is None or arguments.pictures is False:
        return False
    why_not = why_no_pictures()
    if not why_not:
        return True
    if arguments.pictures:
        raise UsageError(f"{why_not}; --no-pictures leaves them out")
    click.echo(f"vscaf: no pictures: {why_not}", err=True)
    return False


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {directory}: {error.strerror}: give a writable directory") from error


def _oracles(scenario: Scenario, seeds: Sequence[int]) -> dict[int, Oracle]:
    """The results of the best splits, by seed; empty if they cannot be known or would take hours to compute."""
    guests = len(expanded(scenario))
    if guests * scenario.host.pcpus > LARGEST_ORACLE:
        return {}
    drawn = seeds if scenario.arrivals else seeds[:1]
    best = {seed: best_dynamic(scenario, seed) for seed in drawn}
    found = {seed: _oracle(scenario, one) for seed, one in best.items() if one.exact}
    return found if scenario.arrivals else dict.fromkeys(seeds, found[seeds[0]]) if found else {}


def _oracle(scenario: Scenario, best: BestDynamic) -> Oracle:
    splits = [stretch.split for stretch in best.stretches if stretch.end_s > scenario.settle_s]
    same = all(split == splits[0] for split in splits)
    return Oracle(best.sum_of_speedups, splits[0] if same else None)


def _show(found: Sequence[Outcomes], arguments: Arguments, draw: bool) -> None:
    content = document(found)
    if arguments.as_json:
        click.echo(_text(content), nl=False)
    else:
        console = _console()
        for outcomes in found:
            console.print(table(outcomes, console))
        if len(found) > 1:
            console.print(together_table(found))
    if arguments.output is None:
        return
    written = [arguments.output / "results.json"]
    try:
        written[0].write_text(_text(content), encoding="utf-8")
        if draw:
            from vscaf.simulate.report.picture_files import write_pictures  # noqa: PLC0415  (it imports matplotlib)

            for outcomes in found:
                written += write_pictures(outcomes, arguments.output)
    except OSError as error:
        raise VscafError(
            f"--output {arguments.output}: {error.strerror}: free space, or give another directory"
        ) from error
    for path in written:
        click.echo(f"wrote {path}", err=arguments.as_json)


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _console() -> Console:
    """Standard output. It is wide if there is no terminal width, so that figures are not broken into lines."""
    return Console() if sys.stdout.isatty() else Console(width=WIDE)


@contextmanager
def _progress(runs: int) -> "Iterator[Any]":
    """A progress bar on standard error, if that is a terminal. Yields a function that takes the runs done so far."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("runs", total=runs)

        def report_progress(done: float) -> None:
            bar.update(task, completed=done)

        yield report_progress
