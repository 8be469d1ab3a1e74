"""A storm of failures, and whether partitions held through it: what happens when, and the judge. Pure functions.

A run is a row of bursts: some failures close together, each of another part, then quiet, in which everything has to
come right, and to stay so over many rounds of samples. How long that takes is reported and not judged. What happens and
when follows from the seed alone. The judge sees samples from the kernel's accounting of vCPU threads, and when which
part was away; never what the daemon says.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vscaf_lab.sampler import Sample
from vscaf_lab.separation import Window, rounds

RIGHT_ROUNDS = 30  # of samples, in a row: then everything is right again, and stays so
QUIET_S = 6.0  # what that takes usually, to plan with
SETTLED_ROUNDS = 10  # of samples without a change: what was under way when a part went away has arrived
BUSY_WINDOW_S = 1.0
COMPUTES_CPUS = 0.1  # used over that window: less is a guest's idle ticks
GOES_ON_S = 0.1  # of CPU time that a program has used since a burst: it has survived

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
    time it used over the last second, and the CPU time that it has used since the first look."""

    at_s: float
    threads: Mapping[int, tuple[str, frozenset[int]]]
    busy_cpus: Mapping[str, float]
    used_s: Mapping[str, float]

    def allowed(self, domain: str) -> frozenset[int]:
        """Where any vCPU of the domain may run."""
        return frozenset[int]().union(*(cpus for name, cpus in self.threads.values() if name == domain))

    def computing(self) -> list[str]:
        """The domains that compute, as far as that is seen: who is served badly may compute, too."""
        return sorted(name for name, cpus in self.busy_cpus.items() if cpus > COMPUTES_CPUS)


class Look:
    """Makes a moment of each round of samples, one after the other."""

    def __init__(self) -> None:
        self._recent: dict[int, deque[Sample]] = {}
        self._used_s: dict[str, float] = {}

    def moment(self, taken: Sequence[Sample]) -> Moment:
        """The moment of a round that is not empty."""
        busy: dict[str, float] = {}
        for one in taken:
            past = self._recent.setdefault(one.thread, deque())
            if past:
                more_s = (one.run_ns - past[-1].run_ns) / 1e9
                self._used_s[one.domain] = self._used_s.get(one.domain, 0.0) + more_s
            past.append(one)
            while len(past) > 2 and one.monotonic_s - past[1].monotonic_s >= BUSY_WINDOW_S:
                past.popleft()
            window_s = max(1e-9, one.monotonic_s - past[0].monotonic_s)
            ran_s = (one.run_ns - past[0].run_ns) / 1e9
            busy[one.domain] = busy.get(one.domain, 0.0) + ran_s / window_s
        threads = {one.thread: (one.domain, one.affinity) for one in taken}
        return Moment(taken[0].monotonic_s, threads, busy, dict(self._used_s))


def moments(samples: Sequence[Sample]) -> list[Moment]:
    """One for each round of samples."""
    look = Look()
    return [look.moment(taken) for taken in rounds(samples)]


@dataclass(frozen=True, slots=True)
class Law:
    """What has to hold of domains that compute: the pool, and of each domain the pCPUs that are its own at least."""

    pool: frozenset[int]
    minimum: Mapping[str, int]


def faults(moment: Moment, law: Law, programs: Iterable[str]) -> list[str]:
    """What is wrong at a moment, in words that stay the same while it is. `programs`: where one has to be computing,
    however little CPU time a busy machine leaves it."""
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
    """Why not everything is right again after a burst: something was wrong in one of the last RIGHT_ROUNDS moments of
    the *quiet* since, or a program has not gone on in it. Nothing: it is."""
    if len(quiet) < RIGHT_ROUNDS:
        return ["too few looks"]
    names = sorted(programs)
    first, last = quiet[0].used_s, quiet[-1].used_s
    still = [name for name in names if last.get(name, 0.0) - first.get(name, 0.0) < GOES_ON_S]
    wrong = {fault: None for moment in quiet[-RIGHT_ROUNDS:] for fault in faults(moment, law, names)}
    return [*wrong, *(f"{name} does not go on" for name in still)]


def new_overlaps(
    seen: Sequence[Moment], start_s: float, end_s: float, programs: Mapping[str, Sequence[Window]]
) -> list[str]:
    """Pairs of domains that came to share a pCPU while nobody was there to separate them.

    Of domains that were due to compute all the while: where something happens to the guest itself, an order from before
    may arrive any time later, since calls wait for a QEMU that is stopped; and one that starts may run anywhere.
    """
    steady = {name for name, windows in programs.items() if any(a <= start_s and end_s <= b for a, b in windows)}
    base: Moment | None = None
    same = 0  # rounds without a change
    before: Moment | None = None
    found: dict[str, None] = {}
    for moment in seen:
        if not start_s <= moment.at_s <= end_s:
            continue
        if base is None:
            same = same + 1 if before is not None and before.threads == moment.threads else 0
            base, before = (moment if same >= SETTLED_ROUNDS else None), moment
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
    everything was right and stayed so; no law."""

    violations: list[str] = field(default_factory=list)
    recovery_s: dict[int, float] = field(default_factory=dict)


def judge(
    samples: Sequence[Sample],
    law: Law,
    bursts: Sequence[Burst],
    programs: Mapping[str, Sequence[Window]],
    outages: Mapping[str, Sequence[Window]],
) -> Verdict:
    """Judges a whole run: after each burst everything came right and stayed so, and nobody came to share a pCPU while
    nobody was there to separate them. `programs`: by domain, when its program had to be computing. `outages`: when the
    daemon and libvirtd were killed or stopped, by part.
    """
    verdict = Verdict()
    seen = moments(samples)
    for burst in bursts:
        quiet = [moment for moment in seen if burst.end_s <= moment.at_s <= burst.quiet_end_s]
        if why := not_right(quiet, law, programs):
            verdict.violations.append(f"burst {burst.number}: never right again: {'; '.join(why)}")
        wrong_s = [moment.at_s for moment in quiet if faults(moment, law, programs)]
        verdict.recovery_s[burst.number] = max(wrong_s, default=burst.end_s) - burst.end_s
    for part, windows in outages.items():
        for start_s, end_s in windows:
            verdict.violations += [
                f"while {part} was away (from {start_s - samples[0].monotonic_s:.2f} s on): {one}"
                for one in new_overlaps(seen, start_s, end_s, programs)
            ]
    return verdict
