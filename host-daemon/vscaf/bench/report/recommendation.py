"""Which policy a bench recommends, in plain sentences: a pure function of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from vscaf.bench.figures import EVEN, ArrangementFigures, Comparison, Figures
from vscaf.bench.intervals import Figure
from vscaf.bench.places.place import BASELINES

Group = tuple[str, ...]


class Answer(StrEnum):
    """What a bench says about vscaf on its machine."""

    POLICY = "use a policy"
    NO_EFFECT = "vscaf does not help"
    LOSES = "every policy that helps loses against static"
    UNKNOWN = "cannot be told"


class Recommendation(msgspec.Struct, frozen=True):
    """The answer. policy: the recommended one, if there is one. sentences: the answer with its reasons, for people. The
    first one is the verdict: it is enough for who reads no more."""

    answer: Answer
    policy: str | None
    sentences: tuple[str, ...]


WITHOUT = {"passive": "with OMP_WAIT_POLICY=passive alone", "unmanaged": "without any management"}
"""The arrangements that leave the CPUs to the kernel, as a report names them."""


def recommend(figures: Figures) -> Recommendation:
    """The policy with the largest geometric mean of the ratio to CPUs that are left to the kernel, among those that
    help without a loss. The first sentence is the verdict.

    It is compared with the better one of `passive` and `unmanaged`, of those that were measured. A policy helps if the
    interval of that mean is above 1; from a single round, if the mean is above 1 + EVEN. It has no loss if no group of
    workloads is a loss against `static`. A policy under which a verification failed is not recommended.
    """
    word = word_for(figures)
    policies = sorted({one.arrangement for one in _arrangements(figures)} - set(BASELINES))
    compared = _to_the_kernel(figures, policies)
    to_static = _compared(figures, policies, "static")
    wrong = {name: groups for name in policies if (groups := _unverified(figures, name))}
    about_wrong = [_wrong(name, groups) for name, groups in wrong.items()]
    if not compared:
        why = _why_unknown(figures, policies)
        return Recommendation(Answer.UNKNOWN, None, (why, *about_wrong, *_left_out(figures)))
    if all(len(group.workloads) == 1 for group in figures.groups):
        told = (
            "Each program ran alone, so this does not tell whether vscaf helps.",
            *map(_cost, compared.values()),
        )
        return Recommendation(Answer.UNKNOWN, None, (*told, *about_wrong, *_left_out(figures)))
    right = [one for name, one in compared.items() if name not in wrong]
    helpful = [one for one in right if _is_above_1(one.mean)]
    losing = [one for one in helpful if one.arrangement in to_static and to_static[one.arrangement].losses]
    without_loss = [one for one in helpful if one not in losing]
    about_losing = [_loses(one, to_static[one.arrangement]) for one in losing]

    if not right:
        return Recommendation(Answer.UNKNOWN, None, ("No policy can be recommended.", *about_wrong))
    best = max(without_loss or losing or right, key=lambda one: one.mean.value)
    means = [_mean(best, word), *_other_means(figures, best, word)]
    if without_loss:
        answer = Answer.POLICY
        sentences = [
            _use(best, to_static),
            *means,
            _against_static(best, to_static, word, measured=_measured(figures, "static")),
            *_where_not(best, word),
        ]
    elif losing:
        answer = Answer.LOSES
        by_hand = [one for one in figures.comparisons if (one.arrangement, one.baseline) == ("static", best.baseline)]
        sentences = [
            "Split the CPUs by hand on this machine rather than with vscaf, which is slower than that for some "
            f"{word}s.",
            *(_mean(one, word) for one in (*losing, *by_hand)),
        ]
    else:
        answer = Answer.NO_EFFECT
        sentences = [_no_effect(best), *means, *_where_not(best, word)]
    return Recommendation(
        answer,
        best.arrangement if without_loss else None,
        (*sentences, *about_losing, *about_wrong, *_caveats(figures, best, word), *_left_out(figures)),
    )


def name_of(group: Group) -> str:
    """A group's name: "cg.W+lu.W"."""
    return "+".join(group)


def word_for(figures: Figures) -> str:
    """What a report calls the programs that compute at once: "pair" if there are always two, else "group"; "program" if
    there is always one."""
    sizes = {len(group.workloads) for group in figures.groups}
    return {frozenset({1}): "program", frozenset({2}): "pair"}.get(frozenset(sizes), "group")


def counted_as(count: int, word: str) -> str:
    """A number of pairs, groups or programs: "1 pair", "3 groups"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def names_of(groups: Iterable[Group]) -> str:
    """The names of some groups: "cg.W+cg.W, cg.W+lu.W and lu.W+lu.W"."""
    names = [name_of(group) for group in groups]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _arrangements(figures: Figures) -> list[ArrangementFigures]:
    return [one for group in figures.groups for one in group.arrangements]


def _compared(figures: Figures, policies: Sequence[str], baseline: str) -> dict[str, Comparison]:
    found = {one.arrangement: one for one in figures.comparisons if one.baseline == baseline}
    return {name: found[name] for name in policies if name in found}


def _to_the_kernel(figures: Figures, policies: Sequence[str]) -> dict[str, Comparison]:
    """Each policy compared with the better one of `passive` and `unmanaged`: to that its mean ratio is the smaller."""
    every = [_compared(figures, policies, baseline) for baseline in WITHOUT]
    return {
        name: min((found[name] for found in every if name in found), key=lambda one: one.mean.value)
        for name in policies
        if any(name in found for found in every)
    }


def _is_above_1(mean: Figure) -> bool:
    return mean.value > 1 + EVEN if mean.n == 1 else mean.low > 1


def _is_below_1(mean: Figure) -> bool:
    return mean.value < 1 - EVEN if mean.n == 1 else mean.high < 1


def _measured(figures: Figures, arrangement: str) -> bool:
    return any(one.arrangement == arrangement for one in _arrangements(figures))


def _unverified(figures: Figures, arrangement: str) -> list[Group]:
    return [
        group.workloads
        for group in figures.groups
        if any(one.arrangement == arrangement and not one.verified for one in group.arrangements)
    ]


def _interval(figure: Figure) -> str:
    """A figure, and its 95% interval if it has one."""
    interval = figure.interval(2)
    return f"{figure.value:.2f} (95% interval {interval})" if interval else f"{figure.value:.2f}"


def _why_unknown(figures: Figures, policies: Sequence[str]) -> str:
    if not figures.groups:
        if figures.left_out:
            return "There is no recommendation, because nothing can be judged."
        return "Nothing has been measured yet, so there is no recommendation."
    if not policies:
        return "No policy of vscaf was measured, so there is no recommendation: name one with --arrangements."
    if not any(_measured(figures, name) for name in WITHOUT):
        return "There is no recommendation: add passive, with which policies are compared, to --arrangements."
    if any(one.only_disturbed for one in _arrangements(figures)):
        return (
            "There is no recommendation: the host was busy with something else in the runs that would have to be "
            "compared. Run the bench again with --restart while the host is idle."
        )
    if not all(one.verified for one in _arrangements(figures)):
        return "There is no recommendation: programs failed or their results were wrong, so no round can be compared."
    names = " or ".join(name for name in WITHOUT if _measured(figures, name))
    return f"There is no recommendation yet: no round has both {names} and a policy."


def _wrong(policy: str, groups: Sequence[Group]) -> str:
    return f"Under {policy}, a program failed or its results were wrong ({names_of(groups)}): it is not recommended."


def _use(best: Comparison, to_static: Mapping[str, Comparison]) -> str:
    """The verdict if a policy is recommended."""
    static = to_static.get(best.arrangement)
    than_static = f", and {static.mean.value:.2f} times as fast as on CPUs that are split by hand" if static else ""
    return (
        f"Use vscaf with the policy {best.arrangement} on this machine{_preview(best)}: together the programs run "
        f"{best.mean.value:.2f} times as fast as {WITHOUT[best.baseline]}{than_static}."
    )


def _no_effect(best: Comparison) -> str:
    """The verdict if no policy helps. best: the one that comes closest."""
    beyond, other = "", WITHOUT[best.baseline]
    if best.baseline == "passive":
        beyond, other = " beyond OMP_WAIT_POLICY=passive", "with that alone"
    return (
        f"vscaf does not help on this machine{beyond}{_preview(best)}: with its policy {best.arrangement}, the "
        f"programs together run {best.mean.value:.2f} times as fast as {other}."
    )


def _preview(one: Comparison) -> str:
    return " (a preview, from single rounds)" if one.mean.n == 1 else ""


def _mean(one: Comparison, word: str) -> str:
    return (
        f"With {one.arrangement}, the sum of the programs' speedups is {_interval(one.mean)} times that "
        f"{WITHOUT[one.baseline]}: the geometric mean over {counted_as(one.groups, word)}."
    )


def _other_means(figures: Figures, best: Comparison, word: str) -> list[str]:
    """The same of the baseline that is not the better one."""
    others = [name for name in WITHOUT if name != best.baseline]
    return [
        _mean(one, word)
        for one in figures.comparisons
        if one.arrangement == best.arrangement and one.baseline in others
    ]


def _cost(one: Comparison) -> str:
    return (
        f"With {one.arrangement}, the speed of a program is {_interval(one.mean)} times that {WITHOUT[one.baseline]}: "
        f"the geometric mean over {counted_as(one.groups, 'program')}."
    )


def _against_static(best: Comparison, static: dict[str, Comparison], word: str, *, measured: bool) -> str:
    if best.arrangement in static:
        mean = static[best.arrangement].mean
        if _is_below_1(mean):
            return (
                f"On average a partition by hand is better: the mean ratio to static is {_interval(mean)}, though no "
                f"single {word} is a clear loss."
            )
        return (
            f"It loses in no {word} against static, a partition by hand: its mean ratio to that is {_interval(mean)}."
        )
    if measured:
        return "Whether it loses against static, a partition by hand, is not known: there is no round to compare."
    return "Whether a partition by hand is as good is not known: static was not measured."


def _where_not(one: Comparison, word: str) -> list[str]:
    """Where it helps and where not. Of a single round nothing is called clear."""
    out = []
    clear, no_difference = "clear ", "no clear difference"
    if one.mean.n == 1:
        clear, no_difference = "", f"no difference beyond {EVEN:.0%}"
    if one.losses:
        out.append(f"Programs are slower with it than {WITHOUT[one.baseline]} in {names_of(one.losses)}.")
    if one.even:
        out.append(f"It makes {no_difference} in {names_of(one.even)}.")
    if one.wins:
        every = f"the only {word}" if one.groups == 1 else f"every {word}"
        some = f"{len(one.wins)} of {counted_as(one.groups, word)}"
        out.append(f"It is a {clear}win in {some if out else every}.")
    return out


def _loses(one: Comparison, static: Comparison) -> str:
    return f"{one.arrangement} loses against static, a partition by hand, in {names_of(static.losses)}."


def _caveats(figures: Figures, best: Comparison, word: str) -> list[str]:
    """What limits the answer: groups that could not be compared, and comparisons from a single round."""
    out = []
    judged = {*best.wins, *best.even, *best.losses}
    if missing := [group.workloads for group in figures.groups if group.workloads not in judged]:
        out.append(f"Not judged, because undisturbed runs to compare are missing: {names_of(missing)}.")
    ratios = [
        one.ratios[best.baseline]
        for group in figures.groups
        for one in group.arrangements
        if one.arrangement == best.arrangement and best.baseline in one.ratios
    ]
    if single := sum(ratio.n == 1 for ratio in ratios):
        out.append(
            f"{counted_as(single, word)} of {len(ratios)} {'has' if single == 1 else 'have'} only one round to "
            "compare, and so no interval: take this as a preview."
        )
    return out


def _left_out(figures: Figures) -> list[str]:
    if not figures.left_out:
        return []
    return [f"Left out, because a program was not measured alone yet, or was wrong then: {names_of(figures.left_out)}."]
