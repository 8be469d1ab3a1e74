"""The chaos test's schedule of failures and its judge, which checks that partitions hold. Pure functions.

A run is a sequence of bursts. A burst is some failures close together, each of another part. After it comes a quiet
time, in which everything must become right and stay right over many rounds of samples. How long that takes is reported
but not judged. The seed alone decides what happens and when. The judge sees samples from the kernel's accounting of
vCPU threads, and when each part was away. It does not use what the daemon reports.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vscaf.occupancy.sampler import Sample

from vscaf_lab.separation import Window, rounds

RECOVERED_ROUNDS = 30  # of samples, in a row: then everything is right again and stays right
QUIET_S = 6.0  # the usual time for that, for planning
SETTLED_ROUNDS = 10  # of samples without a change: orders from before a part went away have arrived
BUSY_WINDOW_S = 1.0
COMPUTES_CPUS = 0.1  # used over that window: less is the idle ticks of a guest
SURVIVED_CPU_S = 0.1  # CPU time: a program that has used this since a burst has survived it

DAEMON, LIBVIRTD, VIRTLOGD = "daemon", "libvirtd", "virtlogd"
OF_THE_HOST = tuple((part, kind) for part in (DAEMON, LIBVIRTD, VIRTLOGD) for kind in ("kill", "stop"))
OF_A_GUEST = ("agent-kill", "agent-stop", "channel", "pause", "qemu-kill", "qemu-stop", "reboot", "save")
OF_AN_IDLE_GUEST = ("agent-kill", "agent-stop", "channel", "pause", "qemu-stop")  # other kinds make it compute
SHORTEST_S, LONGEST_S = 0.3, 4.0  # how long a part is away
APART_S = 2.0  # at most, between the starts of two failures of a burst


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of one part, *delay_s* after its burst began. `kind` is one of the constants above. `away_s` is how
    long the part is killed, stopped, paused or unplugged (no meaning for a reboot)."""

    delay_s: float
    part: str
    kind: str
    away_s: float


def schedule(seed: int, seconds: float, computing: Sequence[str], idle: Sequence[str] = ()) -> list[list[Failure]]:
    """The bursts of a run of about *seconds*: at least one. Every kind occurs once before any kind occurs again."""
    rng = random.Random(seed)
    bursts: list[list[Failure]] = []
    pending: list[tuple[str, str]] = []
    total_s = 0.0
    while True:
        burst: list[Failure] = []
        taken: set[str] = set()
        delay_s = 0.0
        for _ in range(rng.randint(2, 4)):
            if not pending:
                pending = _shuffled_failures(rng, computing, idle)
            free = [failure for failure in pending if failure[0] not in taken]
            if not free:
                break
            part, kind = free[-1]
            pending.remove(free[-1])
            taken.add(part)
            burst.append(Failure(round(delay_s, 3), part, kind, round(rng.uniform(SHORTEST_S, LONGEST_S), 3)))
            delay_s += rng.uniform(0.0, APART_S)
        length_s = max(one.delay_s + one.away_s for one in burst) + QUIET_S
        if bursts and total_s + length_s > seconds:
            return bursts
        bursts.append(burst)
        total_s += length_s


def _shuffled_failures(rng: random.Random, computing: Sequence[str], idle: Sequence[str]) -> list[tuple[str, str]]:
    failures = [*OF_THE_HOST, *((rng.choice(computing), kind) for kind in OF_A_GUEST)]
    if idle:
        failures += [(rng.choice(idle), kind) for kind in OF_AN_IDLE_GUEST]
    rng.shuffle(failures)
    return failures


@dataclass(frozen=True, slots=True)
class Moment:
    """All vCPU threads at one moment: the domain and the allowed pCPUs of each thread. For each domain: the number of
    pCPUs that it used over the last second, and its CPU time since the first look."""

    at_s: float
    threads: Mapping[int, tuple[str, frozenset[int]]]
    busy_cpus: Mapping[str, float]
    used_s: Mapping[str, float]

    def allowed(self, domain: str) -> frozenset[int]:
        """The pCPUs that any vCPU of the domain may run on."""
        return frozenset[int]().union(*(cpus for name, cpus in self.threads.values() if name == domain))

    def computing(self) -> list[str]:
        """The domains that visibly compute. A domain that gets little CPU time may compute, too."""
        return sorted(name for name, cpus in self.busy_cpus.items() if cpus > COMPUTES_CPUS)


class Look:
    """Makes a moment from each round of samples, in order."""

    def __init__(self) -> None:
        self._recent: dict[int, deque[Sample]] = {}
        self._used_s: dict[str, float] = {}

    def moment(self, taken: Sequence[Sample]) -> Moment:
        """The moment of a round, which must not be empty."""
        busy: dict[str, float] = {}
        for sample in taken:
            past = self._recent.setdefault(sample.thread, deque())
            if past:
                more_s = (sample.run_ns - past[-1].run_ns) / 1e9
                self._used_s[sample.domain] = self._used_s.get(sample.domain, 0.0) + more_s
            past.append(sample)
            while len(past) > 2 and sample.monotonic_s - past[1].monotonic_s >= BUSY_WINDOW_S:
                past.popleft()
            window_s = max(1e-9, sample.monotonic_s - past[0].monotonic_s)
            ran_s = (sample.run_ns - past[0].run_ns) / 1e9
            busy[sample.domain] = busy.get(sample.domain, 0.0) + ran_s / window_s
        threads = {sample.thread: (sample.domain, sample.affinity) for sample in taken}
        return Moment(taken[0].monotonic_s, threads, busy, dict(self._used_s))


def moments(samples: Sequence[Sample]) -> list[Moment]:
    """One for each round of samples."""
    look = Look()
    return [look.moment(taken) for taken in rounds(samples)]


@dataclass(frozen=True, slots=True)
class Law:
    """What must hold for domains that compute: the pool, and the least number of own pCPUs of each domain."""

    pool: frozenset[int]
    minimum: Mapping[str, int]


def faults(moment: Moment, law: Law, programs: Iterable[str]) -> list[str]:
    """What is wrong at a moment; the text stays the same while the fault lasts. `programs`: the domains whose program
    must be computing, even if a busy machine leaves it little CPU time."""
    wrong = []
    computing = sorted({*programs, *moment.computing()})
    allowed = {name: moment.allowed(name) for name in computing}
    for one, other in itertools.combinations(computing, 2):
        if allowed[one] & allowed[other]:
            wrong.append(f"{one} and {other} compute and are not apart")
    for name in computing:
        others = frozenset[int]().union(*(cpus for other, cpus in allowed.items() if other != name))
        if len((allowed[name] & law.pool) - others) < law.minimum[name]:
            wrong.append(f"{name} has fewer pCPUs of its own than its minimum of {law.minimum[name]}")
        if allowed[name] - law.pool:
            wrong.append(f"{name} computes outside the pool")
    return wrong


def not_right(quiet: Sequence[Moment], law: Law, programs: Iterable[str]) -> list[str]:
    """Why not everything is right again after a burst: something was wrong in one of the last RECOVERED_ROUNDS moments
    of *quiet*, or a program has not gone on in *quiet*. Empty: everything is right."""
    if len(quiet) < RECOVERED_ROUNDS:
        return ["too few looks"]
    names = sorted(programs)
    first, last = quiet[0].used_s, quiet[-1].used_s
    still = [name for name in names if last.get(name, 0.0) - first.get(name, 0.0) < SURVIVED_CPU_S]
    wrong = {fault: None for moment in quiet[-RECOVERED_ROUNDS:] for fault in faults(moment, law, names)}
    return [*wrong, *(f"{name} does not go on" for name in still)]


def new_overlaps(
    seen: Sequence[Moment],
    start_s: float,
    end_s: float,
    programs: Mapping[str, Sequence[Window]],
    back_s: Sequence[float] = (),
) -> list[str]:
    """Pairs of domains that began to share a pCPU while the part that separates them was away.

    back_s: when a stopped libvirtd went on. Orders that it had got before arrive then.

    Only domains that had to compute all the time count. If something happens to the guest itself, an earlier order may
    arrive at any time later, because calls wait for a stopped QEMU. A guest that starts may run anywhere.
    """
    steady = {name for name, windows in programs.items() if any(a <= start_s and end_s <= b for a, b in windows)}
    base: Moment | None = None
    same = 0  # rounds without a change
    before: Moment | None = None
    last_s: float | None = None
    found: dict[str, None] = {}
    for moment in seen:
        if not start_s <= moment.at_s <= end_s:
            continue
        if last_s is not None and any(last_s <= at_s <= moment.at_s for at_s in back_s):
            base, before = None, None
        last_s = moment.at_s
        if base is None:
            same = same + 1 if before is not None and before.threads == moment.threads else 0
            base, before = (moment if same >= SETTLED_ROUNDS else None), moment
            continue
        for thread, other_thread in itertools.combinations(base.threads.keys() & moment.threads.keys(), 2):
            (first, allowed_first), (second, allowed_second) = moment.threads[thread], moment.threads[other_thread]
            if first == second or not {first, second} <= steady:
                continue
            new = (allowed_first & allowed_second) - (base.threads[thread][1] & base.threads[other_thread][1])
            if new:
                found[f"{' and '.join(sorted((first, second)))} came to share pCPU {sorted(new)}"] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst that happened, in times of the sampler's clock. The quiet after it is from *end_s* to *quiet_end_s*."""

    number: int
    begin_s: float
    end_s: float
    quiet_end_s: float


@dataclass
class Verdict:
    """The judge's result: all is well if `violations` is empty. `recovery_s`: by burst, the time from its end until
    everything was right and stayed right; this is not judged."""

    violations: list[str] = field(default_factory=list)
    recovery_s: dict[int, float] = field(default_factory=dict)


def judge(
    samples: Sequence[Sample],
    law: Law,
    bursts: Sequence[Burst],
    programs: Mapping[str, Sequence[Window]],
    outages: Mapping[str, Sequence[Window]],
) -> Verdict:
    """Judges a run. After each burst everything must become right and stay right. No two domains may begin to share a
    pCPU while the daemon or libvirtd is away. `programs`: by domain, when its program had to compute. `outages`: when
    the daemon and libvirtd were killed or stopped, by part.
    """
    verdict = Verdict()
    seen = moments(samples)
    for burst in bursts:
        quiet = [moment for moment in seen if burst.end_s <= moment.at_s <= burst.quiet_end_s]
        if why := not_right(quiet, law, programs):
            verdict.violations.append(f"burst {burst.number}: never right again: {'; '.join(why)}")
        wrong_s = [moment.at_s for moment in quiet if faults(moment, law, programs)]
        verdict.recovery_s[burst.number] = max(wrong_s, default=burst.end_s) - burst.end_s
    back_s = [end_s for _, end_s in outages.get(LIBVIRTD, ())]
    for part, windows in outages.items():
        for start_s, end_s in windows:
            verdict.violations += [
                f"while {part} was away (from {start_s - samples[0].monotonic_s:.2f} s on): {one}"
                for one in new_overlaps(seen, start_s, end_s, programs, back_s)
            ]
    return verdict
