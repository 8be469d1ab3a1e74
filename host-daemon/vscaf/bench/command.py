"""`vscaf bench`: only the command lines; the work is in `measure`, which is imported when a command runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from vscaf.bench.options import RunOptions, image_option, run_options
from vscaf.bench.workloads.options import Sources, names, workload_options

WITH_STATIC = "passive,static,unmanaged,max-speedup-fitted"
WITHOUT_STATIC = "passive,unmanaged,max-speedup-fitted"


@click.group(short_help="Measure what vscaf is worth on this machine.")
def bench() -> None:
    """Measure what vscaf is worth on this machine: parallel programs in guests that share its CPUs.

    Each run is kept in OUTPUT/samples.jsonl as soon as it ends. An interrupted bench goes on from there.

    Exit status of all commands: 0: done. 1: a verification failed, or a run could not be made. 2: an argument is wrong.
    130: interrupted. 143, 129: ended by SIGTERM or SIGHUP, like an interruption.

    \b
    Example:
      vscaf bench pairs --quick
    """


@bench.command(short_help="Pairs of programs, each in its own guest.")
@workload_options()
@click.option("--pairs", "chosen", default="", callback=names, metavar="A+B,...", help="Pairs. Default: all.")
@run_options("pairs", WITH_STATIC)
def pairs(sources: Sources, chosen: tuple[str, ...], options: RunOptions) -> None:
    """Run pairs of programs, each in its own guest, in each arrangement, after each program alone.

    \b
    Examples:
      vscaf bench pairs --quick
      vscaf bench pairs --existing a,b --pairs cg.W+ep.S
    """
    _together(sources, chosen, 2, options)


@bench.command(short_help="Three programs at once, each in its own guest.")
@workload_options()
@click.option("--groups", "chosen", default="", callback=names, metavar="A+B+C,...", help="Groups. Default: all.")
@run_options("triple", WITH_STATIC)
def triple(sources: Sources, chosen: tuple[str, ...], options: RunOptions) -> None:
    """Run three programs at once, each in its own guest.

    \b
    Example:
      vscaf bench triple --shipped cg.W,ep.S,lu.S --rounds 3
    """
    _together(sources, chosen, 3, options)


@bench.command(short_help="Pairs under all splits of the CPUs.")
@workload_options()
@click.option("--pairs", "chosen", default="", callback=names, metavar="A+B,...", help="Pairs. Default: all.")
@run_options("oracle", WITH_STATIC)
def oracle(sources: Sources, chosen: tuple[str, ...], options: RunOptions) -> None:
    """Run pairs under every split of the CPUs by hand, and under vscaf: how far is vscaf from the best split?

    \b
    Example:
      vscaf bench oracle --pairs cg.W+lu.S
    """
    _together(sources, chosen, 2, options, every_split=True)


@bench.command(short_help="Each program alone, with and without vscaf.")
@workload_options()
@run_options("overhead", WITHOUT_STATIC)
def overhead(sources: Sources, options: RunOptions) -> None:
    """Run each program alone in a guest, plain and under vscaf: what does vscaf cost where it cannot help?

    \b
    Example:
      vscaf bench overhead --shipped cg.W --rounds 10
    """
    from vscaf.bench import designs, measure  # noqa: PLC0415  (their imports are slow)

    _exit_with(lambda: measure.run(designs.alone(no_vm=options.place.no_vm), sources, options), options.output)


@bench.command("coming-going", short_help="Programs that come and go beside a large one.")
@workload_options("those of L, M and S")
@click.option("--large", default="uts-geometric.A", show_default=True, metavar="NAME", help="The large one, L.")
@click.option("--medium", default="uts-geometric.W", show_default=True, metavar="NAME", help="The medium one, M.")
@click.option("--small", default="uts-geometric.S", show_default=True, metavar="NAME", help="The small one, S.")
@click.option(
    "--scale",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="X",
    help="Start at 0, 3, 5, 7 s times X.",
)
@run_options("coming-going", WITHOUT_STATIC, timed=False)
def coming_going(*, sources: Sources, large: str, medium: str, small: str, scale: float, options: RunOptions) -> None:
    """Run a large program in a guest, to which others come: LM, LSSS, LMMM and LLLL (Thatcher 2016, section 5.8).
    Each program is executed once. The figure is the time until all have ended.

    \b
    Example:
      vscaf bench coming-going --scale 2
    """
    from vscaf.bench import designs, measure  # noqa: PLC0415  (their imports are slow)

    sizes = {"L": large, "M": medium, "S": small}
    if sources == Sources():
        sources = Sources(shipped=tuple(dict.fromkeys(sizes.values())))
    design = designs.coming_going(sizes, scale, no_vm=options.place.no_vm)
    _exit_with(lambda: measure.run(design, sources, options), options.output)


@bench.command(short_help="What a barrier costs in guests that share CPUs.")
@click.option(
    "--guests",
    type=click.IntRange(min=1, max=4),
    default=2,
    show_default=True,
    metavar="N",
    help="With 1, 2, ... N guests at once.",
)
@run_options("barrier", WITH_STATIC)
def barrier(guests: int, options: RunOptions) -> None:
    """Run a loop of OpenMP barriers in several guests at once: nanoseconds a barrier.

    \b
    Example:
      vscaf bench barrier --guests 3
    """
    from vscaf.bench import designs, measure  # noqa: PLC0415  (their imports are slow)

    design = designs.barriers("barrier.S", guests, no_vm=options.place.no_vm)
    _exit_with(lambda: measure.run(design, Sources(shipped=("barrier.S",)), options), options.output)


@bench.command(short_help="Write the report of a bench again.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def report(directory: Path) -> None:
    """Write the report of a bench again from DIRECTORY/samples.jsonl, and print it. The bench may still run.

    \b
    Example:
      vscaf bench report build/bench/pairs
    """
    from vscaf.bench.report.files import write_again  # noqa: PLC0415  (its imports are slow)

    _exit_with(lambda: write_again(directory), directory)


@bench.command(short_help="What only a host with KVM can show.")
@click.option(
    "--parts",
    default="",
    callback=names,
    metavar="NAME,...",
    help="Of unplug, counters, siblings, splits. Default: all.",
)
@image_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/bench/accept"),
    show_default=True,
    help="Directory for vscaf-accept.tar.gz, accept.json and vscaf-accept-logs.",
)
def accept(*, parts: tuple[str, ...], image: Path, output: Path) -> None:
    """Check on this host what needs KVM, in 15 minutes: unplugging vCPUs, a virtual PMU, SMT siblings, unequal splits.

    Each part says passed, failed, or not possible here and why. OUTPUT/vscaf-accept.tar.gz is the file to send back.
    Status 1 also says that a part failed.

    \b
    Example:
      vscaf bench accept --parts unplug,counters
    """
    from vscaf.bench.accept import acceptance  # noqa: PLC0415  (its imports are slow)

    line = f"vscaf bench accept --parts {','.join(parts) or 'all'} --image {image} --output {output}"
    _exit_with(lambda: acceptance.run(acceptance.Arguments(parts, image, output, line)), None)


def _together(
    sources: Sources, chosen: tuple[str, ...], size: int, options: RunOptions, *, every_split: bool = False
) -> None:
    from vscaf.bench import designs, measure  # noqa: PLC0415  (their imports are slow)

    design = designs.together(chosen, size, no_vm=options.place.no_vm, every_split=every_split)
    _exit_with(lambda: measure.run(design, sources, options), options.output)


def _exit_with(run: Callable[[], int], output: Path | None) -> None:
    """Ends the command with the status that *run* returns.

    output: the directory with samples from which the same command goes on; None: it has none.
    """
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        goes_on = (
            f": the same command, without --restart, goes on from {output}/samples.jsonl" if output is not None else ""
        )
        click.echo(f"vscaf: interrupted{goes_on}", err=True)
        sys.exit(130)
