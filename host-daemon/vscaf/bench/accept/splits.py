"""Two programs that scale differently: whether the policy's split is as good as the best one that is set by hand."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any

from vscaf.bench.accept.context import Context, Part
from vscaf.bench.accept.host import Host
from vscaf.bench.accept.part import Outcome, Verdict
from vscaf.bench.intervals import Figure, figure
from vscaf.bench.places.domains import DomainsPlace, Managed
from vscaf.bench.places.lab import LabMember, image_with
from vscaf.bench.places.place import Arranged
from vscaf.bench.plan import round_of_runs, splits
from vscaf.bench.samples import ALONE, RunKey, Sample, SampleFile, counted
from vscaf.bench.session import Session, Timing
from vscaf.bench.speed import alone_rate, speedups
from vscaf.bench.workloads.shipped import shipped
from vscaf.cpulist import format_cpu_list, parse_cpu_list
from vscaf.lab import Guest, PrivateLibvirt

POLICY = "max-speedup-fitted"
# The first scales little, the second well. An execution should last some tenths of a second at least.
PROGRAMS = {True: ("cg.A", "ep.A"), False: ("cg.W", "ep.S")}  # by whether guests are accelerated
CPUS, CORES = 4, 3  # the least
MOST_CORES = 8
ROUNDS, LEAST_ROUNDS = 5, 3  # at most; for a verdict
SECONDS = 4.0  # of a run
POLICY_SECONDS = 20.0  # it begins with an equal split, and learns
SETTING_S = 10.0  # to arrange the guests for a run
WITHIN = 0.10  # of the best split

Split = tuple[int, ...]


def judge(
    policy: Mapping[int, float],
    by_split: Mapping[Split, Mapping[int, float]],
    held: Split | None,
    wrong: Sequence[str] = (),
    disturbed: int = 0,
) -> Verdict:
    """The verdict from sums of speedups, by round. held: the split that the policy had longest; None: not known.
    wrong: programs whose results were wrong. disturbed: how many runs do not count, because other processes had too
    much CPU time."""
    if wrong:
        return Verdict(Outcome.FAILED, f"the verification of {' and '.join(wrong)} failed")
    rounds = sorted(number for number in policy if all(number in one for one in by_split.values()))
    busy = f"; other processes disturbed {disturbed} runs" if disturbed else ""
    if not rounds or not by_split:
        return Verdict(Outcome.FAILED, f"the time was over before one undisturbed round of all splits{busy}")
    totals = {split: figure([one[number] for number in rounds]) for split, one in by_split.items()}
    best = max(totals, key=lambda split: totals[split].value)
    ratio = figure([policy[number] / by_split[best][number] for number in rounds])
    kind = "equal" if len(set(best)) == 1 else "unequal"
    chosen = "not known" if held is None else name(held)
    figures = {
        "rounds": len(rounds),
        "splits": {name(split): as_list(total) for split, total in totals.items()},
        "policy": as_list(figure([policy[number] for number in rounds])),
        "policy_to_best": as_list(ratio),
        "best": name(best),
        "best_is": kind,
        "policy_held_longest": chosen,
        "disturbed_runs": disturbed,
    }
    told = (
        f"the sum of speedups was {ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of that with the best split, "
        f"{name(best)}, which is {kind}; the policy held {chosen} longest; rounds: {len(rounds)}{busy}"
    )
    if len(rounds) < LEAST_ROUNDS:
        return Verdict(Outcome.FAILED, f"not decided in fewer than {LEAST_ROUNDS} rounds: {told}", figures)
    if ratio.low >= 1 - WITHIN:
        return Verdict(Outcome.PASSED, told, figures)
    if ratio.high >= 1 - WITHIN:
        return Verdict(Outcome.FAILED, f"not decided: {told}", figures)
    return Verdict(Outcome.FAILED, told, figures)


def name(split: Split) -> str:
    """Text for a split: "6+2"."""
    return "+".join(map(str, split))


def as_list(one: Figure) -> list[float]:
    """Median and 95% interval."""
    return [round(one.value, 4), round(one.low, 4), round(one.high, 4)]


def core_splits(cores: int, threads: int) -> list[Split]:
    """All splits of the pool between two guests in whole cores, as numbers of CPUs."""
    return [tuple(part * threads for part in split) for split in splits(cores, 2)]


def sums(samples: Sequence[Sample], programs: Sequence[str]) -> dict[tuple[str, Split], dict[int, float]]:
    """The sum of speedups of each arrangement, by round, without disturbed runs. Empty if a program was not measured
    alone on one thread."""
    chosen = [one for one in counted(samples) if not one.disturbed]
    alone = [one for one in chosen if one.key.arrangement == ALONE]
    if not {(program,) for program in programs} <= {one.key.workloads for one in alone if one.key.threads == 1}:
        return {}
    references = [alone_rate(alone, program, 1, steady=True) for program in programs]
    found: dict[tuple[str, Split], dict[int, float]] = {}
    for one in chosen:
        if one.key.arrangement != ALONE:
            total = sum(speedups(one, references, steady=True))
            found.setdefault((one.key.arrangement, one.key.allocations), {})[one.key.round] = total
    return found


def of_splits(
    found: Mapping[tuple[str, Split], Mapping[int, float]], by_hand: Sequence[Split]
) -> dict[Split, Mapping[int, float]]:
    """The sums of each split by hand, by round. A split without undisturbed runs has none, so no round is complete."""
    return {split: found.get(("static", split), {}) for split in by_hand}


def unverified(samples: Sequence[Sample]) -> list[str]:
    """Programs with an execution that was wrong."""
    programs = [program for one in samples for program in one.programs]
    return sorted({one.workload for one in programs if not all(run.verified for run in one.executions)})


def held_longest(events: Sequence[Mapping[str, Any]], domains: Sequence[str], end: datetime) -> Split | None:
    """The split that was in force longest until *end*, of those that gave every domain CPUs. None: there was none.

    events: a daemon's, in order.
    """
    now: dict[str, int] = {}
    seconds: dict[Split, float] = {}
    since = end
    for event in events:
        if event["kind"] != "allocation" or event["domain"] not in domains:
            continue
        at = datetime.fromisoformat(event["time"])
        _count(seconds, now, domains, (at - since).total_seconds())
        since = at
        now[event["domain"]] = 0 if event["to"] == "rest" else len(parse_cpu_list(event["to"]))
    _count(seconds, now, domains, (end - since).total_seconds())
    return max(seconds, key=seconds.__getitem__) if seconds else None


def _count(seconds: dict[Split, float], now: Mapping[str, int], domains: Sequence[str], more_s: float) -> None:
    split = tuple(now.get(domain, 0) for domain in domains)
    if all(split):
        seconds[split] = seconds.get(split, 0.0) + more_s


def obstacle(host: Host) -> str | None:
    """Why this host cannot show it."""
    cores = host.equal_cores(MOST_CORES)
    cpus = len(cores) * host.threads
    if cpus < CPUS or len(cores) < CORES:
        return (
            f"unequal splits need {CPUS} CPUs and {CORES} cores, and this process may use {cpus} CPUs of "
            f"{len(cores)} cores"
        )
    return None


class NotingPlace(DomainsPlace):
    """Guests of a lab. The events of each arrangement's daemon are noted."""

    def __init__(self, context: Context, lab: PrivateLibvirt, guests: Sequence[Guest], pool: Sequence[int]) -> None:
        members = [LabMember(guest) for guest in guests]
        super().__init__(members, pool, lab, "guests of the acceptance", helpers=[lab.libvirtd_pid])
        self._context = context
        self.held: list[Split] = []

    @contextmanager
    def arrange(self, arrangement: str, allocations: Sequence[int]) -> Iterator[Arranged]:
        """As in DomainsPlace."""
        with super().arrange(arrangement, allocations) as arranged:
            yield arranged
            if isinstance(arranged, Managed):
                events = arranged.daemon.events()
                self._context.events += events
                held = held_longest(events, self.members, datetime.now(UTC))
                if held is not None:
                    self.held.append(held)


def run(context: Context) -> Verdict:
    """Runs the part."""
    cores = context.host.equal_cores(MOST_CORES)
    pool = [cpu for core in cores for cpu in core]
    programs = PROGRAMS[context.host.accelerated]
    workloads = {one.name: one for one in shipped(programs)}
    samples = SampleFile(context.logs / "samples.jsonl", {"seconds": SECONDS, "policy_seconds": POLICY_SECONDS})
    context.commands.append(f"{' and '.join(programs)} with each split of CPUs {format_cpu_list(pool)}, and {POLICY}")
    with ExitStack() as stack:
        lab = stack.enter_context(context.lab())
        image = image_with(context.image, [], lab.directory / "image")
        guests = [
            stack.enter_context(Guest(lab, one, image, vcpus=len(pool), cpuset=format_cpu_list(pool)))
            for one in ("first", "second")
        ]
        place = NotingPlace(context, lab, guests, pool)
        session = Session(
            place, workloads, samples, lambda key: Timing(seconds_of(key), (0.0, 0.0)), context.print_line
        )
        by_hand = core_splits(len(cores), context.host.threads)
        plan = [
            key
            for number in range(1, ROUNDS + 1)
            for key in round_of_runs(number, [programs], ["static", POLICY], lambda _: by_hand)
        ]
        for key in plan:
            if context.deadline.left_s() < 2 * seconds_of(key) + SETTING_S:
                break  # rounds that are not complete do not count
            session.run([key])
    found = sums(samples.samples, programs)
    return judge(
        found.get((POLICY, ()), {}),
        of_splits(found, by_hand),
        statistics.mode(place.held) if place.held else None,
        unverified(samples.samples),
        sum(one.disturbed for one in counted(samples.samples)),
    )


def seconds_of(key: RunKey) -> float:
    """How long the programs of a run compute together."""
    return POLICY_SECONDS if key.arrangement == POLICY else SECONDS


PART = Part("splits", "unequal splits of many CPUs", 330.0, obstacle, run)
