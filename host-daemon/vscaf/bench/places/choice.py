"""Which place a bench has: guests of a lab, the user's own guests, or no guests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vscaf.bench.c_programs import workload_directory
from vscaf.bench.places.existing import existing_place, guest_agent_channel, guests_of, pool_of, ssh_channel
from vscaf.bench.places.lab import lab_place
from vscaf.bench.places.no_vm import no_vm_place
from vscaf.bench.places.options import PlaceOptions
from vscaf.bench.places.own_pool import default_cpus
from vscaf.bench.places.place import Place
from vscaf.bench.workloads.workload import Workload
from vscaf.cpulist import format_cpu_list
from vscaf.errors import UsageError

NAMES = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A place that is not open yet.

    settings: kept with the samples; samples with other settings are not continued. So they name what figures depend on.
    Members that do not compute in a run are a load too. open: takes the workloads and the arrangements.
    """

    cpus: int
    settings: Mapping[str, object]
    open: Callable[[Sequence[Workload], Sequence[str]], AbstractContextManager[Place]]


def choose(options: PlaceOptions, image: Path, output: Path, count: int) -> Chosen:
    """The place of these options, with *count* members. image: of a lab's guests. Raises UsageError or PlaceError."""
    if count > len(NAMES):
        raise UsageError(f"{count} programs at once: at most {len(NAMES)} can be run together")
    members = NAMES[:count]
    if options.no_vm and options.existing:
        raise UsageError("--no-vm and --existing exclude each other: give one of them")
    if not options.existing and (options.ssh or options.pool):
        raise UsageError("--ssh and --pool are for guests that exist: add --existing DOMAIN,DOMAIN")
    if options.existing and options.cpus is not None:
        raise UsageError("--cpus is not for guests that exist: name their CPUs by --pool")
    cpus = options.cpus or default_cpus()
    if options.no_vm:
        return Chosen(
            cpus,
            {"no_vm": cpus, "members": count},
            lambda workloads, arrangements: no_vm_place(members, workloads, arrangements, cpus, output),
        )
    if options.existing:
        return _existing(options, output, count)
    return Chosen(
        cpus,
        {"guests": cpus, "members": count, "memory_mib": options.memory_mib},
        lambda workloads, arrangements: lab_place(
            members,
            workloads,
            arrangements,
            image,
            output,
            pool_cpus=cpus,
            memory_mib=options.memory_mib,
        ),
    )


def _existing(options: PlaceOptions, output: Path, count: int) -> Chosen:
    names, ssh = options.existing, options.ssh or {}
    if len(names) != count:
        raise UsageError(f"--existing: {len(names)} domains are named: give {count}, one for each program at once")
    if set(ssh) - set(names):
        raise UsageError(f"--ssh {min(set(ssh) - set(names))}: that domain is not among those of --existing")
    pool = pool_of(options.uri, names, options.pool, output=output)
    channels: dict[str, Any] = {name: ssh_channel(ssh[name]) if name in ssh else guest_agent_channel for name in names}
    return Chosen(
        len(pool),
        {
            "existing": names,
            "uri": options.uri,
            "pool": format_cpu_list(pool),
            "guests": guests_of(options.uri, channels, output=output),
        },
        lambda workloads, arrangements: existing_place(
            options.uri,
            channels,
            pool,
            workloads=workloads,
            arrangements=arrangements,
            programs=workload_directory(),
            output=output,
        ),
    )
