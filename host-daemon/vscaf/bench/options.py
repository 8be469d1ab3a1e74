"""The options that say how and where a bench runs. Only the command line: `measure` makes the runs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from vscaf.bench.places.options import MEMORY_MIB, MOST_CPUS, PlaceOptions
from vscaf.bench.workloads.options import names
from vscaf.command_line import config_option, libvirt_uri
from vscaf.errors import UsageError
from vscaf.terminal import one_line

QUICK_SECONDS = 3.0

image_option = click.option(
    "--image",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: os.environ.get("VSCAF_IMAGE", "build/image/current"),
    metavar="DIR",
    help="The guests' image. Default: VSCAF_IMAGE, else build/image/current.",
)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a bench runs, as its options say it. arrangements: empty for the command's default."""

    arrangements: tuple[str, ...]
    rounds: int
    seconds: float
    delay_s: float
    quick: bool
    place: PlaceOptions
    image: Path
    output: Path
    restart: bool


def _ssh(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    targets = {}
    for text in texts:
        domain, equals, target = text.partition("=")
        if not (domain and equals and target):
            raise click.BadParameter(f"{text}: write it as DOMAIN=USER@HOST")
        targets[domain] = target
    return targets


def _uri(uri: str | None, config: Path, existing: tuple[str, ...]) -> str:
    """The libvirt of existing guests. Without such guests, the configuration is not read."""
    if not existing:
        return uri or PlaceOptions().uri
    try:
        return libvirt_uri(uri, config)
    except UsageError as error:
        raise click.UsageError(one_line(error)) from error


def run_options(
    name: str, arrangements: str, *, timed: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: adds the options; the command gets them as one argument, `options`.

    name: of the command, for its default output directory. arrangements: what its help says of their default. timed:
    whether the user says when programs start and how long they run.
    """
    times = [
        click.option(
            "--seconds",
            type=click.FloatRange(min=0.1),
            default=10.0,
            show_default=True,
            metavar="S",
            help="Length of a run.",
        ),
        click.option(
            "--delay",
            "delay_s",
            type=click.FloatRange(min=0),
            default=0.0,
            show_default=True,
            metavar="S",
            help="Others start S later.",
        ),
    ]
    quick = f"A preview: 1 round{f' of {QUICK_SECONDS:g} s' if timed else ''}, two groups at most."
    decorators = [
        click.option(
            "--arrangements",
            default="",
            show_default=arrangements,
            callback=names,
            metavar="A,B,...",
            help="passive, static, unmanaged, pinned, quota, steal-governor, or policies.",
        ),
        click.option(
            "--rounds",
            type=click.IntRange(min=1),
            default=5,
            show_default=True,
            metavar="N",
            help="How often each run is made.",
        ),
        *(times if timed else ()),
        click.option("--quick", is_flag=True, help=quick),
        click.option(
            "--cpus",
            type=click.IntRange(min=2),
            metavar="N",
            help=f"CPUs to share. Default: all, at most {MOST_CPUS}.",
        ),
        click.option("--no-vm", is_flag=True, help="No guests: plain processes. Only quota needs root."),
        click.option(
            "--existing",
            default="",
            callback=names,
            metavar="DOMAIN,...",
            help="Your own guests. What is changed is put back.",
        ),
        config_option("With --existing: for --uri."),
        click.option("--uri", metavar="URI", help="Their libvirt. Default: the configuration's."),
        click.option(
            "--ssh",
            multiple=True,
            callback=_ssh,
            metavar="DOMAIN=USER@HOST",
            help="Reach one by SSH, not by its QEMU guest agent.",
        ),
        click.option(
            "--pool",
            metavar="CPUS",
            help="Their pCPUs. Default: where their vCPUs may run.",
        ),
        click.option(
            "--memory",
            "memory_mib",
            type=click.IntRange(min=128),
            default=MEMORY_MIB,
            show_default=True,
            metavar="MIB",
            help="Memory of a lab's guest.",
        ),
        image_option,
        click.option(
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help=f"For the results. Default: build/bench/{name}[-quick].",
        ),
        click.option("--restart", is_flag=True, help="Begin again: remove an interrupted bench's samples."),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_options(
            *,
            arrangements: tuple[str, ...],
            rounds: int,
            quick: bool,
            cpus: int | None,
            no_vm: bool,
            existing: tuple[str, ...],
            config: Path,
            uri: str | None,
            ssh: dict[str, str],
            pool: str | None,
            memory_mib: int,
            image: Path,
            output: Path | None,
            restart: bool,
            seconds: float = QUICK_SECONDS,
            delay_s: float = 0.0,
            **others: object,
        ) -> None:
            options = RunOptions(
                arrangements=arrangements,
                rounds=1 if quick else rounds,
                seconds=QUICK_SECONDS if quick else seconds,
                delay_s=delay_s,
                quick=quick,
                place=PlaceOptions(no_vm, existing, _uri(uri, config, existing), ssh, pool, memory_mib, cpus),
                image=image,
                output=output or Path("build/bench") / (f"{name}-quick" if quick else name),
                restart=restart,
            )
            command(options=options, **others)

        decorated: Callable[..., None] = with_options
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        return decorated

    return decorate
