"""Commands that send requests to a running daemon. `release` and `off` also work without a daemon."""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text
from vscaf_policies import PolicyError
from vscaf_policies.registry import load_policy, policy_names

from vscaf.cli.completion import complete_domain, complete_policy
from vscaf.cli.lazy_group import LazyGroup
from vscaf.cli.status_table import table
from vscaf.command_line import (
    config_option,
    find_socket,
    json_option,
    parse_options,
    policy_options,
    progress,
)
from vscaf.config import Config, load_config
from vscaf.control.client import NoDaemon, follow, get, get_status, post
from vscaf.errors import UsageError, VscafError
from vscaf.terminal import printable
from vscaf.values import LEFT_ALONE, State

Answer = TypeVar("Answer")
Function = TypeVar("Function", bound=Callable[..., Any])


def with_daemon(function: Function) -> Function:
    """Adds the options that say which daemon is meant."""
    function = config_option("The daemon's configuration: where its socket and its journal are.")(function)
    return click.option(
        "--socket",
        type=click.Path(path_type=Path),
        envvar="VSCAF_SOCKET",
        show_envvar=True,
        help="The daemon's control socket; else the one in its configuration.",
    )(function)


def run(work: Callable[[], Coroutine[Any, Any, Answer]], doing: str = "waiting for the daemon") -> Answer:
    """The result of *work*. doing: shown if it takes long; empty: nothing is shown."""
    with progress(doing) if doing else nullcontext():
        return asyncio.run(work())


@click.command(short_help="Show the partition, demand and programs of each domain.")
@with_daemon
@click.option("--json", "as_json", is_flag=True, help="Print everything, as JSON.")
def status(socket: Path | None, config: Path, as_json: bool) -> None:
    """Show the partition, demand and programs of each domain.

    \b
    Examples:
      vscaf status
      vscaf status --json | jq '.domains[] | {name, allocation, speedup}'
    """

    async def work() -> Any:
        return await get_status(find_socket(socket, config))

    state = run(work)
    if as_json:
        click.echo(json.dumps(state, indent=2))
    else:
        Console().print(table(state))


@click.command(short_help="Show what the daemon did, and why.")
@with_daemon
@click.option("--follow", "-f", "following", is_flag=True, help="Also print each new event, until the daemon ends.")
@click.option("--since", type=click.IntRange(min=0), default=0, help="Only events after this number.", metavar="NUMBER")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one event a line.")
def events(socket: Path | None, config: Path, following: bool, since: int, as_json: bool) -> None:
    """Show what the daemon did, and why: the newest thousand events, oldest first.

    Numbers start at 1 with each daemon. An event "lost" replaces events that are no longer kept.

    \b
    Examples:
      vscaf events --follow
      vscaf events --json | jq 'select(.kind == "allocation")'
    """

    def show(event: Mapping[str, Any]) -> None:
        click.echo(json.dumps(event) if as_json else event_line(event))

    async def show_each() -> None:
        async for event in follow(find_socket(socket, config), since):
            show(event)

    async def kept() -> Any:
        return await get(find_socket(socket, config), f"/v1/events?since={since}")

    if not following:
        for event in run(kept):
            show(event)
        return
    try:
        run(show_each, doing="")
    except KeyboardInterrupt:
        sys.exit(0)  # the usual way to end --follow


def event_line(event: Mapping[str, Any]) -> str:
    """An event as a line for people."""
    columns = [str(event["number"]), event["time"], event["kind"]]
    if event["domain"] is not None:
        columns.append(event["domain"])
    if event["from"] is not None or event["to"] is not None:
        columns.append(" -> ".join("-" if one in (None, "") else str(one) for one in (event["from"], event["to"])))
    columns += [f"{key}={value}" for key, value in event["fields"].items()]
    line = " ".join(columns) + (f": {event['why']}" if event["why"] else "")
    return printable(line)


@click.group(cls=LazyGroup, commands_at={"check": "vscaf.cli.policy_check:check"})
def policy() -> None:
    """Show and set the policy, which allots CPUs to the domains.

    \b
    Example:
      vscaf policy set fair
    """


@policy.command("list")
@with_daemon
@json_option
def policy_list(socket: Path | None, config: Path, as_json: bool) -> None:
    """List the installed policies. If a daemon runs, a star marks the one in use.

    \b
    Example:
      vscaf policy list
    """

    async def work() -> tuple[list[str], str | None]:
        try:
            policies = await get(find_socket(socket, config), "/v1/policies")
        except NoDaemon:
            return list(policy_names()), None
        return policies["installed"], policies["current"]["name"]

    names, current = run(work)
    if as_json:
        listed = [{"name": name, "in_use": name == current, "summary": _summary(name)} for name in names]
        click.echo(json.dumps(listed, indent=2))
        return
    rows = Table(box=None, show_header=False)
    for name in names:
        rows.add_row("*" if name == current else "", Text(name), Text(_summary(name)))
    Console().print(rows)


def _summary(name: str) -> str:
    """The first line of a policy's docstring."""
    try:
        return (load_policy(name).__doc__ or "").strip().split("\n")[0]
    except PolicyError as error:
        return str(error)


@policy.command("show", short_help="Show the policy in use and its options.")
@with_daemon
@json_option
def policy_show(socket: Path | None, config: Path, as_json: bool) -> None:
    """Show the policy in use, its options, and which one a rollback would bring back.

    \b
    Example:
      vscaf policy show
    """

    async def work() -> Any:
        return await get(find_socket(socket, config), "/v1/policies")

    policies = run(work)
    if as_json:
        click.echo(json.dumps(policies, indent=2))
        return
    click.echo(_choice(policies["current"]["name"], policies["current"]["options"]))
    if policies["previous"] is not None:
        click.echo(f"before it: {policies['previous']} (`vscaf policy rollback`)")


def _choice(name: str, options: Mapping[str, Any]) -> str:
    return "\n".join([f"policy {name}", *(f"  {key} = {json.dumps(value)}" for key, value in options.items())])


@policy.command("set", short_help="Use another policy from now on.")
@click.argument("name", shell_complete=complete_policy)
@policy_options
@with_daemon
@json_option
def policy_set(*, name: str, options: tuple[str, ...], socket: Path | None, config: Path, as_json: bool) -> None:
    """Use the policy NAME from now on, with the given options and no others.

    The daemon checks the policy first. If it is refused, the present policy stays in use. The new policy stays in use
    until the daemon ends, or until `vscaf reload` reads another policy from the configuration file. That file is not
    changed, and the next daemon starts with it.

    \b
    Example:
      vscaf policy set static --option allocations.a=2 --option allocations.b=4
    """

    async def work() -> Any:
        return await post(find_socket(socket, config), "/v1/policy", {"name": name, "options": parse_options(options)})

    chosen = run(work)
    if as_json:
        click.echo(json.dumps(chosen, indent=2))
        return
    click.echo(_choice(chosen["name"], chosen["options"]))
    click.echo("in use until the daemon ends; `vscaf policy rollback` brings back the one before")


@policy.command("rollback", short_help="Go back to the policy before.")
@with_daemon
@json_option
def policy_rollback(socket: Path | None, config: Path, as_json: bool) -> None:
    """Go back to the policy before the last one that was set.

    \b
    Example:
      vscaf policy rollback
    """

    async def work() -> Any:
        return await post(find_socket(socket, config), "/v1/policy/rollback")

    answer = run(work)
    click.echo(json.dumps(answer, indent=2) if as_json else f"policy {answer['name']} is in use again")


@click.command(short_help="Make the daemon use its changed configuration.")
@with_daemon
@json_option
def reload(socket: Path | None, config: Path, as_json: bool) -> None:
    """Make the daemon read its configuration file again and use it, without giving back what it still manages.

    The daemon reads the file that it was started with. If the file is wrong, or changes a key that needs a restart
    (`vscaf daemon --help-config` marks these), nothing changes. SIGHUP to the daemon does the same, but only the log
    tells the result. A policy of `vscaf policy set` stays in use, unless the file's policy has changed.

    \b
    Example:
      vscaf check-config && vscaf reload
    """

    async def work() -> Any:
        try:
            return await post(find_socket(socket, config), "/v1/reload")
        except NoDaemon as error:
            raise NoDaemon(f"{error} If control_socket was changed, restart the daemon") from error

    answer = run(work)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    changes = answer["changes"]
    for change in changes:
        values = " -> ".join("-" if change[end] is None else change[end] for end in ("from", "to"))
        click.echo(printable(f"{change['key']}: {values}"))
    if not changes:
        click.echo("nothing to change: the daemon uses this configuration already")


@click.command(short_help="Give a domain back and leave it alone.")
@click.argument("domain", required=False, shell_complete=complete_domain)
@with_daemon
@json_option
def release(*, domain: str | None, socket: Path | None, config: Path, as_json: bool) -> None:
    """Give DOMAIN back as it was found, and leave it alone until `vscaf manage`. Without DOMAIN: all domains.

    If no daemon runs, the settings are put back from the journal of an earlier daemon. The next daemon then manages the
    domain again.

    \b
    Example:
      vscaf release web
    """

    async def work() -> tuple[list[str], Path | None]:
        path = find_socket(socket, config)
        try:
            answer = await post(path, "/v1/release", {"domain": domain})
        except NoDaemon as error:
            return await _restore(config, domain, error), path
        return answer["domains"], None

    names, silent = run(work, "putting settings back")
    if as_json:
        click.echo(json.dumps({"domains": names, "by_daemon": silent is None}, indent=2))
        return
    for name in names:
        left_alone = f"; left alone until `vscaf manage {name}`" if silent is None else ""
        click.echo(printable(f"{name}: as it was found{left_alone}"))
    if silent is not None:
        click.echo(_from_journal(names, silent))
    elif not names:
        click.echo(
            "nothing was released: vscaf manages no domain"
            if domain is None
            else f"{printable(domain)}: is left alone already: `vscaf status` says why"
        )


@click.command(short_help="Manage a released domain again.")
@click.argument("domain", required=False, shell_complete=complete_domain)
@with_daemon
@json_option
def manage(*, domain: str | None, socket: Path | None, config: Path, as_json: bool) -> None:
    """Manage DOMAIN again after `vscaf release`, or after somebody else changed it. Without DOMAIN: all of these.

    \b
    Example:
      vscaf manage web
    """

    async def work() -> Any:
        return await post(find_socket(socket, config), "/v1/manage", {"domain": domain})

    answer = run(work)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    names = answer["domains"]
    for name in names:
        click.echo(f"{printable(name)}: managed again")
    if not names:
        click.echo("nothing to manage again: no domain was released or left alone")


@click.command(short_help="Put everything back and end the daemon.")
@with_daemon
@json_option
def off(socket: Path | None, config: Path, as_json: bool) -> None:
    """The safety valve: put everything back as it was found, and end the daemon.

    If no daemon runs, the settings are put back from the journal of an earlier daemon.

    \b
    Example:
      vscaf off
    """

    async def work() -> tuple[list[str], Path | None]:
        path = find_socket(socket, config)
        try:
            names = await _held(path)
            await post(path, "/v1/off")
        except NoDaemon as error:
            return await _restore(config, None, error), path
        return names, None

    names, silent = run(work, "putting settings back")
    if as_json:
        click.echo(json.dumps({"domains": names, "by_daemon": silent is None}, indent=2))
        return
    for name in names:
        click.echo(printable(f"{name}: as it was found"))
    click.echo("the daemon has ended" if silent is None else _from_journal(names, silent))


async def _held(path: Path) -> list[str]:
    """Names of the domains that the daemon manages. Empty if it does not answer: `off` does not need them."""
    try:
        domains = (await get_status(path))["domains"]
    except NoDaemon:
        raise
    except VscafError:
        return []
    known = [one for one in domains if one["uuid"] is not None]  # libvirt has listed the others, if there are any
    return [one["name"] for one in known if one["state"] not in {State.NOT_RUNNING, *LEFT_ALONE}]


def _from_journal(names: list[str], silent: Path) -> str:
    if names:
        return f"put back from the journal: no daemon answers at {silent}"
    return f"nothing was put back: no daemon answers at {silent}, and the journal names no domain that runs"


async def restore_from_journal(config: Config, domain: str | None) -> list[str]:
    """As vscaf.recovery.offline_restore.restore_from_journal. Imported late: other commands do not need libvirt."""
    from vscaf.recovery import offline_restore  # noqa: PLC0415  (see above)

    return await offline_restore.restore_from_journal(config, domain)


async def _restore(config: Path, domain: str | None, no_daemon: NoDaemon) -> list[str]:
    logging.basicConfig(level=logging.WARNING, format="vscaf: %(message)s", stream=sys.stderr)
    try:
        loaded = load_config(config)
    except UsageError as error:
        raise UsageError(f"no daemon answers ({no_daemon}), and its journal cannot be used: {error}") from error
    return await restore_from_journal(loaded, domain)
