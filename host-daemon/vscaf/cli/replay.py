"""`vscaf replay`: recorded decisions, made again."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vscaf.cli.completion import complete_policy
from vscaf.command_line import json_option, parse_options, progress
from vscaf.config import PolicyConfig
from vscaf.errors import UsageError
from vscaf.terminal import one_line, printable

if TYPE_CHECKING:
    from vscaf.record.lines import Line
    from vscaf.replay.again import Difference
    from vscaf.replay.comparison import Figures

WIDE = 200
"""Columns of a table if the output is not a terminal."""


@click.command(short_help="Make recorded decisions again, or by another policy.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="FILE...")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_policy,
    help="Compare with this policy: installed, FILE.py or MODULE, as for `vscaf simulate`. Can be given several times.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the policy, its value as TOML. With several policies: NAME.KEY=VALUE.",
)
@json_option
def replay(files: tuple[Path, ...], policies: tuple[str, ...], options: tuple[str, ...], as_json: bool) -> None:
    """Make the decisions in FILE... again. A directory stands for all recordings in it, the oldest first.

    Without --policy: check that the code decides as the daemon did. With --policy: what would it have decided?

    Exit status: 0: done, and without --policy every decision is as recorded. 1: a decision is not as recorded; the
    first one is shown. 2: a file, a policy or an option is wrong.

    \b
    Examples:
      vscaf replay /var/lib/vscaf/record
      vscaf replay /var/lib/vscaf/record --policy fair --option alpha=2
      vscaf replay FILE --policy equipartition --policy fair --option fair.alpha=2
    """
    from vscaf.replay.again import PolicyOf, first_difference  # noqa: PLC0415  (imports numpy)
    from vscaf.simulate.policies import find_policy  # noqa: PLC0415  (as above)

    paths = _paths(files)
    if policies:
        with progress("making the decisions again"):
            found = _compared(paths, policies, _options(policies, options))
        click.echo(json.dumps([asdict(one) for one in found], indent=2)) if as_json else _print_table(found)
        return
    if options:
        raise UsageError("--option: there is no --policy that it is for: give one")
    with progress("making the decisions again"):
        number, difference = first_difference(_lines(paths), PolicyOf(find_policy))
    if number == 0:
        raise UsageError("there is no decision in these files: record for longer")
    if as_json:
        click.echo(json.dumps({"decisions": number, "difference": _plain(difference)}, indent=2))
    else:
        click.echo(printable(_verdict(number, difference)))
    sys.exit(0 if difference is None else 1)


def _paths(files: Sequence[Path]) -> list[Path]:
    from vscaf.record.files import recorded_files  # noqa: PLC0415  (as above)

    return [path for one in files for path in (recorded_files(one) if one.is_dir() else [one])]


def _lines(paths: Sequence[Path], *, quiet: bool = False) -> Iterator["Line"]:
    """The lines of all files. Tells on standard error where a file is cut off, unless *quiet*."""
    from vscaf.record.files import Cut, read_lines  # noqa: PLC0415  (as above)

    for path in paths:
        for line in read_lines(path):
            if not isinstance(line, Cut):
                yield line
            elif not quiet:
                click.echo(f"vscaf: {one_line(line.message)}", err=True)


def _options(policies: Sequence[str], options: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The options of each policy."""
    given = parse_options(options)
    if len(policies) == 1:
        return {policies[0]: given}
    unknown = sorted(name for name in given if name not in policies or not isinstance(given[name], dict))
    if unknown:
        raise UsageError(f"--option {unknown[0]}: for which policy? Write NAME.KEY=VALUE: {policies[0]}.KEY=VALUE")
    return {name: given.get(name, {}) for name in policies}


def _compared(paths: Sequence[Path], policies: Sequence[str], options: dict[str, dict[str, Any]]) -> "list[Figures]":
    """The figures of the recording, then those of each policy."""
    from vscaf.replay.again import as_recorded, by_policy, refuse_bad_options  # noqa: PLC0415  (as above)
    from vscaf.replay.comparison import figures  # noqa: PLC0415  (as above)
    from vscaf.simulate.policies import find_policy  # noqa: PLC0415  (as above)

    chosen = [(find_policy(name), PolicyConfig(name=name, options=options[name])) for name in policies]
    for policy, config in chosen:
        refuse_bad_options(policy, config)
    found = [figures("as recorded", as_recorded(_lines(paths)))]
    if not found[0].decisions:
        raise UsageError("there is no decision in these files: record for longer")
    for policy, config in chosen:
        found.append(figures(config.name, by_policy(_lines(paths, quiet=True), policy, config)))
    return found


def _verdict(number: int, difference: "Difference | None") -> str:
    if difference is None:
        return f"{number} decisions: all as recorded"
    return (
        f"decision {number}, at {difference.time}, is not as recorded: {difference.what} was "
        f"{difference.recorded}, and is now {difference.now}"
    )


def _plain(difference: "Difference | None") -> Any:
    if difference is None:
        return None
    plain = asdict(difference)
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in plain.items()}


def _print_table(found: "Sequence[Figures]") -> None:
    names = sorted({name for one in found for name in one.pcpus})
    first = found[0]
    rows = Table(title=f"{first.decisions} decisions, {first.seconds:.0f} s", title_justify="left")
    rows.add_column("policy")
    for name in names:
        rows.add_column(Text(printable(name)), justify="right")
    for column in ("sum of speedups", "changes", "changed nothing", "failed"):
        rows.add_column(column, justify="right")
    for one in found:
        rows.add_row(
            Text(printable(one.policy)),
            *(f"{one.pcpus[name]:.2f}" if name in one.pcpus else "-" for name in names),
            "-" if one.sum_of_speedups is None else f"{one.sum_of_speedups:.2f}",
            str(one.changes),
            f"{one.unmanaged:.0%}" if one.unmanaged else "",
            str(one.failed) if one.failed else "",
        )
    console = Console()
    Console(width=None if console.is_terminal else WIDE).print(rows)
