"""`vscaf explain`: the whole text of some situations (golden/), and laws for all others."""

import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from explained import facts
from hypothesis import given
from hypothesis import strategies as st
from pools import domain, measured, pool, pools
from vscaf.core.decide.damping import Damping
from vscaf.core.decide.decision import decide
from vscaf.explain.questions import questions
from vscaf.explain.sentences import Explanation, Facts, explanation, text
from vscaf_policies import Options, PoolState
from vscaf_policies.bounds import competes
from vscaf_policies.equipartition import equipartition

GOLDEN = Path(__file__).parent / "golden"

A = domain("a", maximum=8, demand=8, points=measured((2, 1.9), (4, 3.6), (8, 6.0)))
B = domain("b", maximum=8, demand=8, points=measured((2, 1.8), (4, 2.6), (8, 3.0)))
C = domain("c", maximum=8, demand=0)
P = pool(8, A, B, C)
LEARNED = replace(P, domains=(replace(A, scaf_weight=2.0), replace(B, scaf_weight=1.2), C))
PAIR = pool(8, replace(A, demand=4), replace(B, minimum=2, weight=2.0), chunk=2)
NO_ROOM = pool(4, replace(A, minimum=3, priority=1), replace(B, minimum=3))
QUEUED = "queued: there is no room for its minimum of 3"

SITUATIONS = {
    "fitted": facts(P, "a", "max-speedup-fitted"),
    "contained": facts(P, "b", "fair", agent="no channel", state="contained"),
    "resting": facts(P, "c", "fair"),
    "damped": facts(P, "a", "max-speedup", *(replace(LEARNED, time_s=time_s) for time_s in (1.0, 1.3))),
    "exploring": facts(P, "a", "max-speedup-fitted", *(replace(P, time_s=one) for one in (1.0, 2.0)), steady=0.01),
    "shared": facts(pool(2, A, B, replace(C, demand=3)), "c", "equipartition"),
    "queued": facts(NO_ROOM, "b", "priority", state="queued", why=QUEUED),
    "cores": facts(PAIR, "a", "max-speedup-fitted", state="growing", allocation=2, partition="0-1"),
    "by hand": facts(pool(8, replace(A, maximum=4), B), "a", "static", options={"allocations": {"a": 4, "b": 2}}),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_text(name: str) -> None:
    """VSCAF_GOLDEN=write writes the texts anew: read the difference."""
    file = GOLDEN / f"{name.replace(' ', '-')}.txt"
    made = text(explanation(SITUATIONS[name])) + "\n"
    if os.environ.get("VSCAF_GOLDEN") == "write":
        file.write_text(made, encoding="utf-8")
    assert made == file.read_text(encoding="utf-8")


def test_no_text_without_a_situation() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {name.replace(" ", "-") for name in SITUATIONS}


def sentences(made: Explanation) -> list[str]:
    return [*made.now, *made.asked, *made.rules, *made.weighed, *made.held_back, *made.would_change]


STATUS = {"name": "a", "state": "unmanaged", "why": "somebody pinned it"}


@pytest.mark.parametrize(
    ("given_facts", "expected"),
    [
        (Facts(STATUS), "It is unmanaged: somebody pinned it. vscaf gives it no pCPUs of its own."),
        (Facts({"name": "a", "state": "not running", "why": ""}), "It is not running. vscaf gives it no pCPUs"),
        (Facts({**STATUS, "state": "resting"}), "There is no decision about it yet."),
        (replace(facts(P, "a", "fair"), unknown=True), "libvirt does not answer, so all of this is old."),
        (facts(P, "a", "unmanaged"), "Policy unmanaged changes nothing"),
        (
            facts(P, "a", "fair", busy_cpus=None),
            "It could use 8 pCPUs now: its agent reports so. The use of its vCPUs is not known yet.",
        ),
        (replace(facts(P, "a", "fair"), policy=None), "Policy fair cannot be loaded here"),
    ],
)
def test_what_is_not_known(given_facts: Facts, expected: str) -> None:
    assert any(line.startswith(expected) for line in sentences(explanation(given_facts)))


def test_programs_with_their_own_number_of_threads() -> None:
    own = {"section": "solve._omp_fn.2", "reason": "unknown_call", "detail": "random"}
    programs = [{"name": "one", "pid": 7, "own": own}, {"name": "other", "pid": 8, "own": None}]
    programs += [{"name": "jit", "pid": 9, "own": {"section": "", "reason": "no_object", "detail": ""}}]
    told = explanation(facts(P, "a", "fair", processes=programs)).now
    assert any(line.endswith("because solve._omp_fn.2 calls a function that is not known (random).") for line in told)
    assert any(line.startswith("jit (process 9)") and "a section is in no file" in line for line in told)
    assert not any("other" in line for line in told)


def test_a_policy_that_raises_or_says_nothing() -> None:
    def moody(state: PoolState, options: Options) -> dict[str, int]:
        if state.cpus > 8 or any(one.minimum > 1 for one in state.domains):
            raise ValueError("too much")
        return equipartition(state, options)

    told = sentences(explanation(facts(P, "a", moody)))
    assert "Policy moody: it gives no reason." in told
    assert "With 1 more pCPU in the pool the policy raises: ValueError: too much." in told
    assert any(line.startswith("Without demand of b it would have 8") for line in told)

    def broken(state: PoolState, options: Options) -> dict[str, int]:
        raise ValueError("never")

    assert any("shares are equal" in line for line in sentences(explanation(facts(P, "a", broken))))


NAMES = ("equipartition", "max-speedup", "max-speedup-fitted", "fair", "efficiency", "priority", "gang")


@given(pools, st.sampled_from(NAMES), st.data())
def test_every_situation_has_an_explanation(state: PoolState, policy: str, data: st.DataObject) -> None:
    if not state.domains:
        return
    one = data.draw(st.sampled_from(state.domains))
    known = facts(state, one.name, policy)
    made = explanation(known)
    lines = sentences(made)
    assert made.now and made.asked and made.rules and made.weighed and made.held_back
    assert all(line.endswith(".") and "\n" not in line and ".." not in line for line in lines), lines
    assert asdict(made)["domain"] == one.name
    # An answer is what is decided about the changed pool, and the question names what was changed.
    if known.policy is None or known.state is None or known.decided is None:
        return
    asked = {answered.question: answered for answered in made.what_if}
    shown = replace(
        known.decided.pool,
        domains=tuple(
            replace(each, allocation=known.decided.result.allocations[each.name]) for each in known.decided.pool.domains
        ),
    )
    held = next(each for each in shown.domains if each.name == one.name)
    for question, changed in questions(shown, held, weights_count=True):
        if question in asked:
            decision = decide(changed, known.policy, {}, known.state.memory, Damping(transition_s=0.5))
            assert asked[question].cpus == decision.allocations[one.name]
    if competes(held):
        assert any(question.startswith("with 1 more pCPU") or "more pCPUs" in question for question in asked)
