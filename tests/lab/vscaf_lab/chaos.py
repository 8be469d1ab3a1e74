"""A storm of failures, and whether partitions held through it: what happens when, and the judge. Pure functions.

A run is a row of bursts: some failures close together, each of another part, then quiet, in which everything has to
come right. What happens and when follows from the seed alone. The judge sees samples from the kernel's accounting of
vCPU threads, and when which part was away; never what the daemon says.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vscaf_lab.sampler import Sample
from vscaf_lab.separation import Window, rounds

RECOVERY_S = 10.0  # after the last failure of a burst everything is right again by then
QUIET_S = RECOVERY_S + 1.5  # and stays so until the next burst
EXCUSED_S = 1.0  # a transition: two periods of 0.25 s until demand is noticed, and the deadline of 0.4 s
SETTLING_S = 0.5  # what was under way when a part went away may still arrive
BUSY_WINDOW_S = 1.0
COMPUTES_CPUS = 0.1  # used or waited for over that window: less is a guest's idle ticks
ALIVE_CPUS = 0.002  # used: a machine that serves many others leaves little

DAEMON, LIBVIRTD, VIRTLOGD = "daemon", "libvirtd", "virtlogd"
OF_THE_HOST = tuple((part, kind) for part in (DAEMON, LIBVIRTD, VIRTLOGD) for kind in ("kill", "stop"))
OF_A_GUEST = ("agent-kill", "agent-stop", "channel", "pause", "qemu-kill", "qemu-stop", "reboot", "save")
OF_AN_IDLE_GUEST = ("agent-kill", "agent-stop", "channel", "pause", "qemu-stop")  # the others make it compute
SHORTEST_S, LONGEST_S = 0.3, 4.0  # how long a part is away
APART_S = 2.0  # at most, between the begins of two failures of a burst


@dataclass(frozen=True, slots=True)
class Failure:
    """What happens to one part *delay_s* after its burst began: `kind` is one of the constants above, `away_s` how long
    the part is killed, stopped, paused or unplugged (no meaning for a reboot)."""

    delay_s: float
    part: str
    kind: str
    away_s: float


def schedule(seed: int, seconds: float, computing: Sequence[str], idle: Sequence[str] = ()) -> list[list[Failure]]:
    """The bursts of a run of about so many seconds: at least one. Every kind comes up once before any comes again."""
    dice = random.Random(seed)
    bursts: list[list[Failure]] = []
    deck: list[tuple[str, str]] = []
    total_s = 0.0
    while True:
        burst: list[Failure] = []
        taken: set[str] = set()
        delay_s = 0.0
        for _ in range(dice.randint(2, 4)):
            if not deck:
                deck = _deck(dice, computing, idle)
            free = [card for card in deck if card[0] not in taken]
            if not free:
                break
            part, kind = free[-1]
            deck.remove(free[-1])
            taken.add(part)
            burst.append(Failure(round(delay_s, 3), part, kind, round(dice.uniform(SHORTEST_S, LONGEST_S), 3)))
            delay_s += dice.uniform(0.0, APART_S)
        length_s = max(one.delay_s + one.away_s for one in burst) + QUIET_S
        if bursts and total_s + length_s > seconds:
            return bursts
        bursts.append(burst)
        total_s += length_s


def _deck(dice: random.Random, computing: Sequence[str], idle: Sequence[str]) -> list[tuple[str, str]]:
    cards = [*OF_THE_HOST, *((dice.choice(computing), kind) for kind in OF_A_GUEST)]
    if idle:
        cards += [(dice.choice(idle), kind) for kind in OF_AN_IDLE_GUEST]
    dice.shuffle(cards)
    return cards


@dataclass(frozen=True, slots=True)
class Moment:
    """All vCPU threads at one moment: of each its domain and where it may run; of each domain how many pCPUs' worth of
    time it used over the last second, and how many it used or was ready to use."""

    at_s: float
    threads: Mapping[int, tuple[str, frozenset[int]]]
    busy_cpus: Mapping[str, float]
    wanted_cpus: Mapping[str, float]

    def allowed(self, domain: str) -> frozenset[int]:
        """Where any vCPU of the domain may run."""
        return frozenset[int]().union(*(cpus for name, cpus in self.threads.values() if name == domain))

    def computing(self) -> list[str]:
        """The domains that compute."""
        return sorted(name for name, cpus in self.wanted_cpus.items() if cpus > COMPUTES_CPUS)


def moments(samples: Sequence[Sample]) -> list[Moment]:
    """One for each round of samples."""
    recent: dict[int, deque[Sample]] = {}
    found = []
    for taken in rounds(samples):
        busy: dict[str, float] = {}
        wanted: dict[str, float] = {}
        for one in taken:
            past = recent.setdefault(one.thread, deque())
            past.append(one)
            while len(past) > 2 and one.monotonic_s - past[1].monotonic_s >= BUSY_WINDOW_S:
                past.popleft()
            window_s = max(1e-9, one.monotonic_s - past[0].monotonic_s)
            ran_s, waited_s = (one.run_ns - past[0].run_ns) / 1e9, (one.wait_ns - past[0].wait_ns) / 1e9
            busy[one.domain] = busy.get(one.domain, 0.0) + ran_s / window_s
            wanted[one.domain] = wanted.get(one.domain, 0.0) + (ran_s + waited_s) / window_s
        threads = {one.thread: (one.domain, one.affinity) for one in taken}
        found.append(Moment(taken[0].monotonic_s, threads, busy, wanted))
    return found


@dataclass(frozen=True, slots=True)
class Law:
    """What has to hold of domains that compute: the pool, and of each domain the pCPUs that are its own at least."""

    pool: frozenset[int]
    minimum: Mapping[str, int]


def faults(moment: Moment, law: Law, programs: Iterable[str]) -> list[str]:
    """What is wrong at a moment, in words that stay the same while it is. `programs`: where one has to be computing."""
    wrong = []
    computing = moment.computing()
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
    wrong += [f"{name} does not go on" for name in sorted(programs) if moment.busy_cpus.get(name, 0.0) < ALIVE_CPUS]
    return wrong


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that was wrong from *start_s* to *end_s*, of which the samples came late by `late_s` in all."""

    fault: str
    start_s: float
    end_s: float
    late_s: float

    @property
    def excused(self) -> bool:
        """Whether it is no longer than a transition."""
        return self.end_s - self.start_s - self.late_s <= EXCUSED_S


def stretches(
    seen: Sequence[Moment], law: Law, programs: Mapping[str, Sequence[Window]], interval_s: float
) -> list[Stretch]:
    """Everything that was wrong, by its begin. `programs`: by domain, when its program had to be computing.
    `interval_s`: of the samples."""
    since: dict[str, tuple[float, float]] = {}
    found: list[Stretch] = []
    last_s = late_s = 0.0
    for moment in seen:
        if last_s:
            late_s += max(0.0, moment.at_s - last_s - interval_s)
        last_s = moment.at_s
        due = [name for name, windows in programs.items() if any(a <= moment.at_s <= b for a, b in windows)]
        wrong = faults(moment, law, due)
        for fault in [fault for fault in since if fault not in wrong]:
            start_s, late_before_s = since.pop(fault)
            found.append(Stretch(fault, start_s, moment.at_s, late_s - late_before_s))
        for fault in wrong:
            since.setdefault(fault, (moment.at_s, late_s))
    found += [Stretch(fault, start_s, last_s, late_s - before_s) for fault, (start_s, before_s) in since.items()]
    return sorted(found, key=lambda one: one.start_s)


def new_overlaps(
    seen: Sequence[Moment], start_s: float, end_s: float, programs: Mapping[str, Sequence[Window]]
) -> list[str]:
    """Pairs of domains that came to share a pCPU while nobody was there to separate them.

    Of domains that were due to compute all the while: where something happens to the guest itself, an order from before
    may arrive any time later, since calls wait for a QEMU that is stopped; and one that starts may run anywhere.
    """
    steady = {name for name, windows in programs.items() if any(a <= start_s and end_s <= b for a, b in windows)}
    base: Moment | None = None
    found: dict[str, None] = {}
    for moment in seen:
        if not start_s + SETTLING_S <= moment.at_s <= end_s:
            continue
        if base is None:
            base = moment
            continue
        for one, other in itertools.combinations(base.threads.keys() & moment.threads.keys(), 2):
            (first, allowed_first), (second, allowed_second) = moment.threads[one], moment.threads[other]
            if first == second or not {first, second} <= steady:
                continue
            new = (allowed_first & allowed_second) - (base.threads[one][1] & base.threads[other][1])
            if new:
                found[f"{' and '.join(sorted((first, second)))} came to share pCPU {sorted(new)}"] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst as it went, by the sampler's clock: the quiet after it is from *end_s* to *quiet_end_s*."""

    number: int
    begin_s: float
    end_s: float
    quiet_end_s: float


@dataclass
class Verdict:
    """What the judge found: nothing wrong where `violations` is empty. `recovery_s`: by burst, how long after its end
    everything was right. `unexcused_s`: how long two domains that compute were not apart, beyond transitions."""

    violations: list[str] = field(default_factory=list)
    recovery_s: dict[int, float] = field(default_factory=dict)
    unexcused_s: float = 0.0


def judge(
    samples: Sequence[Sample],
    law: Law,
    bursts: Sequence[Burst],
    programs: Mapping[str, Sequence[Window]],
    outages: Mapping[str, Sequence[Window]],
    *,
    interval_s: float,
) -> Verdict:
    """Judges a whole run. `outages`: when the daemon and libvirtd were killed or stopped, by part."""
    verdict = Verdict()
    seen = moments(samples)
    wrong = [one for one in stretches(seen, law, programs, interval_s) if not one.excused]
    verdict.unexcused_s = sum(one.end_s - one.start_s for one in wrong if "not apart" in one.fault)
    for burst in bursts:
        if burst.quiet_end_s - burst.end_s < RECOVERY_S:
            verdict.violations.append(f"burst {burst.number}: was not followed by {RECOVERY_S:g} s of quiet")
        observed = {
            name
            for moment in seen
            if burst.end_s + RECOVERY_S <= moment.at_s <= burst.quiet_end_s
            for name in moment.computing()
        }
        if missing := set(programs) - observed:
            verdict.violations.append(f"burst {burst.number}: {', '.join(sorted(missing))} did not compute after it")
        here = [one for one in wrong if one.start_s < burst.quiet_end_s and one.end_s > burst.end_s]
        verdict.recovery_s[burst.number] = max((one.end_s - burst.end_s for one in here), default=0.0)
        verdict.violations += [
            f"burst {burst.number}: {one.fault}, from {one.start_s - burst.end_s:.2f} s to "
            f"{one.end_s - burst.end_s:.2f} s after it"
            for one in here
            if one.end_s > burst.end_s + RECOVERY_S
        ]
    for part, windows in outages.items():
        for start_s, end_s in windows:
            verdict.violations += [
                f"while {part} was away (from {start_s - samples[0].monotonic_s:.2f} s on): {one}"
                for one in new_overlaps(seen, start_s, end_s, programs)
            ]
    return verdict
