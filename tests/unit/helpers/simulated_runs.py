"""Runs made by hand, for tests of the code that shows runs."""

from collections.abc import Mapping

from vscaf.simulate.engine.result import GuestResult, Moment, Run
from vscaf.simulate.report.document import Outcomes
from vscaf.simulate.report.summary import Oracle
from vscaf.simulate.scenarios.scenario import Amdahl, Guest, Host, Log, Scenario
from vscaf.simulate.sweep import Failure


def two_guests(**keys: object) -> Scenario:
    """A scenario on 16 pCPUs: `one` scales, `two` scales less. *keys* replace fields of it."""
    base: dict[str, object] = {
        "name": "two guests",
        "title": "One that scales, one that does not",
        "source": "made up, for $10",
        "seconds": 40.0,
        "host": Host(pcpus=16),
        "guests": (
            Guest(name="one", curve=Amdahl(serial=0.02)),
            Guest(name="two", curve=Log(weight=1.5), start_s=5.0),
        ),
    }
    return Scenario(**{**base, **keys})  # type: ignore[arg-type]


def a_run(
    policy: str,
    speedups: Mapping[str, float],
    moments: Mapping[float, Mapping[str, int]],
    *,
    seed: int = 1,
    end_s: float | None = None,
    converged: int | None = 12,
    violations: tuple[str, ...] = (),
    wall_s: float = 0.5,
) -> Run:
    """A run of `two_guests`. moments: allocations by the time (s) from which they hold."""
    total = sum(speedups.values())
    return Run(
        scenario="two guests",
        policy=policy,
        seed=seed,
        seconds=40.0,
        pcpus=16,
        guests=tuple(
            GuestResult(name, f"curve of {name}", 5.0 if name == "two" else 0.0, end_s, 100.0, speedup, None)
            for name, speedup in speedups.items()
        ),
        moments=tuple(Moment(time_s, dict(allocations)) for time_s, allocations in moments.items()),
        decisions=160,
        sum_of_speedups=total,
        efficiency=total / 16,
        transitions=max(0, len(moments) - 1),
        moved_cpus=9,
        exploration_cost=0.0125 if policy == "fitted" else 0.0,
        converged_periods=converged,
        violations=violations,
        wall_s=wall_s,
    )


EQUAL = a_run("equipartition", {"one": 7.0, "two": 4.0}, {0.0: {"one": 16}, 5.25: {"one": 8, "two": 8}})
FITTED = a_run(
    "fitted",
    {"one": 9.0, "two": 3.5},
    {
        0.0: {"one": 16},
        5.25: {"one": 8, "two": 8},
        8.0: {"one": 11, "two": 5},
        9.0: {"one": 13, "two": 3},
        12.0: {"one": 12, "two": 4},
        30.0: {"one": 13, "two": 3},
        31.0: {"one": 12, "two": 4},
    },
)
UNMANAGED = a_run("unmanaged", {"one": 4.0, "two": 2.0}, {0.0: {"one": 0, "two": 0}}, converged=0)


def outcomes() -> Outcomes:
    """Three runs, one that failed, and an oracle."""
    failed = Failure("two guests", "broken", 1, "ZeroDivisionError: division by zero")
    return Outcomes(two_guests(), {1: Oracle(12.75, {"one": 12, "two": 4})}, (UNMANAGED, EQUAL, FITTED, failed))
