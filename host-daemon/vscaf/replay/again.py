"""Makes recorded decisions again: as they were recorded, or by another policy. Pure, except for policies' caches."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from vscaf_policies import Policy, PolicyError, PoolState

from vscaf.config import PolicyConfig
from vscaf.core.decide.damping import with_allocations
from vscaf.core.decide.decision import DecideMemory
from vscaf.daemon.decider import Decider
from vscaf.errors import UsageError
from vscaf.record.lines import Decided, Line, Result, State, result_of

Policies = Mapping[str, Policy]
"""The functions of the recorded policies, by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first decision that is not as recorded. number: counted from 1. what: the field of Result that differs."""

    number: int
    time: str
    what: str
    recorded: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Moment:
    """A pool and what was decided about it. seconds: until the next decision, 0 if that is not recorded."""

    pool: PoolState
    result: Result
    seconds: float


def first_difference(lines: Iterable[Line], policy_of: "PolicyOf") -> tuple[int, Difference | None]:
    """Makes every decision again with the recorded input. Returns how many there were, and the first that differs.

    UsageError if a recorded policy cannot be loaded, or if the lines do not begin with a state.
    """
    decider, memory, number = Decider(0.0), None, 0
    for line in lines:
        if isinstance(line, State):
            decider.go_on_from(line.explore)
            memory = line.memory
            continue
        if memory is None:
            raise UsageError("the recording does not begin with a state: give its files from the beginning of one")
        number += 1
        result, memory = _decided(decider, line, line.pool, policy_of(line.policy.name), line.policy, memory)
        for field in fields(Result):
            recorded, now = getattr(line.result, field.name), getattr(result, field.name)
            if recorded != now:
                return number, Difference(number, line.time, field.name, recorded, now)
    return number, None


def as_recorded(lines: Iterable[Line]) -> Iterator[Moment]:
    """What the daemon decided."""
    for line, seconds in _with_seconds(lines):
        yield Moment(line.pool, line.result, seconds)


def by_policy(lines: Iterable[Line], policy: Policy, chosen: PolicyConfig) -> Iterator[Moment]:
    """What *policy* would have decided. Each domain begins with the pCPUs that it had when it was first recorded.

    Demand, speedups and rules are as recorded: what the guests would have reported on other sizes is not known.
    """
    decider, memory, held = Decider(0.0), DecideMemory(), dict[str, int]()
    for line, seconds in _with_seconds(lines):
        pool = with_allocations(line.pool, held)
        result, memory = _decided(decider, line, pool, policy, chosen, memory)
        held = dict(result.allocations) if result.managed else {}
        yield Moment(pool, result, seconds)


class PolicyOf:
    """Finds the functions of policies, by name, once each. find: raises UsageError if there is none."""

    def __init__(self, find: Any) -> None:
        self._find = find
        self._found: dict[str, Policy] = {}

    def __call__(self, name: str) -> Policy:
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]


def _decided(  # noqa: PLR0917 (what it depends on)
    decider: Decider, line: Decided, pool: PoolState, policy: Policy, chosen: PolicyConfig, memory: DecideMemory
) -> tuple[Result, DecideMemory]:
    if line.steady != decider.steady:
        decider.limit_exploring(line.steady)
    decider.transition_s = line.transition_s
    decision = decider.decide_shown(pool, policy, chosen.options, memory)
    failed = decider.policy_error is not None
    return result_of(decision, frozenset(decider.faults), failed), decision.memory


def _with_seconds(lines: Iterable[Line]) -> Iterator[tuple[Decided, float]]:
    """Each decision, and the seconds to the next one of the same recording."""
    before: Decided | None = None
    recording = before_recording = ""
    for line in lines:
        if isinstance(line, State):
            recording = line.recording
            continue
        if before is not None:
            passed_s = line.pool.time_s - before.pool.time_s if recording == before_recording else 0.0
            yield before, max(0.0, passed_s)
        before, before_recording = line, recording
    if before is not None:
        yield before, 0.0


def refuse_bad_options(policy: Policy, chosen: PolicyConfig) -> None:
    """UsageError if the policy does not take these options: then every decision would be by equal shares."""
    try:
        policy(PoolState(1, 1, 0.0, ()), chosen.options)
    except PolicyError as error:
        raise UsageError(str(error)) from error
