"""Gathers the facts and runs all checks. Changes nothing, and never opens a guest's channel."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import libvirt

from vscaf.config import Config
from vscaf.control.client import NoDaemon, get_status
from vscaf.doctor import checks_domain, checks_host, checks_rivals
from vscaf.doctor.facts import DomainFacts, HostFacts, LibvirtFacts, NoLibvirt
from vscaf.doctor.facts_domain import read_libvirt
from vscaf.doctor.facts_host import read_system
from vscaf.doctor.finding import HOST, Finding, Unknown, run_checks
from vscaf.errors import HypervisorError, UsageError, VscafError
from vscaf.hypervisor.libvirt.calls import Call, start
from vscaf.hypervisor.libvirt.connection import NOT_PERMITTED, UNAUTHENTICATED

LIBVIRT_TIMEOUT_S = 30.0  # libvirt's first connection after its start tries out QEMU, which takes several seconds
DENIED = NOT_PERMITTED | UNAUTHENTICATED


async def gather(
    config_file: Path,
    config: Config | Unknown,
    socket: Path,
    named: Iterable[str] = (),
    *,
    root: Path = Path("/"),
    opener: Callable[[str], Any] = libvirt.openReadOnly,
) -> HostFacts:
    """All facts. *named*: the domains that the operator asked about.

    *root*: where the host's files are. *opener* connects to a libvirt. UsageError if libvirt has no domain of a name.
    """
    uri = Config(pool="0").uri if isinstance(config, Unknown) else config.uri
    answer = await _ask_libvirt(uri, opener)
    try:
        status: Any = await get_status(socket)
    except NoDaemon:
        status = None
    except VscafError as error:
        status = Unknown(str(error))
    if isinstance(answer, LibvirtFacts):
        for name in named:
            if name not in answer.domains:
                raise UsageError(f"domain {name}: libvirt at {uri} has none of that name: see `virsh list --all`")
    return HostFacts(
        config_file=str(config_file),
        config_found=await asyncio.to_thread(config_file.exists),
        config=config,
        system=await asyncio.to_thread(read_system, root),
        libvirt=answer,
        status=status,
        named=frozenset(named),
    )


async def _ask_libvirt(uri: str, opener: Callable[[str], Any]) -> LibvirtFacts | NoLibvirt:
    def ask(_call: Call) -> LibvirtFacts:
        connection = opener(uri)
        try:
            return read_libvirt(connection)
        finally:
            connection.close()

    try:
        async with asyncio.timeout(LIBVIRT_TIMEOUT_S):
            return await start(Call("look at the host"), ask)
    except TimeoutError:
        return NoLibvirt(f"no answer in {LIBVIRT_TIMEOUT_S:g} s: look at libvirtd's log")
    except libvirt.libvirtError as error:
        return NoLibvirt(error.get_error_message() or str(error), error.get_error_code() in DENIED)
    except HypervisorError as error:
        return NoLibvirt(str(error))


def examine(host: HostFacts) -> list[Finding]:
    """The findings about the host and each domain. Domains that are not managed are only checked for being in the way,
    unless the operator named them. If domains were named, other domains are left out."""
    findings = run_checks((*checks_host.CHECKS, *checks_rivals.CHECKS), host, HOST)
    if isinstance(host.libvirt, NoLibvirt):
        return findings
    managed = host.managed()
    for name, domain in host.libvirt.domains.items():
        if host.named and name not in host.named:
            continue
        checks = checks_domain.CHECKS if name in managed or name in host.named else (checks_domain.MANAGED,)
        findings += run_checks(checks, DomainFacts(domain, host), f"domain {name}")
    return findings
