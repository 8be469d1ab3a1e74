"""A program's speedup learned by hardware counters (`ipc`), beside that learned by time (`rate`) and the measured one.

PAPI is taken from the host into the guest. Without PAPI, or in a guest without a PMU, the shim learns by `rate` and
says that it found no counters.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from vscaf.bench.accept.context import Context, Part
from vscaf.bench.accept.host import Host
from vscaf.bench.accept.papi import papi_libraries
from vscaf.bench.accept.part import Outcome, Verdict
from vscaf.bench.places.lab import WORKLOADS, image_with
from vscaf.bench.workloads.workload import Workload
from vscaf.cpulist import format_cpu_list
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.polling import HANG_S

# The sections of both last at least the 2 ms that `ipc` needs, on up to CORES threads of a present processor. EP scales
# with the threads. IS is limited by the memory.
PROGRAMS = {True: ("ep.W", "is.A"), False: ("ep.S",)}  # by whether guests are accelerated
CORES = 4
LEARN_S = 20.0  # for a program and a metric
PRECISE = 0.03  # standard error, as a part of the speedup, from which on the program need not go on
MEASURED = 3  # runs
REPEAT = 8  # of the program's work in a measured run, so that its start does not count
TOLERANCE = 0.15  # between a learned and a measured speedup
POLL_S = 0.25
EVENT_SOURCES = "/sys/bus/event_source/devices"


class Learned(msgspec.Struct, frozen=True):
    """A speedup with its standard error, as the agent reported it."""

    speedup: float
    standard_error: float


class Program(msgspec.Struct, frozen=True):
    """A program on so many threads. ipc, rate: its speedup as learned; None: unknown. measured: its speedup by its run
    times."""

    name: str
    threads: int
    ipc: Learned | None
    rate: Learned | None
    measured: float


@dataclass
class Reports:
    """What the agent reports of a program that learns by *metric* on so many threads."""

    program: str
    threads: int
    metric: str
    metrics: frozenset[str] = frozenset()
    no_counters: bool = False
    learned: Learned | None = None

    def take(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Takes the processes of a status. Only points that were learned by the metric count."""
        for process in processes:
            learning = process["learning"]
            if process["name"] != self.program or learning is None:
                continue
            self.metrics |= {learning["metric"]}
            self.no_counters |= not learning["counters"]
            for point in process["points"]:
                if point["p"] == self.threads and learning["metric"] == self.metric:
                    self.learned = Learned(point["speedup"], point["standard_error"])

    def precise(self) -> bool:
        """Whether the speedup is known so well that more reports are of no use."""
        return self.learned is not None and self.learned.standard_error <= PRECISE * self.learned.speedup


def judge(programs: Sequence[Program]) -> Verdict:
    """The verdict if the shim found counters: `ipc` learned each program's speedup as it was measured."""
    figures = {"programs": [msgspec.to_builtins(program) for program in programs]}
    texts, wrong, unknown = [], [], []
    for program in programs:
        texts.append(
            f"{program.name} on {program.threads} threads: ipc {shown(program.ipc)}, rate {shown(program.rate)}, "
            f"measured {program.measured:.2f}"
        )
        if program.ipc is None:
            unknown.append(program.name)
        elif not agrees(program.ipc, program.measured):
            wrong.append(program.name)
    told = "; ".join(texts)
    if unknown:
        return Verdict(Outcome.FAILED, f"ipc learned no speedup of {' and '.join(unknown)} ({told})", figures)
    if wrong:
        return Verdict(Outcome.FAILED, f"ipc learned a wrong speedup of {' and '.join(wrong)} ({told})", figures)
    return Verdict(Outcome.PASSED, f"ipc learned the measured speedups ({told})", figures)


def agrees(learned: Learned, measured: float) -> bool:
    """Whether they differ by at most TOLERANCE, or by two standard errors."""
    return abs(learned.speedup - measured) <= max(TOLERANCE * measured, 2 * learned.standard_error)


def shown(learned: Learned | None) -> str:
    """Text for a speedup."""
    return "unknown" if learned is None else f"{learned.speedup:.2f} +- {learned.standard_error:.2f}"


def without_counters(papi: Sequence[str], event_sources: Sequence[str], metrics: Sequence[str]) -> Verdict:
    """The verdict if the shim found no counters. papi: libraries that the guest had. event_sources: of its kernel."""
    causes = []
    if "cpu" not in event_sources:
        causes.append("the guest has no PMU")
    if not papi:
        causes.append("this host has no PAPI (install the package libpapi7.0, or that of your distribution)")
    cause = " and ".join(causes) or "PAPI is there and the guest has a PMU, but PAPI counts nothing"
    figures = {"papi": list(papi), "event_sources": list(event_sources), "metrics": list(metrics), "counters": False}
    return Verdict(
        Outcome.NOT_POSSIBLE,
        f'the shim reported "counters": false and metric {" and ".join(metrics)}: {cause}',
        figures,
    )


def obstacle(host: Host) -> str | None:
    """Why this host cannot show it."""
    return "a speedup needs two CPUs, and this process may use fewer" if len(host.pool(CORES)) < 2 else None


def run(context: Context) -> Verdict:
    """Runs the part."""
    pool = context.host.pool(CORES)[:CORES]
    papi = papi_libraries()
    libraries = Workload("papi", "", {f"papi/{name}": path for name, path in papi.items()})
    with (
        context.lab() as lab,
        Guest(
            lab,
            "counts",
            image_with(context.image, [libraries], lab.directory / "image"),
            vcpus=len(pool),
            memory_mib=1024,
            cpuset=format_cpu_list(pool),
        ) as guest,
    ):
        sources = guest.run(f"ls {EVENT_SOURCES}").text.split()
        found = []
        for name in PROGRAMS[context.host.accelerated]:
            context.print_line(f"learning the speedup of {name}")
            ipc, rate = (Reports(name, len(pool), metric) for metric in ("ipc", "rate"))
            learn(context, lab, guest, ipc)
            if ipc.no_counters:
                return without_counters(sorted(papi), sources, sorted(ipc.metrics))
            learn(context, lab, guest, rate)
            measured = seconds(context, guest, name, 1) / seconds(context, guest, name, len(pool))
            found.append(Program(name, len(pool), ipc.learned, rate.learned, measured))
    return judge(found)


def learn(context: Context, lab: PrivateLibvirt, guest: Guest, reports: Reports) -> None:
    """Lets a program learn, alone in the guest, which has the whole pool, and takes what the agent reports."""
    environment = {
        "NPB_REPEAT": "10000",
        "SCAF_LAZY_EXPERIMENTS": "0",
        "VSCAF_METRIC": reports.metric,
        "LD_LIBRARY_PATH": f"{WORKLOADS}/papi",
    }
    settings = " ".join(f"{name}={value}" for name, value in environment.items())
    pool = context.host.pool(CORES)[: reports.threads]
    with context.daemon(lab, pool, {guest.name: {}}, "max-speedup-fitted") as daemon:
        started = context.start(guest, f"exec env {settings} vscaf-run {reports.program}")
        listen(context, daemon, guest.name, reports)
        if started.done():
            raise ValueError(f"{reports.program} ended early: {started.wait(0).text[-300:]}")
        started.kill()
        started.wait(HANG_S)


def listen(context: Context, daemon: DaemonProcess, domain: str, reports: Reports) -> None:
    """Takes reports until they say enough. TimeoutError if there are none."""
    patience, learning = context.deadline.within(HANG_S), context.deadline.within(LEARN_S)
    while patience.left_s():
        reports.take(daemon.domain(domain)["processes"])
        if reports.no_counters or reports.precise() or (reports.metrics and not learning.left_s()):
            return
        time.sleep(POLL_S)
    raise TimeoutError(f"the agent reported nothing of what {reports.program} learns")


def seconds(context: Context, guest: Guest, program: str, threads: int) -> float:
    """How long the program takes alone on so many threads, without vscaf: the median of some runs."""
    command = f"NPB_REPEAT={REPEAT} OMP_NUM_THREADS={threads} exec {program}"
    workload = Workload(program, program, npb=True)
    times = []
    for _ in range(MEASURED):
        begin_s = time.monotonic()
        done = context.start(guest, command).wait(max(1.0, context.deadline.left_s()))
        times.append(time.monotonic() - begin_s)
        if not workload.verified(done.status, done.text):
            raise ValueError(f"`{command}` was wrong: status {done.status}: {done.text[-300:]}")
    return statistics.median(times)


PART = Part("counters", "speedup learned by a virtual PMU and PAPI", 240.0, obstacle, run)
