"""The lines of a recording: JSON values, each on a line of its own. Every number comes back exactly as it was.

There are two kinds. A `state` line has what the decider remembers at this point. It begins every file, and follows
where the daemon forgot (another policy was set). A `decision` line has the input of one decision and its result.
"""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from vscaf_policies import PoolState, SpeedupPoint

from vscaf.config import PolicyConfig
from vscaf.core.decide.decision import DecideMemory, Decision
from vscaf.core.decide.explore import ExploreMemory

VERSION = 1


class BadLine(ValueError):
    """The text is not a line of a recording. The message says why."""


@dataclass(frozen=True, slots=True)
class State:
    """What the decider remembers. recording: when the recording began, in UTC; the time between two is not covered."""

    recording: str
    memory: DecideMemory
    explore: ExploreMemory


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a decision, as core.decide.Decision has it, after exploring.

    faults: the domains whose speedup made the policy raise. failed: it raised even without them, so shares were equal.
    """

    allocations: dict[str, int]
    sharing: frozenset[str] = frozenset()
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()
    managed: bool = True
    reasons: dict[str, str] = field(default_factory=dict)
    faults: frozenset[str] = frozenset()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. time: in UTC. pool: what it was about. steady, transition_s: see daemon.decider.Decider."""

    time: str
    pool: PoolState
    policy: PolicyConfig
    steady: float
    transition_s: float
    result: Result


Line = State | Decided


def result_of(decision: Decision, faults: frozenset[str], failed: bool) -> Result:
    """The result for a recording."""
    return Result(
        dict(decision.allocations),
        decision.sharing,
        decision.queued,
        decision.suspended,
        decision.managed,
        dict(decision.reasons),
        faults,
        failed,
    )


def without_caches(memory: DecideMemory, explore: ExploreMemory) -> tuple[DecideMemory, ExploreMemory]:
    """The memories without the parts that only save work. Decisions stay the same, and these parts have no text."""
    return replace(memory, asked=()), replace(explore, exhausted_knowledge=())


class Encoder:
    """Makes lines. A domain's points are written only if they are another object than in the line before: they change
    rarely, and exploring tells curves apart by the object."""

    def __init__(self) -> None:
        self._points: dict[str, tuple[SpeedupPoint, ...]] = {}

    def line(self, value: Line) -> bytes:
        """The line, with its end."""
        plain = msgspec.to_builtins(value, order="deterministic")
        if isinstance(value, State):
            self._points = {}
            head: dict[str, Any] = {"type": "state", "version": VERSION}
        else:
            head = {"type": "decision"}
            known, self._points = self._points, {domain.name: domain.points for domain in value.pool.domains}
            for domain, written in zip(value.pool.domains, plain["pool"]["domains"], strict=True):
                if known.get(domain.name) is domain.points:
                    del written["points"]
        # json, because msgspec writes infinities as null. The memory of exploring has some.
        return json.dumps(head | plain, separators=(",", ":")).encode() + b"\n"


class Decoder:
    """Reads the lines of an Encoder, in their order, from a state on."""

    def __init__(self) -> None:
        self._points: dict[str, tuple[SpeedupPoint, ...]] = {}
        self._begun = False

    def value(self, line: bytes | str) -> Line:
        """The value of a line. BadLine if it is none."""
        try:
            plain = json.loads(line)
            kind = plain.pop("type")
            if kind == "state":
                if plain.pop("version") != VERSION:
                    raise BadLine("it is of another version of vscaf: replay it with that version")
                self._points, self._begun = {}, True
                return msgspec.convert(plain, State)
            if kind != "decision":
                raise BadLine(f"its type is {kind!r}")
            if not self._begun:
                raise BadLine("the file does not begin with a state: its beginning is missing")
            shared = {one["name"] for one in plain["pool"]["domains"] if "points" not in one}
            for one in plain["pool"]["domains"]:
                one.setdefault("points", ())
            decided = msgspec.convert(plain, Decided)
            domains = [
                replace(one, points=self._points[one.name]) if one.name in shared else one
                for one in decided.pool.domains
            ]
        except BadLine:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # msgspec's are ValueErrors
            raise BadLine(f"{type(error).__name__}: {error}") from error
        self._points = {one.name: one.points for one in domains}
        return replace(decided, pool=replace(decided.pool, domains=tuple(domains)))
