"""What a bench recommends, from made-up figures."""

import pytest
from vscaf.bench.figures import (
    ArrangementFigures,
    Comparison,
    Figure,
    Figures,
    GroupFigures,
    Verdict,
    _comparisons,
    verdict,
)
from vscaf.bench.places.place import BASELINES
from vscaf.bench.report.recommendation import Answer, Group, Recommendation, name_of, names_of, recommend

CG, EP, LU = ("cg.W", "cg.W"), ("ep.S", "ep.S"), ("lu.W", "lu.W")
ONE = Figure(1.0, 0.9, 1.1, 5)


def ratio(value: float, width: float = 0.02, n: int = 5) -> Figure:
    width = width if n > 1 else 0.0
    return Figure(value, value * (1 - width), value * (1 + width), n)


def arrangement(name: str, *, disturbed: bool = False, verified: bool = True, **ratios: Figure) -> ArrangementFigures:
    return ArrangementFigures(name, (), (ONE, ONE), ONE, ratios, verified, 5 if disturbed else 0, disturbed)


def figures(groups: dict[Group, list[ArrangementFigures]], left_out: tuple[Group, ...] = ()) -> Figures:
    found = tuple(GroupFigures(group, tuple(some)) for group, some in groups.items())
    return Figures((), found, tuple(_comparisons(found, BASELINES)), left_out)


def to_passive(name: str, passive: float, unmanaged: float, *, n: int = 5) -> ArrangementFigures:
    return arrangement(name, passive=ratio(passive, n=n), unmanaged=ratio(unmanaged, n=n), static=ratio(1.0, n=n))


def baselines(static: float = 1.5) -> list[ArrangementFigures]:
    return [arrangement("unmanaged", static=ratio(1 / static)), arrangement("static", unmanaged=ratio(static))]


def policy(name: str, unmanaged: Figure, static: Figure, *, verified: bool = True) -> ArrangementFigures:
    return arrangement(name, unmanaged=unmanaged, static=static, verified=verified)


def text(found: Recommendation) -> str:
    return "\n".join(found.sentences)


def test_a_clear_win_is_recommended_with_the_pairs_where_it_does_not_help() -> None:
    found = recommend(
        figures(
            {
                CG: [*baselines(), policy("fair", ratio(1.5), ratio(1.0)), policy("best", ratio(1.8), ratio(1.1))],
                EP: [*baselines(), policy("fair", ratio(1.0), ratio(1.0)), policy("best", ratio(1.01), ratio(1.0))],
                LU: [*baselines(), policy("fair", ratio(0.8), ratio(1.0)), policy("best", ratio(0.9), ratio(1.0))],
            }
        )
    )
    assert (found.answer, found.policy) == (Answer.POLICY, "best")
    mean, by_hand = (1.8 * 1.01 * 0.9) ** (1 / 3), 1.1 ** (1 / 3)
    assert found.sentences[0] == (
        f"Use vscaf with the policy best on this machine: together the programs run {mean:.2f} times as fast as "
        f"without any management, and {by_hand:.2f} times as fast as on CPUs that are split by hand."
    )
    assert f"is {mean:.2f} (95% interval" in found.sentences[1] and "over 3 pairs" in found.sentences[1]
    assert "It loses in no pair against static" in text(found)
    assert "slower with it than without any management in lu.W+lu.W." in text(found)
    assert "no clear difference in ep.S+ep.S." in text(found) and "clear win in 1 of 3 pairs." in text(found)


def test_if_it_helps_everywhere_that_is_said() -> None:
    groups = {group: [*baselines(), policy("fair", ratio(1.5), ratio(1.0))] for group in (CG, LU)}
    assert "It is a clear win in every pair." in text(recommend(figures(groups)))
    del groups[LU]
    found = recommend(figures(groups))
    assert found.policy == "fair" and "It is a clear win in the only pair." in text(found)
    assert "over 1 pair." in text(found)


@pytest.mark.parametrize(("some", "word"), [([(*CG, "cg.W")], "group"), ([CG, (*CG, "cg.W")], "group"), ([CG], "pair")])
def test_programs_that_compute_at_once_are_a_pair_only_if_there_are_always_two(some: list[Group], word: str) -> None:
    found = recommend(figures({group: [*baselines(), policy("fair", ratio(1.5), ratio(1.0))] for group in some}))
    assert f"the geometric mean over {len(some)} {word}" in text(found)
    assert f"It loses in no {word} against static" in text(found)
    assert ("pair" in text(found)) is (word == "pair")


def test_without_an_effect_vscaf_does_not_help() -> None:
    some = [*baselines(1.0), policy("fair", ratio(1.01, 0.05), ratio(1.0)), policy("best", ratio(0.99), ratio(1.0))]
    found = recommend(figures({CG: some}))
    assert (found.answer, found.policy) == (Answer.NO_EFFECT, None)
    assert found.sentences[0] == (
        "vscaf does not help on this machine: with its policy fair, the programs together run 1.01 times as fast as "
        "without any management."
    )
    assert "With fair" in found.sentences[1] and "no clear difference in cg.W+cg.W." in text(found)


def test_a_policy_that_slows_programs_down_does_not_help() -> None:
    found = recommend(figures({CG: [*baselines(), policy("fair", ratio(0.7), ratio(0.6))]}))
    assert (found.answer, found.policy) == (Answer.NO_EFFECT, None)
    assert "slower with it than without any management in cg.W+cg.W." in text(found)


def test_a_policy_is_compared_with_the_better_of_passive_and_unmanaged() -> None:
    """`fair` is twice as fast as unmanaged, but passive waiting alone brings as much."""
    found = recommend(figures({CG: [arrangement("passive"), arrangement("unmanaged"), to_passive("fair", 1.01, 2.0)]}))
    assert (found.answer, found.policy) == (Answer.NO_EFFECT, None)
    assert found.sentences[0] == (
        "vscaf does not help on this machine beyond OMP_WAIT_POLICY=passive: with its policy fair, the programs "
        "together run 1.01 times as fast as with that alone."
    )
    assert "2.00 (95% interval 1.96 to 2.04) times that without any management" in found.sentences[2]
    better = recommend(figures({CG: [arrangement("passive"), arrangement("unmanaged"), to_passive("fair", 1.5, 2.0)]}))
    assert (better.answer, better.policy) == (Answer.POLICY, "fair")
    assert better.sentences[0] == (
        "Use vscaf with the policy fair on this machine: together the programs run 1.50 times as fast as with "
        "OMP_WAIT_POLICY=passive alone, and 1.00 times as fast as on CPUs that are split by hand."
    )
    # Where passive waiting is the slower one, it does not flatter a policy.
    slow = recommend(figures({CG: [arrangement("passive"), arrangement("unmanaged"), to_passive("fair", 2.0, 1.01)]}))
    assert slow.answer is Answer.NO_EFFECT and "1.01 times as fast as without any management." in slow.sentences[0]


def test_passive_alone_is_enough_to_compare() -> None:
    found = recommend(figures({CG: [arrangement("passive"), arrangement("fair", passive=ratio(1.3))]}))
    assert found.policy == "fair" and "as with OMP_WAIT_POLICY=passive alone." in found.sentences[0]
    nothing = recommend(figures({CG: [arrangement("passive"), arrangement("fair")]}))
    assert "no round has both passive and a policy" in text(nothing)


def test_a_policy_that_loses_against_static_is_passed_over() -> None:
    """`best` has the larger mean, and loses in one pair."""
    found = recommend(
        figures(
            {
                CG: [*baselines(), policy("fair", ratio(1.4), ratio(1.0)), policy("best", ratio(3.0), ratio(2.0))],
                LU: [*baselines(), policy("fair", ratio(1.4), ratio(1.0)), policy("best", ratio(1.2), ratio(0.8))],
            }
        )
    )
    assert (found.answer, found.policy) == (Answer.POLICY, "fair")
    assert "best loses against static, a partition by hand, in lu.W+lu.W." in found.sentences


def test_if_all_that_help_lose_against_static_no_policy_is_recommended() -> None:
    groups = {group: [*baselines(1.5), policy("fair", ratio(1.2), ratio(0.8))] for group in (CG, EP, LU)}
    found = recommend(figures(groups))
    assert (found.answer, found.policy) == (Answer.LOSES, None)
    assert found.sentences[0] == (
        "Split the CPUs by hand on this machine rather than with vscaf, which is slower than that for some pairs."
    )
    assert any(one.startswith("With static, the sum") and "1.50" in one for one in found.sentences)
    assert "in cg.W+cg.W, ep.S+ep.S and lu.W+lu.W." in text(found)


def test_if_everything_was_disturbed_nothing_is_recommended() -> None:
    some = [arrangement(name, disturbed=True) for name in ("unmanaged", "static", "fair")]
    found = recommend(figures({CG: some, LU: some}))
    assert (found.answer, found.policy) == (Answer.UNKNOWN, None)
    assert "the host was busy with something else" in text(found)


def test_pairs_without_undisturbed_runs_are_named() -> None:
    disturbed = [*baselines(), arrangement("fair", disturbed=True)]
    found = recommend(figures({CG: [*baselines(), policy("fair", ratio(1.5), ratio(1.0))], LU: disturbed}))
    assert found.policy == "fair" and "over 1 pair." in text(found)
    assert "Not judged, because undisturbed runs to compare are missing: lu.W+lu.W." in found.sentences


def test_one_policy_and_no_static() -> None:
    some = [arrangement("unmanaged"), arrangement("fair", unmanaged=ratio(1.3))]
    found = recommend(figures({CG: some}))
    assert (found.answer, found.policy) == (Answer.POLICY, "fair")
    assert "static was not measured" in text(found) and "loses" not in text(found)


def test_static_that_could_not_be_compared_is_not_called_measured_without_loss() -> None:
    some = [arrangement("unmanaged"), arrangement("static", disturbed=True), arrangement("fair", unmanaged=ratio(1.3))]
    found = recommend(figures({CG: some}))
    assert found.policy == "fair" and "is not known: there is no round to compare" in text(found)


@pytest.mark.parametrize(
    ("some", "reason"),
    [
        ([arrangement("static"), arrangement("fair", static=ratio(1.3))], "add passive, with which"),
        (baselines(), "No policy of vscaf was measured"),
        ([arrangement("unmanaged"), arrangement("fair")], "no round has both"),
    ],
)
def test_without_something_to_compare_the_reason_is_said(some: list[ArrangementFigures], reason: str) -> None:
    found = recommend(figures({CG: some}))
    assert (found.answer, found.policy) == (Answer.UNKNOWN, None) and reason in text(found)


def test_without_any_pair_there_is_no_recommendation() -> None:
    found = recommend(Figures((), (), (), (CG,)))
    assert found.answer is Answer.UNKNOWN and "nothing can be judged" in text(found)
    assert "Nothing has been measured yet" not in text(found)
    assert "Left out, because a program was not measured alone yet, or was wrong then: cg.W+cg.W." in found.sentences
    assert "Nothing has been measured yet" in text(recommend(Figures((), (), ())))


def test_programs_that_were_wrong_are_the_reason_why_nothing_can_be_compared() -> None:
    """Their rounds are not missing."""
    reason = "programs failed or their results were wrong, so no round can be compared"
    under_a_policy = recommend(figures({CG: [arrangement("unmanaged"), arrangement("fair", verified=False)]}))
    assert (under_a_policy.answer, under_a_policy.policy) == (Answer.UNKNOWN, None) and reason in text(under_a_policy)
    assert "Under fair, a program failed or its results were wrong (cg.W+cg.W)" in text(under_a_policy)
    unmanaged = recommend(figures({CG: [arrangement("unmanaged", verified=False), arrangement("fair")]}))
    assert reason in text(unmanaged) and "Under fair" not in text(unmanaged)


def test_a_policy_with_wrong_results_is_not_recommended() -> None:
    wrong = policy("best", ratio(3.0), ratio(2.0), verified=False)
    found = recommend(figures({CG: [*baselines(), policy("fair", ratio(1.4), ratio(1.0)), wrong]}))
    assert found.policy == "fair" and "Under best, a program failed or its results were wrong" in text(found)
    alone = recommend(figures({CG: [*baselines(), wrong]}))
    assert (alone.answer, alone.policy) == (Answer.UNKNOWN, None)


def test_a_single_round_is_called_a_preview() -> None:
    once = policy("fair", ratio(1.5, 0.0, 1), ratio(1.0, 0.0, 1))
    found = recommend(figures({CG: [*baselines(), once], LU: [*baselines(), policy("fair", ratio(1.5), ratio(1.0))]}))
    assert found.policy == "fair" and "1 pair of 2 has only one round to compare" in text(found)


def test_of_a_single_round_there_is_no_interval_and_nothing_is_clear() -> None:
    groups = {
        group: [arrangement("passive"), arrangement("unmanaged"), to_passive("fair", value, 2.0, n=1)]
        for group, value in ((CG, 1.5), (EP, 1.04))
    }
    found = recommend(figures(groups))
    assert found.sentences[0].startswith(
        "Use vscaf with the policy fair on this machine (a preview, from single rounds):"
    )
    assert found.policy == "fair" and "interval" not in text(found).replace("and so no interval", "")
    assert "clear" not in text(found) and "It is a win in 1 of 2 pairs." in text(found)
    assert "It makes no difference beyond 5% in ep.S+ep.S." in text(found)
    often = recommend(figures({CG: [arrangement("passive"), to_passive("fair", 1.04, 2.0)]}))
    once = recommend(figures({CG: [arrangement("passive"), to_passive("fair", 1.04, 2.0, n=1)]}))
    assert (often.answer, once.answer) == (Answer.POLICY, Answer.NO_EFFECT), "4% in one round may be chance"


def test_programs_that_ran_alone_tell_only_what_vscaf_costs() -> None:
    some = {
        (name,): [arrangement("unmanaged"), arrangement("fair", unmanaged=ratio(0.99))] for name in ("cg.W", "ep.S")
    }
    found = recommend(figures(some))
    assert (found.answer, found.policy) == (Answer.UNKNOWN, None)
    assert found.sentences[0] == "Each program ran alone, so this does not tell whether vscaf helps."
    assert found.sentences[1].startswith("With fair, the speed of a program is 0.99 (95% interval")
    assert found.sentences[1].endswith("over 2 programs.")
    wrong = {("cg.W",): [arrangement("unmanaged"), arrangement("fair", unmanaged=ratio(0.99), verified=False)]}
    assert "Under fair, a program failed" in text(recommend(figures(wrong)))


def test_names_of_groups() -> None:
    assert name_of(CG) == "cg.W+cg.W"
    assert names_of([CG]) == "cg.W+cg.W" and names_of([CG, LU]) == "cg.W+cg.W and lu.W+lu.W"


def test_a_policy_that_is_worse_than_static_on_average_says_so_although_no_pair_is_a_clear_loss() -> None:
    pairs = {group: [*baselines(), policy("fair", ratio(1.5), ratio(0.94))] for group in (CG, EP, LU)}
    found = recommend(figures(pairs))
    assert (found.answer, found.policy) == (Answer.POLICY, "fair")
    assert "On average a partition by hand is better: the mean ratio to static is 0.94" in text(found)
    assert "loses in no" not in text(found)


def test_in_a_single_round_a_policy_may_be_a_little_below_static_by_chance() -> None:
    once = recommend(figures({CG: [*baselines(), policy("fair", ratio(1.5, n=1), ratio(0.97, n=1))]}))
    assert "It loses in no pair against static" in text(once) and "On average" not in text(once)


def test_the_made_up_comparisons_are_judged_like_measured_ones() -> None:
    (one,) = figures({CG: [arrangement("unmanaged"), arrangement("fair", unmanaged=ratio(1.3))]}).comparisons
    assert (
        one == Comparison("fair", "unmanaged", one.mean, (CG,), (), (), one.mean.value)
        and verdict(one.mean) is Verdict.WIN
    )
