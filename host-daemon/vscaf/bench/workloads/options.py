"""The options that say what a bench runs. Only the command line: `gather` makes workloads of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

DEFAULT_SHIPPED = "cg.W,mg.W,ep.S,lu.S"
CLASSES = ("S", "W", "A", "B", "C", "D", "E", "F")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the workloads come from, as the options give it. Empty: the shipped ones of DEFAULT_SHIPPED."""

    shipped: tuple[str, ...] = ()
    npb_source: Path | None = None
    npb_class: str | None = None
    directory: Path | None = None
    commands: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()


def names(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """The callback of an option that takes names, separated by commas."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def workload_options(default: str = DEFAULT_SHIPPED) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: adds the options; the command gets them as one argument, `sources`. default: what the help says of
    the workloads that are run if none are named."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--shipped",
            default="",
            callback=names,
            metavar="NAMES",
            help=f"Shipped ones. If none is named: {default}.",
        )
        @click.option(
            "--npb-source",
            type=click.Path(path_type=Path, exists=True),
            metavar="FILE|DIR",
            help="NPB 3.x, an archive or a directory, to build.",
        )
        @click.option(
            "--class",
            "npb_class",
            type=click.Choice(CLASSES),
            metavar="CLASS",
            help="Of --npb-source: S, W, A to F. Default: W.",
        )
        @click.option(
            "--workloads",
            "directory",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Built NPB programs, with NPB's names: cg.A.x.",
        )
        @click.option(
            "--command",
            "commands",
            multiple=True,
            metavar="NAME=COMMAND",
            help="A shell command; status 0 is right. Repeatable.",
        )
        @click.option(
            "--progress",
            multiple=True,
            metavar="NAME=REGEX",
            help="Work done: group 1 of REGEX in its output.",
        )
        @functools.wraps(command)
        def with_sources(
            *,
            shipped: tuple[str, ...],
            npb_source: Path | None,
            npb_class: str | None,
            directory: Path | None,
            commands: tuple[str, ...],
            progress: tuple[str, ...],
            **others: object,
        ) -> None:
            command(sources=Sources(shipped, npb_source, npb_class, directory, commands, progress), **others)

        return with_sources

    return decorate
