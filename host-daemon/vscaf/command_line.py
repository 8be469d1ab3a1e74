"""What commands share: the option --config, options of policies, and a sign of life while a command waits."""

import functools
import json
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from vscaf.config import DEFAULT_CONFIG, Config, load_config
from vscaf.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])

PROGRESS_AFTER_S = 2.0

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def config_option(help_text: str) -> Callable[[Function], Function]:
    """The option --config, which VSCAF_CONFIG sets too."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=DEFAULT_CONFIG,
        show_default=True,
        envvar="VSCAF_CONFIG",
        show_envvar=True,
        help=help_text,
    )


def config_was_asked_for() -> bool:
    """Whether --config or VSCAF_CONFIG of the present command names the configuration, and not the default."""
    return click.get_current_context().get_parameter_source("config") is not ParameterSource.DEFAULT


def config_or_default(config: Path) -> Config:
    """The configuration. The built-in values if it is the default file and cannot be used.

    UsageError if it was asked for and cannot be used.
    """
    try:
        return load_config(config)
    except UsageError:
        if config_was_asked_for():
            raise
        return Config(pool="0")


def libvirt_uri(uri: str | None, config: Path) -> str:
    """*uri*, else that of config_or_default."""
    return uri if uri is not None else config_or_default(config).uri


def find_socket(socket: Path | None, config: Path) -> Path:
    """*socket*, else the control socket of config_or_default."""
    return socket if socket is not None else Path(config_or_default(config).control_socket)


def policy_options(function: Function) -> Function:
    """Adds --option KEY=VALUE. The command gets the texts as `options`. --param is its deprecated name."""

    @click.option(
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of the policy, its value as TOML: 3, 0.5, true, '\"text\"', '{a = 2}'. KEY may be dotted.",
    )
    @click.option("--param", "params", multiple=True, metavar="KEY=VALUE", hidden=True)
    @functools.wraps(function)
    def with_options(*, options: tuple[str, ...], params: tuple[str, ...], **others: Any) -> Any:
        if params:
            click.echo("vscaf: warning: --param is deprecated: write --option", err=True)
        return function(options=(*params, *options), **others)

    return with_options  # type: ignore[return-value]  # it takes what the function takes, by name


def parse_options(options: tuple[str, ...]) -> dict[str, Any]:
    """Options from KEY=VALUE texts, with VALUE in TOML. UsageError with the text that is wrong."""
    for option in options:
        hint = f"--option {option}: write KEY=VALUE with a TOML value, text in quotes: --option 'favourite=\"cfd\"'"
        if "\n" in option or "\r" in option:
            raise UsageError(" ".join(hint.split()))
        try:
            parsed = tomllib.loads(option)
            json.dumps(parsed, allow_nan=False)
        except (tomllib.TOMLDecodeError, TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"{hint} ({error})") from error
        if not parsed or option.lstrip().startswith("["):
            raise UsageError(hint)
    try:
        return tomllib.loads("\n".join(options))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--option: {error}: give each key once, and no key below another's value") from error


@contextmanager
def progress(doing: str, console: Console | None = None, after_s: float = PROGRESS_AFTER_S) -> Iterator[None]:
    """Says on standard error what is done if it takes longer than after_s seconds, and stderr is a terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(Text(f"{doing} ..."))
    timer = threading.Timer(after_s, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # else it could start the status after it was stopped
        status.stop()
