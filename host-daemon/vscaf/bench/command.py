"""`vscaf bench`: only the command line; the work is in `pairs`, which is imported when the command runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from vscaf.bench.workloads.options import Sources, names, workload_options
from vscaf.errors import UsageError, VscafError
from vscaf.terminal import one_line

DEFAULT_ARRANGEMENTS = "unmanaged,static,max-speedup-fitted"


@click.group(short_help="Measure what vscaf is worth on this machine.")
def bench() -> None:
    """Measure what vscaf is worth on this machine: parallel programs in guests that share its CPUs.

    Each run is kept in OUTPUT/samples.jsonl as soon as it ends. An interrupted bench goes on from there.
    """


@bench.command(short_help="Pairs of programs, each in its own guest.")
@workload_options
@click.option("--pairs", "chosen", default="", callback=names, metavar="A+B,...", help="Pairs. Default: all.")
@click.option(
    "--arrangements",
    default=DEFAULT_ARRANGEMENTS,
    show_default=True,
    callback=names,
    help="Baselines (unmanaged, pinned, static, quota) and policies of vscaf.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Every run is made so often.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="How long the programs compute together.",
)
@click.option(
    "--delay",
    "delay_s",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Seconds after which the second program starts.",
)
@click.option("--quick", is_flag=True, help="One round of 3 seconds of two pairs: a preview, not a measurement.")
@click.option(
    "--image",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: os.environ.get("VSCAF_IMAGE", "build/image/current"),
    help="The guests' image. Default: VSCAF_IMAGE, else build/image/current.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/bench/pairs"),
    show_default=True,
    help="Directory for samples, report and logs.",
)
@click.option("--restart", is_flag=True, help="Begin again: samples of an interrupted bench are removed.")
def pairs(
    *,
    sources: Sources,
    chosen: tuple[str, ...],
    arrangements: tuple[str, ...],
    rounds: int,
    seconds: float,
    delay_s: float,
    quick: bool,
    image: Path,
    output: Path,
    restart: bool,
) -> None:
    """Run pairs of programs, each in its own guest, in each arrangement, after each program alone.

    Exit status: 0: done. 1: a verification failed, or a run could not be made. 2: an argument is wrong.
    """
    from vscaf.bench import pairs as measure  # noqa: PLC0415  (its imports are slow)

    try:
        sys.exit(
            measure.run(
                measure.Arguments(
                    sources=sources,
                    pairs=chosen,
                    arrangements=arrangements,
                    rounds=1 if quick else rounds,
                    seconds=3.0 if quick else seconds,
                    delay_s=delay_s,
                    quick=quick,
                    image=image,
                    output=output,
                    restart=restart,
                )
            )
        )
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except KeyboardInterrupt:
        click.echo(f"vscaf: interrupted: the same command goes on from {output}/samples.jsonl", err=True)
        sys.exit(130)


@bench.command(short_help="Write the report of a bench again.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def report(directory: Path) -> None:
    """Write the report of a bench again from DIRECTORY/samples.jsonl, and print it. The bench may still run.

    Exit status: 0: done. 1: a verification failed. 2: there are no samples.
    """
    from vscaf.bench.report.files import write_again  # noqa: PLC0415  (its imports are slow)

    try:
        sys.exit(write_again(directory))
    except VscafError as error:
        click.echo(f"vscaf: {one_line(error)}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
