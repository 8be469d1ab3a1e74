"""A bench waits for the guests' agents before it starts programs under a policy. The daemon's answers are made up."""

from types import SimpleNamespace

import pytest
from vscaf.bench.places.domains import wait_for_agents
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
        agents = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {"domains": [{"name": name, "agent": agent} for name, agent in agents.items()]}


@pytest.mark.parametrize("last", [{"a": "connected", "b": "connected"}, {"a": "connected", "b": "no channel"}])
def test_it_waits_until_all_agents_are_connected_or_have_no_channel(tmp_path, last):
    daemon = Daemon(tmp_path, {}, {"a": "connected"}, {"a": "connected", "b": "no agent answers"}, last)
    wait_for_agents(daemon, ["a", "b"])
    assert daemon.asked == 4


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ({"a": "connected", "b": "no agent answers"}, "a: connected, b: no agent answers"),
        ({"a": "connected", "b": None}, "b: it does not run"),
        ({"a": "connected"}, "b: unknown to the daemon"),
    ],
)
def test_an_agent_that_does_not_connect_is_named(tmp_path, agents, message):
    with pytest.raises(PlaceError, match=f"{message}.*start vscaf-agent there"):
        wait_for_agents(Daemon(tmp_path, agents), ["a", "b"], 0.0)
