"""What the agent's split of a guest gains and loses against equal shares, for programs of many curves.

Pairs and triples of the shipped curves run in one guest, without a host. The agent's own code splits the CPUs once a
second, by points that the simulator's shim measures with noise. As in the real shim, a program remembers four team
sizes. `unchecked` is SCAF's model alone; without this suffix, equal shares are taken where they measured better.
"""

from __future__ import annotations

import itertools
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vscaf.simulate.engine.agent import Learned
from vscaf.simulate.scenarios.curves import load_curve, shipped_curves
from vscaf.simulate.scenarios.scenario import Noise

from .policies_oracle import NINE
from .policies_runs import mean_result, share_result, worst_result
from .report import Report

CPUS = (16, 36, 64)
SECONDS, SETTLE_S = 60, 30
NEWCOMER_S = 2
NOISE = Noise(speedup=0.1)
SIZES_REMEMBERED = 4
LOSS_BAR = 3.0  # %

RULES = {"": "checked", ".unchecked": "model"}
"""The word for split-lines, by the suffix of the results."""


class Program:
    def __init__(self, curve: str) -> None:
        self.curve = load_curve(curve)
        self.sizes: dict[int, Learned] = {}  # the one last used is last

    def compute(self, team: int, at_s: float, rng: random.Random) -> float:
        """Computes for a second with a team of that size, and learns from it. Returns the true speedup."""
        speedup = self.curve.speedup(team)
        if team > 1:
            learned = self.sizes.pop(team, None) or Learned(team, at_s)
            learned.since_s = at_s
            learned.learn(speedup, at_s + 1.0, NOISE, rng)
            self.sizes[team] = learned
            if len(self.sizes) > SIZES_REMEMBERED:
                del self.sizes[next(iter(self.sizes))]
        return speedup

    def points(self) -> list[float]:
        """Its estimates in the notation of split-lines, by ascending team size."""
        known = [(size, self.sizes[size].estimate(NOISE)) for size in sorted(self.sizes)]
        return [number for size, estimate in known if estimate is not None for number in (size, *estimate)]


class Guest:
    """One guest with its programs, which have equal shares at first."""

    def __init__(self, curves: Sequence[str], cpus: int) -> None:
        count = len(curves)
        self.name = f"{' '.join(curves)} on {cpus}"
        self.cpus = cpus
        self.programs = [Program(curve) for curve in curves]
        self.shares = [cpus // count + (i < cpus % count) for i in range(count)]
        self.equal = sum(one.curve.speedup(p) for one, p in zip(self.programs, self.shares, strict=True))
        self.sum = 0.0
        self.resizes = 0
        self.rng = random.Random(self.name)

    def compute(self, second: int) -> None:
        speedup = sum(
            one.compute(p, float(second), self.rng) for one, p in zip(self.programs, self.shares, strict=True)
        )
        if second >= SETTLE_S:
            self.sum += speedup

    def line(self, rule: str) -> str:
        """The question for split-lines."""
        numbers: list[float] = [self.cpus, 1]
        for program, share in zip(self.programs, self.shares, strict=True):
            points = program.points()
            numbers += [self.cpus, share, len(points) // 4, *points]
        return f"{rule} {' '.join(map(repr, numbers))}\n"

    def resize(self, answer: str, second: int) -> None:
        shares = [int(share) for share in answer.split()]
        self.resizes += second >= SETTLE_S and shares != self.shares
        self.shares = shares

    @property
    def gain(self) -> float:
        """The mean sum of speedups over that of equal shares, in %."""
        return 100.0 * (self.sum / (SECONDS - SETTLE_S) / self.equal - 1.0)


def measure(split_lines: Path, quick: bool, report: Report) -> None:
    """Adds agent.model.gain.mean, .gain.best, .loss.worst, .losses (below 0.95 of equal), .resizes, for each rule."""
    companies = [*itertools.combinations(shipped_curves(), 2), *itertools.combinations(NINE, 3)]
    cases = [(curves, cpus) for cpus in CPUS for curves in companies][:: 9 if quick else 1]
    for suffix, rule in RULES.items():
        guests = [Guest(curves, cpus) for curves, cpus in cases]
        for second in range(SECONDS):
            for guest in guests:
                guest.compute(second)
            if second < NEWCOMER_S:
                continue
            questions = "".join(guest.line(rule) for guest in guests)
            done = subprocess.run([split_lines], input=questions, capture_output=True, text=True, check=True)
            for guest, answer in zip(guests, done.stdout.splitlines(), strict=True):
                guest.resize(answer, second)
        guests.sort(key=lambda guest: guest.gain)
        gains = [guest.gain for guest in guests]
        losses = [max(0.0, -gain) for gain in gains]
        bar = "" if suffix else f"<= {LOSS_BAR:g}"
        report.add(mean_result(f"agent.model.gain.mean{suffix}", "%", gains))
        report.add(worst_result(f"agent.model.gain.best{suffix}", "%", gains))
        report.add(worst_result(f"agent.model.loss.worst{suffix}", "%", losses, bar=bar))
        report.add(share_result(f"agent.model.losses{suffix}", sum(loss > 5.0 for loss in losses), len(losses)))
        per_minute = [60.0 * guest.resizes / (SECONDS - SETTLE_S) for guest in guests]
        report.add(mean_result(f"agent.model.resizes{suffix}", "a minute", per_minute))
        report.details[f"agent.model.worst{suffix}"] = {
            guest.name: {"gain": round(guest.gain, 2), "shares": guest.shares} for guest in guests[:10]
        }
