"""The results of a scenario as a table with a row for each policy."""

from collections.abc import Mapping, Sequence

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from vscaf.simulate.report.document import Outcomes, every_ratio
from vscaf.simulate.report.summary import Oracle, Spread, Summary, has_end, quantile, short_names, summaries, together
from vscaf.terminal import printable

FEW_GUESTS = 6
"""Up to this many guests have a column each; for more, the table has quantiles."""

FEW_VIOLATIONS = 3
"""At most this many violations of a run are shown."""

WIDEST = 1000
"""A terminal with this many columns is wide enough for any table."""

QUANTILES = {"min": 0.0, "10%": 0.1, "median": 0.5, "90%": 0.9, "max": 1.0}


def table(outcomes: Outcomes, console: Console) -> Group:
    """The table of one scenario, and lines below it with violations and failed runs.

    If a row for each policy is too wide for *console*, the table has a column for each policy.
    """
    scenario, runs = outcomes.scenario, outcomes.runs
    parts: list[Table | Text] = []
    found = summaries(scenario, runs, outcomes.oracles)
    if found:
        title, columns, rows = _cells(outcomes, found)
        upright = _table(title, columns, rows)
        wide = console.measure(upright, options=console.options.update(width=WIDEST)).maximum
        parts.append(upright if wide <= console.width else _table(title, *_turned(columns, rows)))
    if outcomes.oracles:
        parts.append(Text(printable(_oracle(next(iter(outcomes.oracles.values()))))))
    for run in runs:
        run_name, hidden = f"{run.policy}, seed {run.seed}", len(run.violations) - FEW_VIOLATIONS
        for violation in run.violations[:FEW_VIOLATIONS]:
            parts.append(Text(printable(f"violation: {run_name}: {violation}"), style="bold red"))
        if hidden > 0:
            parts.append(Text(printable(f"violation: {run_name}: {hidden} more: see --json"), style="bold red"))
    for failure in outcomes.failures:
        parts.append(Text(printable(f"failed: {failure.policy}, seed {failure.seed}: {failure.why}"), style="bold red"))
    if not parts:
        parts.append(Text(printable(f"{scenario.name}: no run")))
    return Group(*parts)


def together_table(found: Sequence[Outcomes]) -> Table:
    """The table of several scenarios together, with a row for all runs of a policy."""
    policies = together(every_ratio(found))
    short = short_names(one.policy for one in policies)
    columns = ["policy", "runs", "wins", "even", "losses", "/ equal, mean", "/ oracle, mean", "/ oracle, least"]
    rows = [
        [
            short[one.policy],
            *(str(count) for count in (one.runs, one.wins, one.even, one.losses)),
            *(
                "-" if ratio is None else f"{ratio:.3f}"
                for ratio in (one.to_equipartition, one.to_oracle, one.least_to_oracle)
            ),
        ]
        for one in policies
    ]
    return _table(f"{len(found)} scenarios together", columns, rows)


def _oracle(oracle: Oracle) -> str:
    text = f"oracle: {oracle.sum_of_speedups:.2f} with the best split "
    if oracle.split is None:
        return text + "at every instant"
    shown = ": " + ", ".join(f"{name} {cpus}" for name, cpus in oracle.split.items())
    return text + "all the time" + (shown if len(oracle.split) <= FEW_GUESTS else "")


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    shown = Table(title=Text(printable(title)), title_justify="left")
    shown.add_column(Text(printable(columns[0])), no_wrap=True)
    for column in columns[1:]:
        shown.add_column(Text(printable(column)), justify="right")
    for row in rows:
        shown.add_row(*(Text(_printable_lines(cell)) for cell in row))
    return shown


def _turned(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Rows as columns."""
    first, *others = zip(columns, *rows, strict=True)
    return list(first), [list(row) for row in others]


def _cells(one: Outcomes, found: list[Summary]) -> tuple[str, list[str], list[list[str]]]:
    """The title, the columns, and one row for each policy."""
    scenario = one.scenario
    seeds = max(summary.runs for summary in found)
    title = f"{scenario.name}: {scenario.host.pcpus} pCPUs, {scenario.seconds:g} s"
    if seeds > 1:
        title += f", {seeds} seeds: median (least to most)"
    names = list(dict.fromkeys(name for summary in found for name in summary.guests))
    few = len(names) <= FEW_GUESTS
    columns = ["policy", "sum of speedups", *(names if few else [f"S {name}" for name in QUANTILES])]
    ends = has_end(scenario)
    columns += ["finished s"] if ends else []
    columns += ["/ equal", "/ oracle", "periods", "transitions", "moved", "explored", "wall s"]
    short = short_names(summary.policy for summary in found)
    rows = [
        [
            short[summary.policy],
            _shown(summary.sum_of_speedups, ".2f"),
            *(_guests(summary.guests, names) if few else _quantiles(summary.guests)),
            *([_shown(summary.finished_s, ".1f")] if ends else []),
            _shown(summary.to_equipartition, ".3f"),
            _shown(summary.to_oracle, ".3f"),
            _periods(summary),
            _shown(summary.transitions, ".0f"),
            _shown(summary.moved_cpus, ".0f"),
            _shown(summary.exploration_cost, ".2%"),
            _shown(summary.wall_s, ".1f"),
        ]
        for summary in found
    ]
    return title, columns, rows


def _guests(guests: Mapping[str, Spread], names: list[str]) -> list[str]:
    return [_shown(guests.get(name), ".2f") for name in names]


def _quantiles(guests: Mapping[str, Spread]) -> list[str]:
    speedups = [guest.middle for guest in guests.values()]
    return [f"{quantile(speedups, share):.2f}" for share in QUANTILES.values()]


def _periods(summary: Summary) -> str:
    if summary.unsettled == 0:
        return _shown(summary.converged_periods, ".0f")
    if summary.unsettled == summary.runs:
        return "never"
    return f"{_shown(summary.converged_periods, '.0f')}, {summary.unsettled} never"


def _printable_lines(text: str) -> str:
    """Each line of *text*, printable."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _shown(value: Spread | None, form: str) -> str:
    if value is None:
        return "-"
    middle, low, high = (format(one, form) for one in (value.middle, value.low, value.high))
    return middle if low == high else f"{middle}\n({low} to {high})"
