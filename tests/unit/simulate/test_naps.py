"""Guests that often rest for a moment, on purpose or for I/O, gain nothing by it and lose little."""

import pytest
from vscaf.simulate.engine.result import Run
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.scenarios.curves import Log
from vscaf.simulate.scenarios.scenario import Guest, Host, Phase, Scenario

SETTLED_S = 20.0


def result_of(policy: str, **naps: tuple[float, float]) -> Run:
    """A run of two guests on 16 pCPUs: one scales, one does not. naps: by name, seconds that it computes and rests."""
    guests = [
        Guest(
            name=name,
            curve=Log(weight=weight),
            phases=(Phase(seconds=naps[name][0]), Phase(seconds=naps[name][1], idle=True)) if name in naps else (),
        )
        for name, weight in (("good", 6.0), ("bad", 0.3))
    ]
    result = simulate(
        Scenario(name="naps", guests=tuple(guests), host=Host(pcpus=16), seconds=120.0, settle_s=SETTLED_S), policy
    )
    assert result.violations == ()
    return result


def speedups(result: Run) -> dict[str, float]:
    return {guest.name: guest.speedup for guest in result.guests}


def mean_held(result: Run, name: str) -> float:
    """The mean number of pCPUs that it had after SETTLED_S."""
    ends_s = [*(moment.time_s for moment in result.moments[1:]), result.seconds]
    spans = [(max(SETTLED_S, one.time_s), end_s, one) for one, end_s in zip(result.moments, ends_s, strict=True)]
    held_s = sum((end_s - from_s) * one.allocations[name] for from_s, end_s, one in spans if end_s > from_s)
    return held_s / (result.seconds - SETTLED_S)


@pytest.mark.parametrize("policy", ["max-speedup", "max-speedup-fitted"])
def test_naps_bring_nothing_to_who_does_not_scale(policy: str) -> None:
    steady, napping = result_of(policy), result_of(policy, bad=(1.5, 0.75))
    assert mean_held(steady, "bad") == 1.0
    assert mean_held(napping, "bad") < 1.2, "it was 2.6 or more when it was a newcomer after each nap"
    assert speedups(napping)["good"] > 0.99 * speedups(steady)["good"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["max-speedup", "max-speedup-fitted"])
def test_who_scales_does_not_lose_by_pauses(policy: str) -> None:
    """With pauses for I/O that are too short to rest, or long enough, the speedup while it computes hardly changes."""
    steady = result_of(policy)
    short, long = result_of(policy, good=(1.75, 0.25)), result_of(policy, good=(2.0, 0.75))
    assert speedups(short)["good"] > 0.99 * speedups(steady)["good"]
    assert speedups(long)["good"] > 0.87 * speedups(steady)["good"], "it was 0.73 as a newcomer after each pause"
