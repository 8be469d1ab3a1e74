"""The checks that a policy's author can run. Each check finds the policies that break it, and only those."""

import asyncio
import configparser
import importlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vscaf.core.decide.decision import decide
from vscaf_policies import (
    Answer,
    DomainState,
    Options,
    PolicyError,
    PoolState,
    bounded_partition,
    exploring,
    refuse_unknown_options,
    timeless,
)
from vscaf_policies.conformance import DidNotReturn, Finding, Verdict, ask, check_policy
from vscaf_policies.equipartition import equipartition
from vscaf_policies.max_ipc import max_ipc
from vscaf_policies.pool_states import as_python, pool_states, shrink, sized_pool

SETUP = Path(__file__).parents[3] / "policies" / "setup.cfg"
OPTIONS: dict[str, Mapping[str, object]] = {"static": {"allocations": {"vm-00": 1, "vm-02": 2}}}


def built_in() -> dict[str, str]:
    """The policies of setup.cfg, by name: `module:function`."""
    config = configparser.ConfigParser()
    config.read(SETUP, encoding="utf-8")
    lines = config["options.entry_points"]["vscaf.policies"].strip().splitlines()
    return dict(tuple(map(str.strip, line.split("=", 1))) for line in lines)  # type: ignore[misc]


def broken(findings: tuple[Finding, ...]) -> dict[str, Verdict]:
    """The checks that did not pass, except "time": the machine may be busy, and test_a_slow_policy covers it."""
    return {one.check: one.verdict for one in findings if one.verdict is not Verdict.PASSED and one.check != "time"}


def only(findings: tuple[Finding, ...]) -> Finding:
    """The one finding that did not pass."""
    (check,) = broken(findings)
    return next(one for one in findings if one.check == check)


def sound(pool: PoolState, options: Options) -> dict[str, int]:
    """A correct answer, for policies that do only one other thing wrong."""
    refuse_unknown_options("sound", options)
    return equipartition(pool, {})


def shared(pool: PoolState, share: Callable[[DomainState], float]) -> dict[str, int]:
    return bounded_partition(pool, {domain.name: share(domain) for domain in pool.domains})


@pytest.mark.parametrize("name", built_in())
def test_built_in_policies_keep_the_contract(name: str) -> None:
    module, function = built_in()[name].split(":")
    policy = getattr(importlib.import_module(module), function)
    states = [state for state in pool_states() if len(state.domains) < 100]  # a thousand fits of curves take seconds
    findings = check_policy(policy, OPTIONS.get(name, {}), states=states, delay_s=0.01, sizes=(10, 100))
    assert [one for one in findings if one.verdict is Verdict.FAILED] == []
    assert len(findings) == 15


def test_max_ipc_refuses_few_states_only() -> None:
    states = pool_states()
    refused = [state for state in states if ask(max_ipc, state, {}).kind == "refused"]
    assert {len(state.domains) for state in refused} <= {1, 2, 3, 6} and len(refused) < len(states) / 5


def test_what_equipartition_is_told() -> None:
    findings = check_policy(equipartition, {}, delay_s=0.01)
    assert broken(findings) == {}
    assert all(one.words and not one.example for one in findings)


def test_options_that_are_needed() -> None:
    def needs(pool: PoolState, options: Options) -> None:
        if "favourite" not in options:
            raise PolicyError("option favourite: set it")
        refuse_unknown_options("needs", options, frozenset({"favourite"}))

    found = only(check_policy(needs, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("options", Verdict.FAILED) and "option favourite: set it" in found.words
    assert broken(check_policy(needs, {"favourite": "a"}, delay_s=0, sizes=(10,))) == {}


def test_a_pool_without_domains_must_not_make_it_raise() -> None:
    def average(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("average", options)
        return {domain.name: pool.cpus // len(pool.domains) for domain in pool.domains[: 8 // len(pool.domains)]}

    found = only(check_policy(average, {}, delay_s=0, sizes=(10,)))
    assert found.check == "options" and "ZeroDivisionError" in found.words and "empty answer" in found.words


def test_unknown_options() -> None:
    def takes_all(pool: PoolState, options: Options) -> dict[str, int]:
        return sound(pool, {})

    def nameless(pool: PoolState, options: Options) -> dict[str, int]:
        if options:
            raise PolicyError("no")
        return sound(pool, {})

    def key_error(pool: PoolState, options: Options) -> dict[str, int]:
        return sound(pool, {}) if not options else {}["x"]

    for policy, verdict, message in (
        (takes_all, Verdict.FAILED, "without a word"),
        (nameless, Verdict.NOTED, "not by name"),
        (key_error, Verdict.FAILED, "KeyError"),
    ):
        found = only(check_policy(policy, {}, delay_s=0, sizes=(10,)))
        assert (found.check, found.verdict) == ("unknown-option", verdict) and message in found.words


def test_timeless() -> None:
    @timeless
    def policy(state: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("it", options)
        return {one.name: 1 + int(state.time_s / 300.0) % 2 for one in state.domains}

    found = {one.check: one.verdict for one in check_policy(policy, {}, delay_s=0.0, sizes=(10,))}
    assert found["timeless"] == Verdict.FAILED


def test_explores() -> None:
    def policy(pool: PoolState, options: Options) -> dict[str, int]:
        return sound(pool, options)

    policy.explores = "yes"  # type: ignore[attr-defined]
    found = only(check_policy(policy, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("explores", Verdict.FAILED) and "'yes'" in found.words
    assert broken(check_policy(exploring(policy), {}, delay_s=0, sizes=(10,))) == {}


def test_what_it_raises_is_shown_on_the_smallest_state() -> None:
    def fails(pool: PoolState, options: Options) -> dict[str, int]:
        if pool.chunk == 2 and any(domain.newcomer for domain in pool.domains) and len(pool.domains) > 1:
            raise KeyError("vm")
        return sound(pool, options)

    found = only(check_policy(fails, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("raises", Verdict.FAILED) and "KeyError: 'vm'" in found.words
    shown: dict[str, Any] = {}
    exec(found.example, shown)
    pool = shown["pool"]
    with pytest.raises(KeyError):
        fails(pool, shown["options"])
    assert len(pool.domains) == 2 and sum(domain.newcomer for domain in pool.domains) == 1
    assert all(domain.points == () and domain.scaf_weight is None and domain.minimum == 1 for domain in pool.domains)


def test_sys_exit_is_an_error() -> None:
    def leaves(pool: PoolState, options: Options) -> dict[str, int]:
        if pool.domains:
            sys.exit(3)
        return sound(pool, options)

    assert "SystemExit: 3" in only(check_policy(leaves, {}, delay_s=0, sizes=(10,))).words


def test_policy_error_because_of_the_pool() -> None:
    def refuses(pool: PoolState, options: Options) -> dict[str, int]:
        if len(pool.domains) > pool.cpus // pool.chunk:
            raise PolicyError("too many domains")
        return sound(pool, options)

    found = only(check_policy(refuses, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("refuses", Verdict.NOTED) and "too many domains" in found.words


class WholeNumber(int):
    """Like numpy's integers it is no int for vscaf, although it looks like one."""


ANSWERS: dict[str, tuple[Callable[[PoolState], Any], str]] = {
    "list": (lambda pool: list(sound(pool, {}).items()), "returns list"),
    "text": (lambda pool: "a", "returns str"),
    "float": (lambda pool: {one.name: 1.0 for one in pool.domains}, "1.0 (float)"),
    "bool": (lambda pool: {one.name: True for one in pool.domains}, "True (bool)"),
    "other": (lambda pool: {one.name: WholeNumber(1) for one in pool.domains}, "(WholeNumber)"),
    "negative": (lambda pool: {one.name: -1 for one in pool.domains}, "-1 CPUs"),
    "domains": (lambda pool: dict.fromkeys(pool.domains, 1), "(DomainState)"),
    "stranger": (lambda pool: sound(pool, {}) | {"vm-x": 1}, "'vm-x', which is not in the pool"),
    "queued": (lambda pool: Answer(sound(pool, {}), queued=frozenset({"vm-x"})), "queues 'vm-x'"),
    "suspended": (lambda pool: Answer(sound(pool, {}), suspended=frozenset({"vm-x"})), "suspends 'vm-x'"),
    "keeps": (
        lambda pool: Answer(sound(pool, {}), queued=frozenset({one.name for one in pool.domains})),
        "may not rest",
    ),
    "no set": (lambda pool: Answer(sound(pool, {}), suspended=[]), "no set"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_are_none(kind: str) -> None:
    wrong, message = ANSWERS[kind]

    def policy(pool: PoolState, options: Options) -> Any:
        refuse_unknown_options("policy", options)
        return wrong(pool) if pool.domains else {}

    found = only(check_policy(policy, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("answer", Verdict.FAILED) and message in found.words
    shown: dict[str, Any] = {}
    exec(found.example, shown)
    assert len(shown["pool"].domains) == 1


def test_answers_that_are_good() -> None:
    def waits(pool: PoolState, options: Options) -> Answer:
        refuse_unknown_options("waits", options)
        last = max((one.name for one in pool.domains), default="")
        cannot_rest = frozenset(one.name for one in pool.domains if one.name == last and not one.may_rest)
        waiting = frozenset({last} if pool.domains else ())
        others = PoolState(pool.cpus, pool.chunk, 0.0, tuple(one for one in pool.domains if one.name != last))
        return Answer(sound(others, {}), waiting - cannot_rest, cannot_rest)

    assert broken(check_policy(waits, {}, delay_s=0, sizes=(10,))) == {}


def test_an_asynchronous_policy() -> None:
    async def policy(pool: PoolState, options: Options) -> dict[str, int]:
        return await asyncio.sleep(0, {})

    found = check_policy(policy, {}, delay_s=0, sizes=(10,))  # type: ignore[arg-type]
    assert "not async def" in found[0].words


def test_arguments_that_are_changed() -> None:
    def changes_options(pool: PoolState, options: Any) -> dict[str, int]:
        refuse_unknown_options("policy", options, frozenset({"last"}))
        options["last"] = len(pool.domains)
        return sound(pool, {})

    def changes_pool(pool: PoolState, options: Options) -> dict[str, int]:
        if pool.domains:
            object.__setattr__(pool.domains[0], "demand", 1)
        return sound(pool, options)

    for policy, options, message in ((changes_options, {"last": -1}, "options"), (changes_pool, {}, "pool")):
        found = only(check_policy(policy, options, delay_s=0, sizes=(10,)))
        assert (found.check, found.verdict) == ("arguments", Verdict.FAILED) and message in found.words


def test_chance() -> None:
    def chance(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("chance", options)
        return shared(pool, lambda domain: random.random())

    def by_identity(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("by-identity", options)
        return shared(pool, lambda domain: id(domain) % 1009)

    for policy in (chance, by_identity):
        found = only(check_policy(policy, {}, delay_s=0, sizes=(10,)))
        assert (found.check, found.verdict) == ("repeated", Verdict.FAILED)
    assert "of an equal copy" in found.words


def test_the_order_of_domains() -> None:
    def first_come(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("first-come", options)
        return shared(pool, lambda domain: 5.0 if domain is pool.domains[0] else 1.0)

    found = only(check_policy(first_come, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("order-of-domains", Verdict.FAILED) and "sort the domains" in found.words
    shown: dict[str, Any] = {}
    exec(found.example, shown)
    assert len(shown["pool"].domains) == 2


def test_ties_that_the_order_of_domains_decides() -> None:
    def most_urgent(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("most-urgent", options)
        first = max(pool.domains, key=lambda domain: (domain.priority, domain.demand), default=None)
        return shared(pool, lambda domain: 5.0 if domain is first else 1.0)

    alike = DomainState("vm-00", 1, 6, 1.0, 6, 2, True, 2.0, False, ())
    state = PoolState(6, 1, 7.0, (alike, replace(alike, name="vm-01"), replace(alike, name="vm-02")))
    found = only(check_policy(most_urgent, {}, states=[state], delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("order-of-domains", Verdict.FAILED) and "names decide ties" in found.words


def test_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy turns once a second by a clock. In this test the clock advances only during a sleep."""
    now_s = [0.5]
    monkeypatch.setattr(time, "sleep", lambda seconds: now_s.append(now_s[-1] + seconds))

    def clock(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("clock", options)
        favourite = int(now_s[-1]) % 2
        return shared(pool, lambda domain: 5.0 if domain.name == f"vm-{favourite:02d}" else 1.0)

    states = [state for state in pool_states() if len(state.domains) == 2][:2]
    found = only(check_policy(clock, {}, states=states, sizes=(10,)))
    assert (found.check, found.verdict) == ("later", Verdict.FAILED) and "pool.time_s" in found.words
    assert len(found.example) > 0


def test_a_policy_that_goes_by_the_time_it_is_given_keeps_the_contract() -> None:
    def slices(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("slices", options)
        return shared(pool, lambda domain: 5.0 if domain.name == f"vm-{int(pool.time_s) % 2:02d}" else 1.0)

    assert broken(check_policy(slices, {}, delay_s=0.01, sizes=(10,))) == {}


def test_something_kept_from_call_to_call() -> None:
    sizes = [0, 0]

    def remembers(pool: PoolState, options: Options) -> dict[str, int]:
        """Gives the first domain by name a larger share after a larger pool."""
        refuse_unknown_options("remembers", options)
        if pool.cpus != sizes[1]:
            sizes[:] = [sizes[1], pool.cpus]
        return shared(pool, lambda domain: 5.0 if domain.name == "vm-00" and sizes[0] > pool.cpus else 1.0)

    found = only(check_policy(remembers, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("order-of-calls", Verdict.FAILED) and "asked before" in found.words


def test_a_memory_that_does_not_show_is_none_of_our_business() -> None:
    known: dict[PoolState, dict[str, int]] = {}

    def cached(pool: PoolState, options: Options) -> dict[str, int]:
        if pool not in known:
            known[pool] = sound(pool, options)
        refuse_unknown_options("cached", options)
        return known[pool]

    assert broken(check_policy(cached, {}, delay_s=0.01, sizes=(10,))) == {}


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda pool: pool.cpus, "CPUs of 8: vscaf cuts that down"),
        (lambda pool: 1, "vm-00 1 CPUs, and its bounds are 2 to"),
        (lambda pool: 3, "3 CPUs in chunks of 2: vscaf gives whole chunks"),
    ],
    ids=["sum", "least", "chunks"],
)
def test_bounds(give: Callable[[PoolState], int], message: str) -> None:
    def policy(pool: PoolState, options: Options) -> dict[str, int]:
        refuse_unknown_options("policy", options)
        return {domain.name: give(pool) for domain in pool.domains}

    domains = [DomainState(f"vm-0{number}", 2, 8, 1.0, 8, 4, True, 2.0, False, ()) for number in (1, 0)]
    found = only(check_policy(policy, {}, states=[PoolState(8, 2, 7.0, tuple(domains))], delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("bounds", Verdict.NOTED)
    assert message.replace("8", "4") in found.words.replace("8", "4"), found.words


def test_bounds_of_those_that_wait_or_rest_do_not_count() -> None:
    def policy(pool: PoolState, options: Options) -> Answer:
        refuse_unknown_options("policy", options)
        return Answer({domain.name: 4 for domain in pool.domains}, queued=frozenset({"vm-00"} if pool.domains else ()))

    domain = DomainState("vm-00", 1, 4, 1.0, 4, 2, True, 2.0, False, ())
    others = (replace(domain, name="vm-01"), replace(domain, name="vm-02", demand=0, allocation=0))
    state = PoolState(4, 1, 0.0, (domain, *others))
    assert broken(check_policy(policy, {}, states=[state], delay_s=0, sizes=(10,))) == {}


def test_a_slow_policy() -> None:
    def slow(pool: PoolState, options: Options) -> dict[str, int]:
        if len(pool.domains) == 1000:
            time.sleep(0.06)
        return sound(pool, options)

    states = [state for state in pool_states() if len(state.domains) < 9]
    found = {one.check: one for one in check_policy(slow, {}, states=states, delay_s=0)}["time"]
    assert found.verdict is Verdict.SLOW and "for 1000 domains" in found.words


def test_a_policy_that_is_stopped_because_it_does_not_return() -> None:
    def hangs(pool: PoolState, options: Options) -> dict[str, int]:
        if len(pool.domains) > 2:
            raise DidNotReturn("too late")
        return sound(pool, options)

    found = only(check_policy(hangs, {}, delay_s=0, sizes=(10,)))
    assert (found.check, found.verdict) == ("returns", Verdict.FAILED) and "too late" in found.words
    shown: dict[str, Any] = {}
    exec(found.example, shown)
    assert len(shown["pool"].domains) == 3


def test_there_are_states_of_every_kind() -> None:
    states = pool_states()
    domains = [domain for state in states for domain in state.domains]
    sizes = {len(state.domains) for state in states}
    assert {0, 1, 2, 3, 1000} <= sizes and {state.chunk for state in states} == {1, 2, 4}
    assert any(state.cpus % state.chunk for state in states)
    assert any(len(state.domains) > state.cpus // state.chunk for state in states)
    assert any(sum(one.minimum for one in state.domains) > state.cpus >= len(state.domains) for state in states)
    assert any(one.minimum == one.maximum > 1 for one in domains)
    assert {True, False} == {one.newcomer for one in domains} == {one.may_rest for one in domains if not one.demand}
    assert any(one.scaf_weight is None for one in domains) and any(one.scaf_weight == 1e300 for one in domains)
    assert len({one.priority for one in domains}) > 3
    counted = [{one.ipc is None for one in state.domains} for state in states if state.domains]
    assert all(kind in counted for kind in ({True}, {False}, {True, False})) and counted[-1] == {False}
    curves = [sorted((point.cpus, point.speedup) for point in one.points) for one in domains]
    assert any(curve[0][1] > curve[-1][1] for curve in curves if len(curve) > 2)
    for state in states:
        assert (
            sum(one.allocation for one in state.domains) <= state.cpus or len(state.domains) * state.chunk > state.cpus
        )
        decide(state, equipartition, {})  # raises if the daemon would not accept the state


def test_states_come_from_the_seed_alone() -> None:
    assert pool_states(1) == pool_states(1) != pool_states(2)
    code = (
        "from vscaf_policies.pool_states import *; print(sum(len(repr(s)) for s in pool_states(3)), sized_pool(5, 3))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and str(sized_pool(5, 3)) in outputs.pop()


def test_what_is_to_be_pasted_is_the_same_state() -> None:
    for state in pool_states(5):
        made: dict[str, Any] = {}
        exec(as_python(state, {"a": {"b": 0.5}}), made)
        assert made["pool"] == state and made["options"] == {"a": {"b": 0.5}}


@pytest.mark.parametrize("least", [900, 1001], ids=["some smaller state fails", "none does"])
def test_shrinking_ends_in_time(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try takes 10 ms by the test's clock."""
    tries = 0

    def fails(one: PoolState) -> bool:
        nonlocal tries
        tries += 1
        return len(one.domains) >= least

    monkeypatch.setattr("vscaf_policies.pool_states.time", SimpleNamespace(monotonic=lambda: 0.01 * tries))
    smaller = shrink(sized_pool(1000), fails, seconds=0.5)
    assert min(least, 1000) <= len(smaller.domains) <= 1000
    assert tries <= 52


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert broken(check_policy(sound, {}, seed=7, delay_s=0, sizes=(10,))) == {}
