"""The reasons that policies give: about every domain that competes, with the numbers that decided."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from pools import domain, measured, pool, pools
from vscaf_policies import Answer, Options, PoolState, explained_by, load_policy, reasons_for
from vscaf_policies.bounds import competes
from vscaf_policies.conformance import Verdict, check_policy
from vscaf_policies.equipartition import equipartition

A = domain("a", points=measured((2, 1.9), (4, 3.5), (6, 4.2)), maximum=8)
B = domain("b", points=measured((2, 1.8), (4, 3.0)), maximum=8)
GOOD = domain("good", scaf_weight=3.0, ipc=1.5)
POOL = pool(8, A, B, GOOD, domain("new", newcomer=True, ipc=1.0), domain("idle", demand=0))
OPTIONS: Mapping[str, Options] = {"static": {"allocations": {"a": 2}}}
EXPECTED = {
    "equipartition": {"a": "its share is 1 of 4 in all, which is 2.00 of 8 CPUs"},
    "max-speedup": {
        "good": "its C is 3.00: 2.00 of 8 CPUs by eq. 4.9, before bounds",
        "a": "its C is not known, so its share is an equal one: 2.00 of 8 CPUs by eq. 4.9, before bounds",
    },
    "static": {
        "a": "the option allocations gives it 2",
        "b": "the option allocations does not name it: it keeps what it has",
    },
    "fair": {"new": "what CPUs are worth to it is not known (it is a newcomer): it gets an equal share"},
    "priority": {"a": "its priority is 0 and its minimum 1: it is admitted"},
    "gang": {"a": "4 gangs have the pool for 2 s each: it is in gang 1, of 1 domain"},
    "unmanaged": {},
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_sentences(name: str) -> None:
    made = reasons_for(load_policy(name), POOL, OPTIONS.get(name, {}))
    assert {one: made[one] for one in EXPECTED[name]} == EXPECTED[name]
    assert "idle" not in made or name == "static"


def test_what_a_cpu_more_and_less_are_worth() -> None:
    """The figures are those that the policy compares: the sum does not grow by moving a CPU."""
    state = pool(6, A, B)
    made = reasons_for(load_policy("fair"), state, {})
    assert made["a"].startswith("weight x log(speedup) is ") and "b would lose least if it gave 1 CPU: " in made["a"]
    gain = float(made["a"].rpartition("(+")[2].partition(")")[0])
    assert gain < float(made["a"].rpartition(": ")[2]), "the policy should have moved this CPU"
    alone = reasons_for(load_policy("max-speedup-fitted"), pool(4, A), {})["a"]
    assert alone.endswith("it can use no more")
    limited = pool(8, replace(A, demand=8), replace(B, demand=8, points=measured((2, 1.01), (4, 1.02))))
    text = reasons_for(load_policy("max-speedup-fitted"), limited, {"most_of_equal": 1})["a"]
    assert text.endswith("4 CPUs are the most that the option most_of_equal lets it have")


@given(pools)
def test_reasons_are_given_for_all_that_compete(state: PoolState) -> None:
    known = replace(state, domains=tuple(replace(one, ipc=1.0) for one in state.domains))
    for name in (
        "equipartition",
        "max-speedup",
        "max-speedup-fitted",
        "fair",
        "efficiency",
        "max-ipc",
        "priority",
        "gang",
    ):
        made = reasons_for(load_policy(name), known, {})
        assert {one.name for one in known.domains if competes(one)} <= made.keys()
        assert all(why and "nan" not in why and "\n" not in why for why in made.values()), (name, made)


def test_a_policy_without_reasons_and_one_with_both_ways() -> None:
    def silent(state: PoolState, options: Options) -> dict[str, int]:
        return equipartition(state, options)

    @explained_by(lambda state, options, cpus: {"a": f"it gets {cpus['a']}", "b": "declared"})
    def told(state: PoolState, options: Options) -> Answer:
        return Answer(equipartition(state, options), reasons={"b": "answered"})

    assert reasons_for(silent, POOL, {}) == {}
    assert reasons_for(told, POOL, {}) == {"a": "it gets 2", "b": "answered"}


def test_the_check_of_policies_refuses_reasons_that_are_none() -> None:
    def policy(state: PoolState, options: Options) -> Answer:
        return Answer(equipartition(state, options), reasons=["because"])  # type: ignore[arg-type]

    found = [one for one in check_policy(policy, {}) if one.verdict == Verdict.FAILED]
    assert any("its reasons are no text by name" in one.words for one in found)
