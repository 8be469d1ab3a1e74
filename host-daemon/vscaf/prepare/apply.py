"""Prepares a domain through libvirt: its persistent definition, and what its running guest can take now."""

import contextlib
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import libvirt

from vscaf.errors import HypervisorError, HypervisorUnreachable, UsageError
from vscaf.hypervisor.libvirt.connection import NOT_PERMITTED, NOT_SUPPORTED, UNAUTHENTICATED, is_unreachable
from vscaf.hypervisor.libvirt.metadata import NAMESPACE
from vscaf.prepare.plan import CHANNEL_ELEMENT, Change, Kind, missing, plan
from vscaf.prepare.record import (
    PARTITION,
    RECORD_KEY,
    RECORD_NAMESPACE,
    difference,
    is_bare,
    read_record,
    record_element,
    revert,
)
from vscaf.prepare.xml_edit import Document

Opener = Callable[[str], Any]

SHOWN = libvirt.VIR_DOMAIN_XML_INACTIVE
COMPLETE = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE  # with passwords, which a definition needs
ELEMENT = libvirt.VIR_DOMAIN_METADATA_ELEMENT
LIVE = libvirt.VIR_DOMAIN_AFFECT_LIVE
CONFIG = libvirt.VIR_DOMAIN_AFFECT_CONFIG
BAD_DEFINITION = NOT_SUPPORTED | {
    libvirt.VIR_ERR_XML_ERROR,
    libvirt.VIR_ERR_XML_DETAIL,
    libvirt.VIR_ERR_XML_INVALID_SCHEMA,
    libvirt.VIR_ERR_INVALID_ARG,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was changed, or would be. Everything is in words.

    `diff`: of the persistent definition, as libvirt shows it. `done`: changes of it. `now`: what the running guest has
    got. `later`: what it gets when it is shut down and started. `kept`: what could not be put back.
    """

    diff: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def prepare(
    uri: str, name: str, maximum: int | None = None, *, dry_run: bool = False, opener: Opener = libvirt.open
) -> Outcome:
    """Adds to a domain what it lacks, see `plan`. dry_run: changes nothing.

    UsageError: the domain cannot be prepared, and nothing was changed. HypervisorError: a libvirt call failed.
    """
    with _domain(uri, name, opener) as domain:
        shown = domain.XMLDesc(SHOWN)
        planned = plan(shown, maximum)
        if planned.changes and not dry_run:
            complete = domain.XMLDesc(COMPLETE)
            _define(domain, plan(complete, maximum).xml)
            _update_record(domain, revert(complete).xml)
        after = planned.xml if dry_run else domain.XMLDesc(SHOWN)
        now, later = _bring_to_running(domain, planned.maximum, dry_run)
        saved = _is_saved(domain)
        return Outcome(
            diff=_diff(name, shown, after),
            done=tuple(change.what for change in planned.changes),
            now=now,
            later=later,
            notes=planned.notes + ((_SAVED,) if saved and planned.changes else ()),
        )


def undo(uri: str, name: str, *, dry_run: bool = False, opener: Opener = libvirt.open) -> Outcome:
    """Puts back what `prepare` changed, where it was not changed since. dry_run: changes nothing. Errors: as `prepare`.

    A running guest keeps its devices until it is shut down and started. Its live metadata are removed at once.
    """
    with _domain(uri, name, opener) as domain:
        shown = domain.XMLDesc(SHOWN)
        reverted = revert(shown)
        running = bool(domain.isActive())
        if reverted.xml != shown and not dry_run:
            _define(domain, revert(domain.XMLDesc(COMPLETE)).xml)
            if running and reverted.metadata and _has_bare_partition(domain.XMLDesc(0)):
                domain.setMetadata(ELEMENT, None, None, NAMESPACE, LIVE)
        after = reverted.xml if dry_run else domain.XMLDesc(SHOWN)
        elements = tuple(made for made in reverted.put_back if made.startswith("<"))
        notes = ((_RUNS,) if running else ()) + ((_SAVED,) if _is_saved(domain) else ())
        return Outcome(
            diff=_diff(name, shown, after),
            done=reverted.put_back,
            notes=notes if elements else (),
            kept=reverted.kept,
        )


_RUNS = (
    "it runs: its guest keeps the devices and vCPUs that it has until it is shut down and started (a reboot from "
    "inside the guest is not enough)"
)
_SAVED = (
    "it was saved (virsh managedsave): its next start continues it with its old devices; the new definition is in "
    "force when it is shut down and started once more"
)


@contextlib.contextmanager
def _domain(uri: str, name: str, opener: Opener) -> Iterator[Any]:
    """The persistent domain. Errors of libvirt become those of vscaf, by their code."""
    try:
        connection = opener(uri)
        try:
            domain = connection.lookupByName(name)
            if not domain.isPersistent():
                raise UsageError(
                    f"domain {name} is transient: libvirt keeps no definition that could be changed: change the XML in "
                    "the program that creates it, or make it persistent by `virsh define`"
                )
            yield domain
        except (UsageError, HypervisorError) as error:
            message = str(error)
            raise type(error)(message if message.startswith("domain ") else f"domain {name}: {message}") from error
        finally:
            with contextlib.suppress(libvirt.libvirtError):  # all that matters is done
                connection.close()
    except libvirt.libvirtError as error:
        code, message = error.get_error_code(), error.get_error_message() or str(error)
        if code == libvirt.VIR_ERR_NO_DOMAIN:
            raise UsageError(f"domain {name}: libvirt at {uri} has no such domain: see `virsh list --all`") from error
        if code in NOT_PERMITTED | UNAUTHENTICATED:
            raise HypervisorError(
                f"libvirt at {uri}: not permitted ({message}): run this as root, or in the group libvirt"
            ) from error
        if code == libvirt.VIR_ERR_OPERATION_TIMEOUT:
            raise HypervisorError(
                f"domain {name}: another job of libvirt holds it, and did not end in time ({message}): see "
                f"`virsh domjobinfo {name}`, and run this again when that job has ended"
            ) from error
        if is_unreachable(error):
            raise HypervisorUnreachable(f"libvirt at {uri}: {message}: check that libvirtd runs") from error
        raise HypervisorError(f"domain {name}: {message}") from error


def _define(domain: Any, xml: str) -> None:
    try:
        domain.connect().defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in BAD_DEFINITION:
            raise
        raise UsageError(
            f"libvirt refuses the new definition, and nothing was changed: {error.get_error_message()}"
        ) from error


def _update_record(domain: Any, original: str) -> None:
    """Writes what libvirt made of the definition into the record: it adds addresses, and controllers for them."""
    made = domain.XMLDesc(SHOWN)
    record = difference(original, made)
    if record == read_record(made):
        return
    try:
        domain.setMetadata(ELEMENT, record_element(record, ""), RECORD_KEY, RECORD_NAMESPACE, CONFIG)
    except libvirt.libvirtError as error:
        raise HypervisorError(
            f"it is prepared, but libvirt did not take the record for --undo ({error.get_error_message()}): --undo "
            "will not put back all of it"
        ) from error


def _bring_to_running(domain: Any, maximum: int, dry_run: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Gives a running guest what it can take now. Returns what it has got, and what needs a shutdown and a start."""
    if not domain.isActive():
        return (), ()
    now, later = [], []
    for change in missing(domain.XMLDesc(0), maximum):
        failure = None
        if not change.restart_needed and not dry_run:
            failure = _take_now(domain, change)
        if change.restart_needed:
            later.append(change.what)
        elif failure is not None:
            later.append(f"{change.what} (it could not be added now: {failure})")
        else:
            now.append(change.what)
    return tuple(now), tuple(later)


def _take_now(domain: Any, change: Change) -> str | None:
    """Makes a change of a running guest. Returns why it failed. Raises libvirtError if libvirt cannot be reached."""
    try:
        if change.kind is Kind.METADATA:
            domain.setMetadata(ELEMENT, "<partition/>", "vscaf", NAMESPACE, LIVE)
        else:
            domain.attachDeviceFlags(CHANNEL_ELEMENT, LIVE)
    except libvirt.libvirtError as error:
        # A job that holds the domain only delays what a running guest gets: the definition is changed already.
        if is_unreachable(error):
            raise
        return str(error.get_error_message())
    return None


def _has_bare_partition(live: str) -> bool:
    """Whether the live metadata have the element that prepare adds, and not one that somebody has changed."""
    found = Document(live).root.all("metadata", PARTITION)
    return len(found) == 1 and is_bare(found[0])


def _is_saved(domain: Any) -> bool:
    try:
        return bool(domain.hasManagedSaveImage(0))
    except libvirt.libvirtError as error:
        if error.get_error_code() in NOT_SUPPORTED:
            return False
        raise


def _diff(name: str, before: str, after: str) -> tuple[str, ...]:
    return tuple(
        difflib.unified_diff(before.splitlines(), after.splitlines(), f"{name} before", f"{name} after", lineterm="")
    )
