"""How long it takes to separate two guests that compute: real guests, real daemon, measured by the kernel's accounting.

One guest computes all the time, the other in bursts. A burst begins with the first window in which the second guest
used half a pCPU, by the run time of its vCPU threads. The guests are separated at the first round of samples after
which, for a while, no pCPU was in the affinity of both and none was used by both. The steps in between come from the
daemon's log (when it decided) and from /proc (when the loser had left, and when the winner's pins were set).
"""

from __future__ import annotations

import datetime
import math
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from vscaf.bench.intervals import median_interval
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.daemon import DaemonProcess
from vscaf.occupancy.sampler import Sample, Sampler
from vscaf_lab.separation import affinities, ran_on, rounds

from .report import Report, Result

INTERVAL_S = 0.005
STARTED_WINDOW_S, STARTED_CPUS = 0.02, 0.5
APART_S = 0.1  # how long they must stay separated
BURST_S = 1.5
BETWEEN_S = 0.25  # a period: bursts begin at any time in a period
PATIENCE_S = 30.0
STEADY_PROGRAM = "while :; do vscaf-run cg.W || exit 1; done"
STEADY, BURSTY = "bench-steady", "bench-bursty"
STEPS = ("decided", "left", "pinned")


@dataclass(frozen=True, slots=True)
class Measured:
    """One burst: times in seconds since the second guest computed. `separated_s` None: not before the burst's end."""

    seconds: float
    started_after_s: float  # time for the command to reach the guest
    separated_s: float | None
    steps_s: dict[str, float] = field(default_factory=dict)


def quantile(values: Sequence[float], share: float) -> tuple[float, float, float]:
    """The value below which *share* of the values lie (nearest rank), and its 95% interval by ranks (binomial); the
    extremes if there are too few values."""
    ordered = sorted(values)
    n = len(ordered)
    ranks, below = [], 0.0
    for k in range(n):
        below += math.comb(n, k) * share**k * (1 - share) ** (n - k)
        ranks.append(below)
    low = sum(1 for one in ranks if one < 0.025)
    high = sum(1 for one in ranks if one < 0.975)
    return ordered[max(0, math.ceil(share * n) - 1)], ordered[max(0, low - 1)], ordered[min(n - 1, high)]


def computing_since(samples: Sequence[Sample], after_s: float) -> float | None:
    """When the bursty guest first used STARTED_CPUS of a pCPU over STARTED_WINDOW_S."""
    used = [
        (taken[0].monotonic_s, sum(one.run_ns for one in taken if one.domain == BURSTY) / 1e9)
        for taken in rounds(samples)
        if taken[0].monotonic_s >= after_s
    ]
    at = 0
    for now_s, run_s in used:
        while at + 1 < len(used) and now_s - used[at + 1][0] >= STARTED_WINDOW_S:
            at += 1
        since_s, before_s = used[at]
        if now_s - since_s >= STARTED_WINDOW_S and run_s - before_s >= STARTED_CPUS * (now_s - since_s):
            return since_s
    return None


def separated_at(samples: Sequence[Sample], after_s: float) -> float | None:
    """When both were separated, and stayed so for APART_S."""
    since_s: float | None = None
    for before, after in pairwise(rounds([one for one in samples if one.monotonic_s >= after_s])):
        now_s = after[0].monotonic_s
        allowed, ran = affinities(after), ran_on(before, after)
        nothing: frozenset[int] = frozenset()
        if len(allowed) < 2 or allowed[STEADY] & allowed[BURSTY] or ran.get(STEADY, nothing) & ran.get(BURSTY, nothing):
            since_s = None
            continue
        since_s = now_s if since_s is None else since_s
        if now_s - since_s >= APART_S:
            return since_s
    return None


def first_change(samples: Sequence[Sample], domain: str, after_s: float, where: Callable[[int], bool]) -> float | None:
    """When `where` was first true for the number of pCPUs that the domain may run on."""
    for taken in rounds([one for one in samples if one.monotonic_s >= after_s and one.domain == domain]):
        if where(len(affinities(taken)[domain])):
            return taken[0].monotonic_s
    return None


def decided_at(log: str, after_s: float) -> float | None:
    """When the daemon's log first has a decision that takes pCPUs from the steady guest; it has local times of day."""
    now_s, today = time.monotonic(), datetime.datetime.now()
    for time_of_day in re.findall(rf"(?m)^(\d\d:\d\d:\d\d\.\d+) .*event=allocation .*\bdomain={STEADY} ", log):
        clock = datetime.datetime.strptime(time_of_day, "%H:%M:%S.%f").time()
        ago_s = (today - datetime.datetime.combine(today.date(), clock)).total_seconds() % 86400
        if now_s - ago_s >= after_s:
            return now_s - ago_s
    return None


class Bench:
    """Two guests, with bursts of the second."""

    def __init__(self, lab: PrivateLibvirt, guests: dict[str, Guest], pool: list[int]) -> None:
        self.lab = lab
        self.guests = guests
        self.pool = pool
        self.repeat = 1
        self.environment = ""  # of the programs
        self._dice = random.Random(1)

    def burst(self, log: Path | None) -> Measured:
        """One burst to its end, after a time in which the steady guest was alone."""
        time.sleep(self._dice.uniform(0.0, BETWEEN_S))
        guest = self.guests[BURSTY]
        log_offset = log.stat().st_size if log is not None else 0
        with Sampler({name: one.qemu_pid for name, one in self.guests.items()}, INTERVAL_S) as sampler:
            asked_s = time.monotonic()
            status, output = guest.start(f"{self.environment} NPB_REPEAT={self.repeat} vscaf-run cg.S").wait(120)
            ended_s = time.monotonic()
        if status != 0 or b"UNSUCCESSFUL" in output or b"SUCCESSFUL" not in output:
            raise SystemExit(f"bench-daemon: a program of the bursts failed: {output.decode(errors='replace')}")
        if ended_s - asked_s < BURST_S:
            self.repeat = math.ceil(self.repeat * min(4.0, 1.2 * BURST_S / (ended_s - asked_s)))
        begin_s = computing_since(sampler.samples, asked_s)
        if begin_s is None:
            raise SystemExit("bench-daemon: the bursty guest did not compute in its burst")
        apart_s = separated_at(sampler.samples, begin_s)
        steps: dict[str, float] = {}
        if log is not None:
            log_text = log.read_bytes()[log_offset:].decode(errors="replace")
            fewer = len(self.pool) - 1
            found = {
                "decided": decided_at(log_text, asked_s),
                "left": first_change(sampler.samples, STEADY, asked_s, lambda cpus: cpus <= fewer),
                "pinned": first_change(sampler.samples, BURSTY, asked_s, lambda cpus: cpus <= fewer),
            }
            steps = {name: at_s - begin_s for name, at_s in found.items() if at_s is not None}
        return Measured(
            ended_s - begin_s, begin_s - asked_s, None if apart_s is None else max(0.0, apart_s - begin_s), steps
        )

    def bursts(self, number: int, daemon: DaemonProcess | None, settled: Callable[[], bool]) -> list[Measured]:
        """Makes *number* bursts. The first ones only find out how long a program must be."""
        measured: list[Measured] = []
        while len(measured) < number:
            end_s = time.monotonic() + PATIENCE_S
            while not settled():
                if time.monotonic() > end_s:
                    raise SystemExit("bench-daemon: the steady guest does not get all pCPUs between bursts")
                time.sleep(0.02)
            repeat = self.repeat
            one = self.burst(daemon.log if daemon is not None else None)
            if measured or repeat == self.repeat:
                measured.append(one)
        return measured

    def alone(self) -> bool:
        """Whether the steady guest may run on all pCPUs."""
        threads = self.guests[STEADY].vcpu_threads.values()
        return frozenset[int]().union(*(os.sched_getaffinity(thread) for thread in threads)) == frozenset(self.pool)

    def pin(self, cpus: dict[str, list[int]]) -> None:
        for name, wanted in cpus.items():
            mask = tuple(cpu in wanted for cpu in range(max(self.pool) + 1))
            for vcpu in range(2):
                self.guests[name].domain.pinVcpu(vcpu, mask)


def _under_daemon(bench: Bench, policy: str, number: int) -> tuple[list[Measured], str]:
    pool = ",".join(map(str, bench.pool))
    with DaemonProcess(bench.lab, pool, {STEADY: {}, BURSTY: {}}, policy=policy, name=f"bench-{policy}") as daemon:
        daemon.wait(lambda domains: all(one["agent"] == "connected" for one in domains.values()), PATIENCE_S)
        return bench.bursts(number, daemon, bench.alone), daemon.log.read_text(errors="replace")


def measure(quick: bool, report: Report) -> None:
    """Adds `separation.*` to the report. Needs root and build/image/current (or VSCAF_IMAGE)."""
    image = Path(os.environ.get("VSCAF_IMAGE", "build/image/current"))
    cache = Path("build/lab/cache").resolve()
    pool = sorted(os.sched_getaffinity(0))[:2]
    number, baseline_bursts = (8, 2) if quick else (100, 20)
    with (
        tempfile.TemporaryDirectory(prefix="vscaf-bench-") as logs,
        PrivateLibvirt(logs=Path(logs), cache=cache) as lab,
        Guest(lab, STEADY, image, vcpus=2, memory_mib=256, cpuset=",".join(map(str, pool))) as steady,
        Guest(lab, BURSTY, image, vcpus=2, memory_mib=256, cpuset=",".join(map(str, pool))) as bursty,
    ):
        bench = Bench(lab, {STEADY: steady, BURSTY: bursty}, pool)
        program = steady.start(STEADY_PROGRAM)
        print(f"bench-daemon: separation, {number} bursts ...", flush=True)
        managed, log = _under_daemon(bench, "max-speedup", number)
        print("bench-daemon: the same without vscaf, and with pins by hand ...", flush=True)
        unmanaged, _ = _under_daemon(bench, "unmanaged", baseline_bursts)
        # With pins by hand, a program has as many threads as pCPUs: more threads would spin for each other on one.
        program.kill()
        bench.environment = "OMP_NUM_THREADS=1"
        program = steady.start(f"export OMP_NUM_THREADS=1; {STEADY_PROGRAM}")
        bench.pin({STEADY: [pool[0]], BURSTY: [pool[1]]})
        by_hand = bench.bursts(baseline_bursts, None, lambda: True)
        if program.done():
            raise SystemExit(f"bench-daemon: the steady guest's program failed: {program.wait(0).text}")
        program.kill()
    _add(report, managed, unmanaged, by_hand, log)


def _add(report: Report, managed: list[Measured], unmanaged: list[Measured], by_hand: list[Measured], log: str) -> None:
    # A burst without separation counts with its length, which is the least time that separation can have taken.
    separation_ms = [1e3 * (one.seconds if one.separated_s is None else one.separated_s) for one in managed]
    apart = sum(one.separated_s is not None for one in unmanaged)
    together_ms = statistics.median(
        1e3 * (one.seconds if one.separated_s is None else one.separated_s) for one in unmanaged
    )
    baseline_name = f"unmanaged ({apart} of {len(unmanaged)} bursts ever separated), ms"
    for name, share, bar in (("p50", 0.5, "at most 500 ms"), ("p99", 0.99, "")):
        value, low, high = quantile(separation_ms, share)
        ratio = value / together_ms
        report.add(
            Result(f"separation.{name}", "ms", value, low, high, len(managed), baseline_name, together_ms, ratio, bar)
        )
    before: dict[str, float] = {}
    for step, since in zip(STEPS, (None, "decided", "left"), strict=True):
        took_ms = [
            1e3 * (one.steps_s[step] - (one.steps_s[since] if since else 0.0))
            for one in managed
            if step in one.steps_s and (since is None or since in one.steps_s)
        ]
        if took_ms:
            value, low, high = median_interval(took_ms)
            report.add(Result(f"separation.until_{step}", "ms", value, low, high, len(took_ms)))
            before[step] = max(took_ms)
    for name, bursts in (("separation.burst", managed), ("separation.burst_pinned_by_hand", by_hand)):
        value, low, high = median_interval([1e3 * one.seconds for one in bursts])
        base = statistics.median(1e3 * one.seconds for one in unmanaged)
        report.add(Result(name, "ms", value, low, high, len(bursts), "unmanaged, ms", base, value / base))
    report.details["separation"] = {
        "begins": f"first {STARTED_WINDOW_S * 1e3:g} ms in which the second guest used {STARTED_CPUS:g} pCPUs",
        "samples_every_ms": INTERVAL_S * 1e3,
        "steps": "until_decided: from the start to the daemon's decision; until_left: from there until the first guest "
        "had left a pCPU; until_pinned: from there until the second guest's pins were set",
        "slowest_ms": before,
        "never_separated": sum(one.separated_s is None for one in managed),
        "deadlines_missed": len(re.findall(rf"domain {STEADY}: shrinking -> contained", log)),
        "way_into_the_guest_ms": 1e3 * statistics.median(one.started_after_s for one in managed),
        "pinned_by_hand": "always separated, with one pCPU idle while only one guest computes",
    }
