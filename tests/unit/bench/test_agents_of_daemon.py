"""A bench waits for the guests' agents and for the first decision before it starts programs under a policy. The
daemon's answers are made up here; tests/driver/test_bench_existing.py has a real one."""

from types import SimpleNamespace

import pytest
from vscaf.bench.places.domains import wait_for_agents, wait_for_decision
from vscaf.bench.places.place import PlaceError
from vscaf.lab.daemon import DaemonProcess


class Daemon(DaemonProcess):
    """Its answers to `status`, in order; the last one again and again."""

    def __init__(self, directory, *answers):
        super().__init__(SimpleNamespace(uri="test:///default", directory=directory, logs=directory), "0", {})
        self.answers = list(answers)
        self.asked = 0

    def status(self):
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def agents(**conditions):
    """A status with the conditions of the domains' agents."""
    return {"domains": [{"name": name, "agent": condition} for name, condition in conditions.items()]}


def states(managing=True, unknown=False, **states):
    """A status with the states of the domains."""
    domains = [
        {"name": name, "state": state, "why": "by hand" * (state == "unmanaged")} for name, state in states.items()
    ]
    return {"managing": managing, "unknown": unknown, "domains": domains}


@pytest.mark.parametrize("last", ["connected", "no channel"])
def test_it_waits_until_all_agents_are_connected_or_have_no_channel(tmp_path, last):
    late = agents(a="connected", b="no agent answers")
    daemon = Daemon(tmp_path, agents(), agents(a="connected"), late, agents(a="connected", b=last))
    wait_for_agents(daemon, ["a", "b"])
    assert daemon.asked == 4


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"a": "connected", "b": "no agent answers"}, "a: connected, b: no agent answers"),
        ({"a": "connected", "b": None}, "b: it does not run"),
        ({"a": "connected"}, "b: unknown to the daemon"),
    ],
)
def test_an_agent_that_does_not_connect_is_named(tmp_path, conditions, message):
    with pytest.raises(PlaceError, match=f"{message}.*start vscaf-agent there"):
        wait_for_agents(Daemon(tmp_path, agents(**conditions)), ["a", "b"], 0.0)


@pytest.mark.parametrize("last", ["cooperating", "contained", "resting", "queued", "suspended"])
def test_it_waits_until_the_first_decision_is_carried_out(tmp_path, last):
    on_the_way = [states(a="resting", b=state) for state in ("unmanaged", "unknown", "shrinking", "growing")]
    daemon = Daemon(
        tmp_path,
        states(managing=None),
        states(managing=None, a="resting", b="resting"),
        states(a="resting"),
        *on_the_way,
        states(unknown=True, a="resting", b="resting"),
        states(a="resting", b=last),
    )
    wait_for_decision(daemon, ["a", "b"])
    assert daemon.asked == 9


def test_a_policy_that_changes_nothing_has_nothing_to_carry_out(tmp_path):
    daemon = Daemon(tmp_path, states(managing=False), states(managing=False, a="unmanaged", b="unmanaged"))
    wait_for_decision(daemon, ["a", "b"])
    assert daemon.asked == 2


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (states(managing=None, a="unmanaged", b="unmanaged"), "it has not decided anything yet"),
        (states(a="growing", b="shrinking"), "a: growing; b: shrinking"),
        (states(a="resting", b="unmanaged"), "b: unmanaged, by hand"),
        (states(a="resting"), "b: the daemon does not know it"),
        (states(unknown=True, a="resting", b="resting"), "libvirt does not answer"),
    ],
)
def test_what_is_not_true_yet_is_said(tmp_path, status, message):
    with pytest.raises(PlaceError, match=rf"first partitions within 0 s \({message}\): see .*vscaf-daemon.log"):
        wait_for_decision(Daemon(tmp_path, status), ["a", "b"], 0.0)
