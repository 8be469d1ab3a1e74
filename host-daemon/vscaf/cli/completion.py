"""`vscaf completion`, and the names that the shells complete."""

import asyncio

import click
from click.shell_completion import get_completion_class
from vscaf_policies.registry import policy_names

from vscaf.command_line import find_socket
from vscaf.config import DEFAULT_CONFIG
from vscaf.control.client import get_status
from vscaf.errors import VscafError

SHELLS = ("bash", "zsh", "fish")
ANSWER_S = 1.0  # a shell waits for this answer


@click.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, policies and domains in SHELL. Packages install it.

    \b
    Examples:
      vscaf completion bash >/usr/share/bash-completion/completions/vscaf
      vscaf completion zsh >"${fpath[1]}/_vscaf"
      vscaf completion fish >~/.config/fish/completions/vscaf.fish
    """
    known = get_completion_class(shell)
    assert known is not None  # click has all of SHELLS
    click.echo(known(click.get_current_context().find_root().command, {}, "vscaf", "_VSCAF_COMPLETE").source())


def complete_policy(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The installed policies."""
    return [name for name in policy_names() if name.startswith(incomplete)]


def complete_domain(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The domains that the daemon knows. None if it does not answer."""
    given = context.params
    try:
        with context.scope(cleanup=False):
            path = find_socket(given.get("socket"), given.get("config") or DEFAULT_CONFIG)
        state = asyncio.run(get_status(path, ANSWER_S))
    except VscafError:
        return []
    return [domain["name"] for domain in state["domains"] if domain["name"].startswith(incomplete)]
