"""The agent's split (C) against the host's (Python): the same model and rounding, and both levels make one split."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from vscaf.core.model.scaf import domain_weight, most_weight, scaf_weight
from vscaf.core.model.trust import HostView, believed_weight
from vscaf_policies import DomainState, PoolState, SpeedupPoint, integer_partition
from vscaf_policies.max_speedup import exact_shares

SPLIT = Path(os.environ.get("VSCAF_BUILD", "build/meson")) / "guest-agent" / "split-lines"

weights = st.floats(0.05, 100.0) | st.integers(1, 8).map(float)  # small whole numbers make ties
mosts = st.integers(1, 40)
parts = st.lists(st.tuples(weights, mosts), min_size=1, max_size=12)


class AgentSplit:
    """The agent's own code in a process that is read by a pipe (guest-agent/tests/split/split_lines.c)."""

    def __init__(self) -> None:
        assert SPLIT.exists(), f"{SPLIT}: build it with tests/build-c, or set VSCAF_BUILD"
        self.process = subprocess.Popen([SPLIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, word: str, numbers: Sequence[float]) -> list[float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word} {' '.join(map(repr, numbers))}\n")
        self.process.stdin.flush()
        return [float(number) for number in self.process.stdout.readline().split()]

    def whole(self, split: Sequence[tuple[float, int]], cpus: int, chunk: int = 1) -> list[int]:
        return [int(share) for share in self.ask("whole", [cpus, chunk, *(n for part in split for n in part)])]

    def exact(self, known: Sequence[float], cpus: float) -> list[float]:
        """The split without bounds, by the weights alone."""
        return self.ask("exact", [cpus, 0.0, *(number for weight in known for number in (weight, 2**32 - 1))])

    def weight(self, points: Sequence[SpeedupPoint], cpus: int) -> float:
        """C of the points as it is believed on so many CPUs; 0: unknown."""
        (weight,) = self.ask("weight", [cpus, *as_numbers(points)])
        return weight

    def checked(self, split: Sequence[tuple[int, Sequence[SpeedupPoint]]], cpus: int, chunk: int = 1) -> list[int]:
        """The shares of processes with these maxima and points, with the check against equal shares."""
        numbers = [number for most, points in split for number in (most, 0, len(points), *as_numbers(points))]
        return [int(share) for share in self.ask("checked", [cpus, chunk, *numbers])]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.process.stdout.close()


def as_numbers(points: Sequence[SpeedupPoint]) -> list[float]:
    return [number for p in points for number in (p.cpus, p.speedup, p.standard_error, p.samples)]


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentSplit]:
    split = AgentSplit()
    yield split
    split.close()


def domain(name: str, weight: float | None) -> DomainState:
    return DomainState(
        name=name,
        minimum=1,
        maximum=4096,
        weight=1.0,
        demand=4096,
        allocation=1,
        may_rest=True,
        scaf_weight=weight,
        newcomer=False,
        points=(),
    )


def pool(cpus: int, domain_weights: Sequence[float | None]) -> PoolState:
    domains = tuple(domain(f"{i:03}", weight) for i, weight in enumerate(domain_weights))
    return PoolState(cpus=cpus, chunk=1, time_s=0.0, domains=domains)


@st.composite
def curves(draw: st.DrawFn, cpus: int) -> tuple[SpeedupPoint, ...]:
    """Points of one program on up to *cpus* CPUs: a power of p, which may be super-linear or fall, with a plateau."""
    exponent, plateau = draw(st.floats(-0.5, 1.8)), draw(st.integers(1, cpus))
    sizes = draw(st.lists(st.integers(2, cpus), min_size=1, max_size=8, unique=True))
    error = draw(st.floats(0.0, 0.2))
    speedups = {p: min(float(min(p, plateau)) ** exponent, 2.0 * p) for p in sorted(sizes)}
    return tuple(SpeedupPoint(p, s, error * s, 40) for p, s in speedups.items())


@st.composite
def machines(draw: st.DrawFn) -> tuple[int, list[list[tuple[SpeedupPoint, ...]]]]:
    """A number of CPUs, and domains with processes, each with its points."""
    cpus = draw(st.integers(6, 300))
    return cpus, draw(st.lists(st.lists(curves(cpus), min_size=1, max_size=6), min_size=1, max_size=6))


@given(machines())
@example((16, [[(SpeedupPoint(8, 16.0, 0.0, 40),)], [(SpeedupPoint(16, 16.0, 0.0, 40),)]]))  # super-linear, linear
def test_curves_are_one_flat_split(
    agent: AgentSplit, machine: tuple[int, list[list[tuple[SpeedupPoint, ...]]]]
) -> None:
    """Measured points through both levels, each with its own limits to what is believed."""
    cpus, domains = machine
    host = exact_shares(pool(cpus, [believed_weight(processes, HostView(), cpus, cpus) for processes in domains]))
    two_levels = [
        share
        for i, processes in enumerate(domains)
        for share in agent.exact([agent.weight(points, cpus) for points in processes], host[f"{i:03}"])
    ]
    flat = [min(scaf_weight(points) or 0.0, most_weight(cpus)) for processes in domains for points in processes]
    assert two_levels == pytest.approx([cpus * weight / math.fsum(flat) for weight in flat], rel=1e-9)


@given(st.lists(st.lists(weights, min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 4096))
def test_host_domain_process_is_one_flat_split(agent: AgentSplit, domains: list[list[float]], cpus: int) -> None:
    """In real numbers: max-speedup among domains, the agent in each, against SCAF's equation 4.9 on one machine."""
    shares = exact_shares(pool(cpus, [domain_weight(processes) for processes in domains]))
    two_levels = [share for i, processes in enumerate(domains) for share in agent.exact(processes, shares[f"{i:03}"])]
    flat = [weight for processes in domains for weight in processes]
    total = math.fsum(flat)
    assert two_levels == pytest.approx([cpus * weight / total for weight in flat], rel=1e-9)
    assert two_levels == pytest.approx(agent.exact(flat, cpus), rel=1e-9)
    assert math.fsum(two_levels) == pytest.approx(cpus, rel=1e-9)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 4096))
def test_nobody_known_is_equal_shares_within_each_domain(agent: AgentSplit, counts: list[int], cpus: int) -> None:
    shares = exact_shares(pool(cpus, [domain_weight([None] * count) for count in counts]))
    for i, count in enumerate(counts):
        expected = cpus / len(counts) / count
        assert agent.exact([0.0] * count, shares[f"{i:03}"]) == pytest.approx([expected] * count, rel=1e-9)


@given(st.lists(st.none() | weights, min_size=1, max_size=12), st.integers(1, 4096))
def test_unknown_is_an_equal_share_at_both_levels(
    agent: AgentSplit, known_or_not: list[float | None], cpus: int
) -> None:
    """What the host gives a newcomer among domains, the agent gives a newcomer among processes: N / k."""
    shares = agent.exact([weight or 0.0 for weight in known_or_not], cpus)
    assert shares == pytest.approx(list(exact_shares(pool(cpus, known_or_not)).values()), rel=1e-9)
    for weight, share in zip(known_or_not, shares, strict=True):
        assert weight is not None or share == pytest.approx(cpus / len(shares), rel=1e-9)


@given(parts, st.integers(0, 300), st.integers(1, 4))
@example([(1.0, 40), (3.0, 40)], 6, 1)  # a tie between weights
@example([(1.0, 40), (1.0, 40), (1.0, 40)], 8, 1)  # a tie between equals
def test_the_same_integers(agent: AgentSplit, split: list[tuple[float, int]], cpus: int, chunk: int) -> None:
    shares = agent.whole(split, cpus, chunk)
    if len(split) > cpus // chunk:  # the agent gives each process a CPU, the host leaves domains without one
        assert shares == (agent.whole(split, cpus) if chunk > 1 else [1] * len(split))
        return
    names = [f"{i:03}" for i in range(len(split))]
    expected = integer_partition(
        {name: weight for name, (weight, _) in zip(names, split, strict=True)},
        cpus,
        chunk,
        maximum={name: most for name, (_, most) in zip(names, split, strict=True)},
    )
    assert shares == [expected[name] for name in names]


@given(st.lists(st.tuples(st.floats(), mosts), min_size=1, max_size=40), st.integers(0, 300), st.integers(1, 4))
def test_laws(agent: AgentSplit, split: list[tuple[float, int]], cpus: int, chunk: int) -> None:
    """Any weight at all: everyone has something, nobody more than it can use, nothing is left that one could use."""
    shares = agent.whole(split, cpus, chunk)
    if len(split) > cpus // chunk:
        chunk = 1
    assert len(shares) == len(split) and all(share >= chunk or share == 1 for share in shares)
    most = [-(-most // chunk) * chunk for _, most in split]
    assert all(share <= bound and share % chunk == 0 for share, bound in zip(shares, most, strict=True))
    assert sum(shares) == max(len(split), min(cpus - cpus % chunk, sum(most)))


point = st.builds(
    SpeedupPoint,
    cpus=st.integers(1, 4096),
    speedup=st.floats(0.01, 2.0),
    standard_error=st.floats(0.0, 50.0),
    samples=st.integers(0, 50),
)


@given(st.lists(point, max_size=8))
def test_the_same_weight_of_the_same_points(agent: AgentSplit, points: list[SpeedupPoint]) -> None:
    scaled = [
        SpeedupPoint(p.cpus, p.speedup * p.cpus, p.standard_error, p.samples) for p in points
    ]  # up to 2 p: what the agent believes
    for cpus in (2, 64, 4096):
        expected = min(scaf_weight(scaled) or 0.0, most_weight(cpus))
        assert agent.weight(scaled, cpus) == pytest.approx(expected, rel=1e-9)


def measured_speedup(points: Sequence[SpeedupPoint], weight: float, cpus: int) -> float:
    """S(cpus) as the agent takes it: linear in ln p between the points, and beyond them with the slope C."""
    at = [0.0, *(math.log(p.cpus) for p in points)]
    speedups = [1.0, *(p.speedup for p in points)]
    beyond = max(0.0, math.log(cpus) - at[-1])
    return float(np.interp(math.log(cpus), at, speedups)) + weight * beyond


@st.composite
def guests(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, tuple[SpeedupPoint, ...]]]]:
    """CPUs, the chunk, and each process's maximum and points; some have no points."""
    cpus, chunk = draw(st.integers(6, 100)), draw(st.integers(1, 3))
    process = st.tuples(st.integers(1, 100), st.just(()) | curves(cpus))
    return cpus, chunk, draw(st.lists(process, min_size=1, max_size=8))


@given(guests())
def test_no_split_is_worse_than_equal_shares_by_what_was_measured(
    agent: AgentSplit, guest: tuple[int, int, list[tuple[int, tuple[SpeedupPoint, ...]]]]
) -> None:
    cpus, chunk, split = guest
    known = [agent.weight(points, cpus) for _, points in split]
    model = agent.whole([(weight, most) for weight, (most, _) in zip(known, split, strict=True)], cpus, chunk)
    equal = agent.whole([(0.0, most) for most, _ in split], cpus, chunk)

    def total(shares: list[int]) -> float:
        return math.fsum(
            measured_speedup(points, weight, min(share, most))
            for share, weight, (most, points) in zip(shares, known, split, strict=True)
            if weight > 0.0
        )

    shares = agent.checked(split, cpus, chunk)
    if abs(total(equal) - total(model)) <= 1e-9 * abs(total(model)):  # rounding errors may decide
        assert shares in (equal, model)
    else:
        assert shares == (equal if total(equal) > total(model) else model)
