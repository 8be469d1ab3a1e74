"""Checks whether a policy keeps the contract: calls it with many pool states and reports what it breaks."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from statistics import median
from typing import cast

from vscaf_policies.bounds import competes, limits
from vscaf_policies.pool_states import as_python, pool_states, shrink, sized_pool
from vscaf_policies.state import Answer, DomainState, Options, Policy, PolicyError, PoolState

SLOW_S = 0.05
"""A slower decision is reported. It is a fifth of the period of 250 ms, in which a policy may be called twice."""

SIZES = (10, 100, 1000)
"""Numbers of domains in the pools for which decisions are timed."""

UNKNOWN_OPTION = "no-such-option"
NO_DOMAIN = PoolState(4, 1, 0.0, ())


class Verdict(StrEnum):
    """failed: the contract is broken. slow, noted: vscaf works with it; judge it yourself. passed: nothing found."""

    PASSED = "passed"
    FAILED = "failed"
    SLOW = "slow"
    NOTED = "noted"


class DidNotReturn(BaseException):
    """Raised inside a policy by a caller of check_policy that limits the time of each call. It ends the checks.

    It is not an Exception, so that a policy that catches Exception does not catch it.
    """


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    words: what is wrong, and the fix. example: Python to paste, which makes the `options` and the smallest `pool` found
    that shows the fault; empty if none is needed.
    """

    check: str
    verdict: Verdict
    words: str
    example: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy did, as values that can be compared later.

    kind: answer, nothing (None), wrong (not a valid answer), refused (PolicyError) or raised. message: what was wrong.
    """

    kind: str
    message: str = ""
    cpus: Mapping[str, int] = field(default_factory=dict)
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Text for people; long answers are cut."""
        if self.kind != "answer":
            return self.message or "None"
        shown = sorted(self.cpus.items())
        text = ", ".join(f"{name}: {cpus}" for name, cpus in shown[:6]) + (", ..." if len(shown) > 6 else "")
        waiting = sorted(self.queued | self.suspended)[:6]
        return "{" + text + "}" + (f" while {', '.join(waiting)} wait" if waiting else "")


Fault = Callable[[PoolState, Outcome], str]
"""Arguments: a state and the policy's result for it. Result: what is wrong with that, as text; empty: nothing."""


def check_policy(
    policy: Policy,
    options: Options,
    *,
    seed: int = 0,
    states: Sequence[PoolState] | None = None,
    delay_s: float = 1.1,
    sizes: Sequence[int] = SIZES,
) -> tuple[Finding, ...]:
    """Try the policy with these options on states (default: pool_states(seed)). Returns one finding for each check.

    The policy keeps the contract if no finding has the verdict failed. delay_s: time between two calls, to find a
    policy that reads a clock; above 1 s, so that it also finds one that uses whole seconds. sizes: numbers of domains
    in the pools for which decisions are timed.
    Raises nothing, whatever the policy raises. Waits without limit for a policy that does not return.
    """
    states = pool_states(seed) if states is None else states
    return _Trial(policy, options, states=states, seed=seed, delay_s=delay_s, sizes=sizes).findings()


def ask(policy: Policy, state: PoolState, options: Options) -> Outcome:
    """What the policy does with the state: its answer, or what it raised."""
    try:
        return _outcome_of(policy(state, options))
    except PolicyError as error:
        return Outcome("refused", f"PolicyError: {_one_line(error)}")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a user's policy may raise anything
        return Outcome("raised", f"{type(error).__name__}: {_one_line(error)}")


class _Trial:
    def __init__(
        self,
        policy: Policy,
        options: Options,
        *,
        states: Sequence[PoolState],
        seed: int,
        delay_s: float,
        sizes: Sequence[int],
    ) -> None:
        self._policy = policy
        self._options = options
        self._states = sorted(states, key=lambda state: len(state.domains))  # so the first that fails is small
        self._first: list[Outcome] = []
        self._seed = seed
        self._delay_s = delay_s
        self._sizes = sizes
        self._asking: tuple[PoolState, Options] = (NO_DOMAIN, options)
        self._found: list[Finding] = []

    def findings(self) -> tuple[Finding, ...]:
        try:
            self._all_checks()
        except DidNotReturn as error:
            state, options = self._asking
            smallest = shrink(state, self._hangs, seconds=10.0)
            message = f"{error}: in the daemon it would stop everything forever"
            self._note("returns", Verdict.FAILED, message, as_python(smallest, options))
        else:
            self._note("returns", Verdict.PASSED, "every call")
        return tuple(self._found)

    def _all_checks(self) -> None:
        outcome = self._ask(NO_DOMAIN)
        if outcome.kind not in ("answer", "nothing"):
            hint = "give it options that it takes" if outcome.kind == "refused" else "return an empty answer"
            message = f"for a pool without domains, with which vscaf tries it first, it gives: {outcome}; {hint}"
            self._note("options", Verdict.FAILED, message)
            return  # there is nothing else to try
        self._note("options", Verdict.PASSED, "taken")
        self._unknown_option()
        self._explores()
        self._first = [self._ask(deepcopy(state)) for state in self._states]  # it may change its argument
        self._try("raises", _what_it_raises, "nothing on any state")
        self._try("refuses", _what_it_refuses, "no state", Verdict.NOTED)
        self._leave_out("raised", "refused")
        nothing = {outcome.kind for outcome in self._first} == {"nothing"}
        self._try("answer", _wrong_answer, "always None: it changes nothing" if nothing else "CPUs by name")
        self._leave_out("wrong")
        if not self._try("arguments", self._arguments_changed, "left as they are"):
            return  # the policy has changed the states, so the other checks would prove nothing
        # A policy with several answers to one question would fail the next checks for the same reason.
        if self._try("repeated", self._not_repeatable, "the same answer twice, and for a copy"):
            self._try("order-of-domains", self._depends_on_order, "does not matter")
            if getattr(self._policy, "timeless", False):
                self._try("timeless", self._depends_on_time, "the answer does not depend on time_s")
            else:
                self._note("timeless", Verdict.PASSED, "the answer may depend on time_s")
            self._time_and_order_of_calls()
        self._try("bounds", _outside_bounds, "within bounds and pool by itself", Verdict.NOTED)
        self._time_decisions()

    def _note(self, check: str, verdict: Verdict, message: str, example: str = "") -> None:
        self._found.append(Finding(check, verdict, message, example))

    def _ask(self, state: PoolState, options: Options | None = None) -> Outcome:
        self._asking = (state, deepcopy(dict(self._options)) if options is None else options)
        return ask(self._policy, *self._asking)

    def _hangs(self, state: PoolState) -> bool:
        try:
            ask(self._policy, state, self._asking[1])
        except DidNotReturn:
            return True
        return False

    def _try(self, check: str, fault: Fault, good: str, bad: Verdict = Verdict.FAILED) -> bool:
        """Note the first state with a fault, made smaller. Returns whether there was no fault."""
        for state, outcome in zip(self._states, self._first, strict=True):
            message = fault(state, outcome)
            if message:
                smallest = self._smallest(state, fault, _hint(message))
                message = fault(smallest, self._ask(smallest)) or message
                self._note(check, bad, message, as_python(smallest, self._options))
                return False
        self._note(check, Verdict.PASSED, good if self._states else "not tried: there is no usable answer")
        return True

    def _smallest(self, state: PoolState, fault: Fault, hint: str) -> PoolState:
        return shrink(state, lambda one: _hint(fault(one, self._ask(deepcopy(one)))) == hint)

    def _leave_out(self, *kinds: str) -> None:
        """No longer use the states whose result is of one of these kinds."""
        kept = [
            (state, outcome)
            for state, outcome in zip(self._states, self._first, strict=True)
            if outcome.kind not in kinds
        ]
        self._states, self._first = [state for state, _ in kept], [outcome for _, outcome in kept]

    def _unknown_option(self) -> None:
        outcome = self._ask(NO_DOMAIN, {**self._options, UNKNOWN_OPTION: 1})
        hint = "raise PolicyError (refuse_unknown_options does), so that a misspelt option is noticed"
        if outcome.kind == "refused" and UNKNOWN_OPTION in outcome.message:
            self._note("unknown-option", Verdict.PASSED, "refused by name")
        elif outcome.kind == "refused":
            self._note("unknown-option", Verdict.NOTED, f"refused, but not by name ({outcome.message}): name it")
        else:
            did = "is accepted without a word" if outcome.kind in ("answer", "nothing") else f"gives {outcome}"
            self._note("unknown-option", Verdict.FAILED, f"an unknown option {did}: {hint}")

    def _explores(self) -> None:
        explores = getattr(self._policy, "explores", False)
        if isinstance(explores, bool):
            message = "vscaf may vary its allocations a little" if explores else "vscaf gives what it says"
            self._note("explores", Verdict.PASSED, message)
        else:
            message = f"its attribute `explores` is {explores!r}: use the decorator `exploring`, or leave it out"
            self._note("explores", Verdict.FAILED, message)

    def _arguments_changed(self, state: PoolState, outcome: Outcome) -> str:
        given, options = deepcopy(state), deepcopy(dict(self._options))
        self._ask(given, options)
        if options != self._options:
            return f"it changes its options to {options!r}: work on a copy"
        return "" if given == state else "it changes the pool that it gets: work on a copy"

    def _not_repeatable(self, state: PoolState, outcome: Outcome) -> str:
        first, second = self._ask(state), self._ask(state)
        if first != second:
            return f"called twice, it says {first}, then {second}: make it a pure function"
        third = self._ask(deepcopy(state))
        return "" if second == third else f"it says {second}, but {third} of an equal copy: compare values, not objects"

    def _depends_on_order(self, state: PoolState, outcome: Outcome) -> str:
        by_name = tuple(sorted(state.domains, key=lambda domain: domain.name))
        first = self._ask(replace(state, domains=by_name))
        shuffled = list(by_name)
        Random(self._seed).shuffle(shuffled)
        for order in (state.domains, by_name[::-1], tuple(shuffled)):
            other = self._ask(replace(state, domains=order))
            if other != first:
                names = ", ".join(domain.name for domain in order[:4]) + (", ..." if len(order) > 4 else "")
                hint = "let names decide ties" if _alike(state.domains) else "sort the domains by name first"
                return f"it says {first}, but {other} if the order in the pool is {names}: {hint}"
        return ""

    def _depends_on_time(self, state: PoolState, outcome: Outcome) -> str:
        first, later = self._ask(state), self._ask(replace(state, time_s=state.time_s + 1000.5))
        hint = "leave out the decorator `timeless`"
        return "" if first == later else f"it says {first}, but {later} at another time_s: {hint}"

    def _time_and_order_of_calls(self) -> None:
        """The answer for a state must depend neither on the clock nor on earlier calls."""
        before = [self._ask(state) for state in self._states]
        time.sleep(self._delay_s)
        later = [self._ask(state) for state in self._states]
        hint = "it reads a clock, or keeps something from call to call; the time is pool.time_s"
        if self._same("later", before, later, f"the same {self._delay_s:g} s later", hint):
            backwards = [self._ask(state) for state in reversed(self._states)][::-1]
            hint = "it depends on what it was asked before; keep nothing from call to call"
            self._same("order-of-calls", before, backwards, "does not matter", hint)

    def _same(self, check: str, before: list[Outcome], after: list[Outcome], good: str, hint: str) -> bool:
        for state, one, other in zip(self._states, before, after, strict=True):
            if one != other:
                message = f"it says {one}, and at another time {other}: {hint}"
                self._note(check, Verdict.FAILED, message, as_python(state, self._options))
                return False
        self._note(check, Verdict.PASSED, good)
        return True

    def _time_decisions(self) -> None:
        """The median over pools that are new to the policy, so that a cache does not help it."""
        times = {}
        self._ask(sized_pool(self._sizes[0], self._seed - 1))
        for size in self._sizes:
            taken_s = []
            for number in range(3):
                state = sized_pool(size, self._seed + 1 + number)
                start_s = time.perf_counter()
                self._ask(state)
                taken_s.append(time.perf_counter() - start_s)
                if taken_s[0] > 20 * SLOW_S:
                    break  # clearly slow: two more measurements would tell nothing new
            times[size] = median(taken_s)
        message = ", ".join(f"{_milliseconds(seconds)} for {size} domains" for size, seconds in times.items())
        if max(times.values()) > SLOW_S:
            message += f": above {1000 * SLOW_S:g} ms it delays the daemon"
        self._note("time", Verdict.SLOW if max(times.values()) > SLOW_S else Verdict.PASSED, message)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds > 0.01 else f"{1000 * seconds:.2g} ms"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _hint(message: str) -> str:
    """The text after the last colon, which is the same for the same fault in another state."""
    return message.rpartition(": ")[2]


def _alike(domains: Sequence[DomainState]) -> bool:
    """Whether two of them differ only in their names."""
    return len({replace(domain, name="") for domain in domains}) < len(domains)


def _outcome_of(answer: object) -> Outcome:
    if answer is None:
        return Outcome("nothing")
    whole = answer if isinstance(answer, Answer) else Answer(cast(Mapping[str, int], answer))
    answer, queued, suspended = whole.cpus, whole.queued, whole.suspended
    if inspect.iscoroutine(answer):
        answer.close()
        return Outcome("wrong", "it returns a coroutine: write def, not async def")
    if not isinstance(answer, Mapping):
        return Outcome("wrong", f"it returns {type(answer).__name__}: return CPUs by domain name, an Answer, or None")
    if not isinstance(queued, Set) or not isinstance(suspended, Set):
        return Outcome("wrong", "its queued or suspended is no set: give Answer frozensets of names")
    if not isinstance(whole.reasons, Mapping) or not all(isinstance(why, str) for why in whole.reasons.values()):
        return Outcome("wrong", "its reasons are no text by name: give Answer sentences by the names of domains")
    for name, cpus in answer.items():
        if not isinstance(name, str):
            return Outcome("wrong", f"it names {name!r} ({type(name).__name__}): name domains by their names")
        if type(cpus) is not int or cpus < 0:
            of_type = "" if type(cpus) is int else f" ({type(cpus).__name__})"
            return Outcome("wrong", f"it gives {name} {cpus!r}{of_type} CPUs: give whole numbers >= 0, made with int()")
    return Outcome("answer", "", dict(answer), frozenset(queued), frozenset(suspended))


_INSTEAD = "vscaf then gives equal shares until it answers again"


def _what_it_raises(state: PoolState, outcome: Outcome) -> str:
    return f"{outcome.message}: {_INSTEAD}" if outcome.kind == "raised" else ""


def _what_it_refuses(state: PoolState, outcome: Outcome) -> str:
    needs = "refuse only a pool that lacks what the policy needs"
    return f"{outcome.message}: {_INSTEAD}; {needs}" if outcome.kind == "refused" else ""


def _wrong_answer(state: PoolState, outcome: Outcome) -> str:
    if outcome.kind == "wrong":
        return outcome.message
    may_rest = {domain.name: domain.may_rest for domain in state.domains}
    for verb, names in (("gives CPUs to", outcome.cpus), ("queues", outcome.queued), ("suspends", outcome.suspended)):
        strangers = sorted(repr(name) for name in names if name not in may_rest)
        if strangers:
            return f"it {verb} {strangers[0]}, which is not in the pool: name only domains of the pool"
    kept = sorted(name for name in outcome.queued if not may_rest[name])
    return f"it queues {kept[0]}, which may not rest: give it CPUs, or suspend it" if kept else ""


def _outside_bounds(state: PoolState, outcome: Outcome) -> str:
    """How vscaf would correct the answer. Queued, suspended and resting domains do not count: they get no CPUs."""
    if outcome.kind != "answer":
        return ""
    counted = [one for one in state.domains if competes(one) and one.name not in outcome.queued | outcome.suspended]
    given = {domain.name: outcome.cpus.get(domain.name, domain.allocation) for domain in counted}
    whole = state.cpus // state.chunk * state.chunk
    if sum(given.values()) > whole:
        return f"it gives {sum(given.values())} CPUs of {whole}: vscaf cuts that down in the ratio of the answer"
    bounds = {domain.name: limits(domain, state.chunk) for domain in counted}
    if sum(low for low, _high in bounds.values()) > whole:
        return ""  # not all bounds can be kept
    for name, (low, high) in bounds.items():
        if not low <= given[name] <= high:
            return f"it gives {name} {given[name]} CPUs, and its bounds are {low} to {high}: vscaf keeps it within them"
        if given[name] % state.chunk:
            return f"it gives {name} {given[name]} CPUs in chunks of {state.chunk}: vscaf gives whole chunks"
    return ""
