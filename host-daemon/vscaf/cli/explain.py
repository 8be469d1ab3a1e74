"""`vscaf explain`: why a domain has what it has, and what would change it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from vscaf_policies import PolicyError
from vscaf_policies.registry import load_policy

from vscaf.cli.client import run, with_daemon
from vscaf.cli.completion import complete_domain
from vscaf.command_line import find_socket, json_option, progress
from vscaf.control.client import get, get_status
from vscaf.errors import UsageError, VscafError
from vscaf.terminal import printable


@click.command(short_help="Say why a domain has what it has.")
@click.argument("domain", shell_complete=complete_domain)
@with_daemon
@json_option
def explain(domain: str, socket: Path | None, config: Path, as_json: bool) -> None:
    """Say why DOMAIN has the pCPUs that it has, with the numbers, and what would change it.

    What would change it is found by making the last decision again with one input changed. Nothing is changed.

    \b
    Example:
      vscaf explain cfd
    """
    from vscaf.explain.sentences import Facts, explanation, text  # noqa: PLC0415  (imports numpy)
    from vscaf.record.lines import BadLine, Decided, Decoder, State  # noqa: PLC0415  (as above)

    async def work() -> tuple[Any, Any, State | None, Decided | None]:
        path = find_socket(socket, config)
        state, last = await get_status(path), await get(path, "/v1/decision")
        names = [one["name"] for one in state["domains"]]
        if domain not in names:
            raise UsageError(f"domain {domain}: vscaf does not know it (it knows: {', '.join(names) or 'none'})")
        if last["lines"] is None:
            return state, last, None, None
        decoder = Decoder()
        try:
            remembered, decided = (decoder.value(line) for line in last["lines"])
        except BadLine as error:
            raise VscafError(f"the daemon is of another version ({error}): restart it") from error
        assert isinstance(remembered, State) and isinstance(decided, Decided)  # they come in this order
        return state, last, remembered, decided

    status, last, remembered, decided = run(work)
    policy = None
    try:
        policy = load_policy(status["policy"] if decided is None else decided.policy.name)
    except PolicyError as error:
        click.echo(f"vscaf: {printable(str(error))}", err=True)
    one = next(one for one in status["domains"] if one["name"] == domain)
    with progress("making the last decision again"):
        made = explanation(Facts(one, decided, remembered, policy, last["changes"].get(domain), status["unknown"]))
    if as_json:
        click.echo(json.dumps(asdict(made), indent=2))
    else:
        click.echo("\n".join(map(printable, text(made).splitlines())))
