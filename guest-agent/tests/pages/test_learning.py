"""What programs learned of their speedup: when they may learn, what the agent reports, and shares that follow it."""

from __future__ import annotations

from rig import EXCLUSIVE, LEARN, Rig, team_of, wait_until


def test_learning_is_permitted_under_competition(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    wait_until(lambda: program.control() == (0, 10_000), "the budget, and no permission to learn")
    rig.ack(rig.allocate(2, competition=True))
    assert program.control()[0] & LEARN
    rig.ack(rig.allocate(2, competition=False))
    assert not program.control()[0] & LEARN


def test_learning_is_permitted_to_processes_that_compete(rig: Rig) -> None:
    rig.start("--standalone", "--learn-budget", "0.25")
    first, second = rig.join(), rig.join()
    first.say("busy 1")
    wait_until(lambda: first.control() == (0, 2500), "the idle program is no competition")
    second.say("busy 1")
    wait_until(lambda: first.control()[0] == second.control()[0] == LEARN, "competition")
    second.kill()
    wait_until(lambda: first.control()[0] == 0, "the competition's end")


def test_nothing_is_learned_without_a_budget(rig: Rig) -> None:
    rig.start("--learn-budget", "0")
    program = rig.join()
    rig.ack(rig.allocate(2, competition=True))
    assert program.control() == (EXCLUSIVE, 0)


def test_reports_what_the_shim_learned(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    report = rig.message("report", lambda r: team_of(r, program.pid) == 4)
    assert not {"learning", "decomposition", "override", "long_section", "ipc"} & set(report["processes"][0])
    program.say("ipc 1250000")  # by the metric rate nothing is counted
    program.say("estimate 0 4 3100000 50000 12")
    program.say("estimate 1 2 1840000 20000 30")
    program.say("learning 40000000 8000000000 1")
    program.say("begin")
    program.say("spent 800000 30000 10000 20000 100000 40000")
    program.say("end 250000")
    # A period may end between "spent" and "end". Its report has no duration of a section yet.
    process = rig.message("report", lambda r: r["processes"][0].get("decomposition", {}).get("section_ms", 0) > 0)
    process = process["processes"][0]
    assert process["points"] == [
        {"p": 1, "speedup": 1.0, "standard_error": 0.0, "samples": 30},
        {"p": 2, "speedup": 1.84, "standard_error": 0.02, "samples": 30},
        {"p": 4, "speedup": 3.1, "standard_error": 0.05, "samples": 12},
    ]
    assert process["learning"] == {"cost": 0.04, "budget": 0.01, "used": 0.005, "metric": "ipc", "counters": True}
    assert process["decomposition"] == {
        "useful": 0.8,
        "inflation": 0.03,
        "fork": 0.01,
        "dispatch": 0.02,
        "barrier": 0.1,
        "steal": 0.04,
        "idle_rate": 0.13,
        "section_ms": 0.25,
    }
    assert process["ipc"] == 1.25
    program.say("program 64")
    process = rig.message("report", lambda r: not r["processes"][0]["learning"]["counters"])["processes"][0]


def test_estimates_left_half_written_are_unknown(rig: Rig) -> None:
    rig.start()
    program = rig.join()
    program.say("busy 1")
    rig.message("report", lambda r: team_of(r, program.pid) == 4)
    program.say("estimate 0 2 1840000 20000 30")
    rig.message("report", lambda r: len(r["processes"][0]["points"]) == 2)
    program.say("writing")
    rig.message("report", lambda r: r["processes"][0]["points"] == [])
    program.say("writing")
    rig.message("report", lambda r: len(r["processes"][0]["points"]) == 2)


def test_shares_follow_the_estimates(rig: Rig) -> None:
    rig.start()
    good, poor = rig.join(), rig.join()
    for program in (good, poor):
        program.say("busy 1")
    wait_until(lambda: (good.team(), poor.team()) == (2, 2), "equal shares while nothing is known")
    good.say("estimate 0 2 1950000 20000 30")
    poor.say("estimate 0 2 1100000 20000 30")
    wait_until(lambda: (good.team(), poor.team()) == (3, 1), "shares by speedup")


def test_equal_shares_where_they_measured_better(rig: Rig) -> None:
    """The third CPU makes a program slower. The model, which still has the larger C for it, would give it three."""
    rig.start()
    good, poor = rig.join(), rig.join()
    for program in (good, poor):
        program.say("busy 1")
    good.say("estimate 0 2 1950000 20000 30")
    poor.say("estimate 0 2 1100000 20000 30")
    wait_until(lambda: (good.team(), poor.team()) == (3, 1), "shares by the model")
    good.say("estimate 1 3 1700000 20000 30")
    wait_until(lambda: (good.team(), poor.team()) == (2, 2), "equal shares")
    good.say("estimate 1 3 2500000 20000 30")
    wait_until(lambda: (good.team(), poor.team()) == (3, 1), "shares by the model again")
