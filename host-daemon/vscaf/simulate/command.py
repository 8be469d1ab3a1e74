"""`vscaf simulate`: only the command line; the work is in `session`, which is imported when the command runs."""

import sys
from pathlib import Path

import click

from vscaf.errors import UsageError
from vscaf.simulate.policies import DEFAULT_POLICIES


@click.command(short_help="Try policies on simulated guests.")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="A,B,...",
    help="Policies to try: installed names, or your own as FILE.py or MODULE, with :FUNCTION if it has several. "
    f"Default: those of {', '.join(DEFAULT_POLICIES)} that are installed.",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Runs at the same time. Default: one per CPU.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The first seed. Default: the scenario's own.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, metavar="K", help="Try K seeds, one after the other.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Write results.json and the pictures there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of the tables.")
@click.option("--pictures/--no-pictures", default=None, help="Draw pictures into --output. Default: if that is given.")
@click.option("--list", "listing", is_flag=True, help="List the scenarios that come with vscaf, and exit.")
def simulate(
    *,
    files: tuple[str, ...],
    policies: tuple[str, ...],
    jobs: int | None,
    seed: int | None,
    seeds: int,
    output: Path | None,
    as_json: bool,
    pictures: bool | None,
    listing: bool,
) -> None:
    """Try policies on simulated guests, with the daemon's own loop, in simulated time.

    FILE is a scenario (TOML), or the name of one that comes with vscaf (`--list`). Each scenario runs under each policy
    and with each seed. The same files, policies and seeds give the same figures, whatever --jobs is.

    Exit status: 0: done. 1: a run failed or broke a law. 2: an argument or a file is wrong, and nothing was run.
    130: interrupted, and nothing was written.

    \b
    Examples:
      vscaf simulate cg-lu
      vscaf simulate cg-lu mine.toml --policy fair,mine.py:my_policy --seeds 5
    """
    from vscaf.simulate import session  # noqa: PLC0415  (its imports are slow)

    try:
        if listing:
            session.list_scenarios(as_json)
            return
        if pictures and output is None:
            raise UsageError("--pictures needs a directory to write to: add --output DIRECTORY")
        if not files:
            raise UsageError("no scenario: give files, or names that `vscaf simulate --list` shows")
        arguments = session.Arguments(
            files=tuple(dict.fromkeys(files)),
            policies=tuple(
                dict.fromkeys(name.strip() for some in policies for name in some.split(",") if name.strip())
            ),
            processes=jobs,
            seed=seed,
            seeds=seeds,
            output=output,
            as_json=as_json,
            pictures=pictures,
        )
        sys.exit(session.run(arguments))
    except KeyboardInterrupt:
        click.echo("vscaf: interrupted: no results were written", err=True)
        sys.exit(130)
