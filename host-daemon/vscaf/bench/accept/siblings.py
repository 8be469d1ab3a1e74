"""On a host with SMT, vCPUs that are siblings in the guest are pinned to the threads of one core, which no other guest
uses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import libvirt
import msgspec

from vscaf.bench.accept.context import BUSY, Context, Part
from vscaf.bench.accept.host import Host
from vscaf.bench.accept.part import Outcome, Verdict
from vscaf.cpulist import format_cpu_list, parse_cpu_list
from vscaf.lab import Guest
from vscaf.lab.polling import HANG_S

CORES = 4  # of the pool; each of two guests gets half of them
READINGS = 20
INTERVAL_S = 0.25


class Pins(msgspec.Struct, frozen=True):
    """A guest: which vCPUs are online, and where each may run, by libvirt. vCPU i is a thread of core i // threads."""

    threads: int
    online: tuple[int, ...]
    pins: Mapping[int, tuple[int, ...]]


def faults(guests: Mapping[str, Pins], cores: Sequence[Sequence[int]]) -> list[str]:
    """What is wrong with the pins of guests that were read together. cores: the CPUs of the pool, by core."""
    core_of = {cpu: number for number, core in enumerate(cores) for cpu in core}
    found = []
    owner: dict[int, str] = {}
    for name, guest in guests.items():
        places: dict[int, list[int]] = {}
        for vcpu in guest.online:
            allowed = guest.pins[vcpu]
            if len(allowed) != 1:
                found.append(f"{name}: vCPU {vcpu} may run on CPUs {format_cpu_list(allowed)} instead of one")
            places.setdefault(vcpu // guest.threads, []).append(allowed[0])
            if outside := [cpu for cpu in allowed if cpu not in core_of]:
                found.append(f"{name}: vCPU {vcpu} may run on CPUs {format_cpu_list(outside)}, outside the pool")
            for core in {core_of[cpu] for cpu in allowed if cpu in core_of}:
                if owner.setdefault(core, name) != name:
                    found.append(f"{owner[core]} and {name} share the core of CPUs {format_cpu_list(cores[core])}")
        for core, cpus in places.items():
            if len(set(cpus)) < len(cpus) or len({core_of.get(cpu) for cpu in cpus}) > 1:
                found.append(f"{name}: the siblings of guest core {core} are on CPUs {format_cpu_list(cpus)}")
    return list(dict.fromkeys(found))


def judge(readings: Sequence[Mapping[str, Pins]], cores: Sequence[Sequence[int]]) -> Verdict:
    """The verdict from pins that were read several times."""
    wrong = list(dict.fromkeys(fault for guests in readings for fault in faults(guests, cores)))
    alone = [name for name, guest in readings[-1].items() if len(guest.online) < guest.threads]
    figures = {
        "readings": len(readings),
        "cores": [list(core) for core in cores],
        "last": {name: msgspec.to_builtins(guest) for name, guest in readings[-1].items()},
        "faults": wrong,
    }
    if wrong:
        return Verdict(
            Outcome.FAILED, wrong[0] if len(wrong) == 1 else f"{wrong[0]}, and {len(wrong) - 1} more", figures
        )
    if alone:
        return Verdict(Outcome.FAILED, f"{' and '.join(alone)} had no two siblings online to look at", figures)
    return Verdict(
        Outcome.PASSED,
        f"in {len(readings)} readings siblings were on the threads of one core, and the guests shared no core",
        figures,
    )


def obstacle(host: Host) -> str | None:
    """Why this host cannot show it."""
    if host.threads < 2:
        return "the host has no SMT: each core has one thread"
    if len(host.equal_cores(2)) < 2:
        return f"two guests need two cores with {host.threads} threads, and this process may use one"
    return None


def cpu_element(host: Host, vcpus: int) -> str:
    """The <cpu> of a guest whose cores have as many threads as the host's."""
    topology = f"<topology sockets='1' dies='1' cores='{vcpus // host.threads}' threads='{host.threads}'/>"
    # Without it Linux shows no threads on AMD's processors.
    feature = "<feature policy='require' name='topoext'/>" if "topoext" in host.cpu_flags else ""
    mode = "host-passthrough" if host.accelerated else "maximum"
    return f"<cpu mode='{mode}' check='none'>{topology}{feature}</cpu>"


def run(context: Context) -> Verdict:
    """Runs the part."""
    cores = context.host.equal_cores(CORES)
    cores = cores[: len(cores) // 2 * 2]
    pool = [cpu for core in cores for cpu in core]
    each = len(pool) // 2
    cpu, cpuset = cpu_element(context.host, len(pool)), format_cpu_list(pool)
    rules = {"minimum": each, "maximum": each}
    with (
        context.lab() as lab,
        Guest(lab, "first", context.image, vcpus=len(pool), cpuset=cpuset, cpu=cpu) as first,
        Guest(lab, "second", context.image, vcpus=len(pool), cpuset=cpuset, cpu=cpu) as second,
        context.daemon(lab, pool, {first.name: rules, second.name: rules}, "equipartition") as daemon,
    ):
        guests = (first, second)
        for guest in guests:
            context.start(guest, f"exec env {BUSY}")
        context.print_line("waiting until both guests have their CPUs")
        daemon.wait(
            lambda domains: all(
                domains[guest.name]["state"] == "cooperating" and len(domains[guest.name]["online"]) == each
                for guest in guests
            ),
            context.deadline.within(HANG_S).left_s(),
        )
        readings = []
        for _ in range(READINGS):
            readings.append({guest.name: read(guest, context.host.threads) for guest in guests})
            time.sleep(INTERVAL_S)
    return judge(readings, cores)


def read(guest: Guest, threads: int) -> Pins:
    """The guest's online CPUs, and the pins of all vCPUs."""
    online = parse_cpu_list(guest.run("cat /sys/devices/system/cpu/online").text)
    masks = guest.domain.vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    pins = {vcpu: tuple(cpu for cpu, there in enumerate(mask) if there) for vcpu, mask in enumerate(masks)}
    return Pins(threads, tuple(sorted(online)), pins)


PART = Part("siblings", "pins of SMT siblings", 120.0, obstacle, run)
