"""What a simulated guest reports: claims with honest errors, over a link that shows its present state."""

import asyncio
import math
import random
from typing import Any

import pytest
from vscaf.agentlink import messages
from vscaf.agentlink.interface import Link
from vscaf.simulate.engine.agent import LEAST_ERROR, GuestLink, Learned
from vscaf.simulate.engine.guest import Guest, World
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.simulate.engine.machine import SpeedModel, host_cpus
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.simulate.scenarios.curves import Perfect
from vscaf.simulate.scenarios.expansion import expanded
from vscaf.simulate.scenarios.scenario import Guest as GuestTable
from vscaf.simulate.scenarios.scenario import Host, LatencySeconds, Noise, Scenario
from vscaf.values import RunState


def test_claims_miss_the_truth_by_what_they_say() -> None:
    noise = Noise(speedup=0.2, per_s=4.0)
    for seconds in (2.0, 5.0, 30.0):
        misses = []
        for seed in range(400):
            learned = Learned(8, 0.0)
            for look in range(1, int(seconds * 4) + 1):
                learned.learn(6.0, look / 4, noise, random.Random(f"{seed} {look}"))
            estimate = learned.estimate(noise)
            assert estimate is not None and estimate[2] == int(seconds * 4)
            misses.append((estimate[0] - 6.0) / estimate[1])
        assert abs(math.fsum(misses) / len(misses)) < 0.2
        spread = math.sqrt(math.fsum(miss**2 for miss in misses) / len(misses))
        assert 0.5 < spread < 1.1


def test_nothing_is_known_before_four_comparisons_and_never_better_than_the_shim_can() -> None:
    learned, noise = Learned(4, 10.0), Noise()
    rng = random.Random(1)
    learned.learn(3.0, 10.9, noise, rng)
    assert learned.estimate(noise) is None
    learned.learn(3.0, 11.0, noise, rng)
    assert learned.estimate(noise) == (3.0, pytest.approx(LEAST_ERROR * 3.0), 4)


def test_phases_make_an_estimate_uncertain() -> None:
    learned, noise = Learned(4, 0.0), Noise()
    rng = random.Random(1)
    for second in range(1, 9):
        learned.learn(1.0 if second % 2 else 3.0, float(second), noise, rng)
    estimate = learned.estimate(noise)
    assert estimate is not None
    assert estimate[0] == pytest.approx(2.0)
    assert estimate[1] == pytest.approx(math.sqrt(31 / 29 / 32))


class Speaker:
    """An agent that reports what the test sets."""

    def __init__(self) -> None:
        self.online = 2
        self.changes = 0
        self.demand = 1
        self.made = 0
        self.received: list[messages.Allocate] = []

    def moment(self) -> tuple[float, int]:
        return 0.0, self.changes

    def report_content(self) -> tuple[object, ...]:
        return (self.demand, self.online)

    def made_report(self, sequence: int) -> messages.Report:
        self.made += 1
        return messages.Report(sequence=sequence, online=[0, 1], demand=self.demand, busy=0.0, processes=[])

    def silent_s(self) -> float:
        return 3.0

    def receive(self, message: messages.Allocate) -> None:
        self.received.append(message)


def allocate(sequence: int) -> messages.Allocate:
    return messages.Allocate(sequence=sequence, cpus=2, limit=4, competition=True, deadline_ms=100)


def test_a_link_speaks_until_it_is_closed() -> None:
    agent, news = Speaker(), []
    link = GuestLink(agent, lambda: news.append(1))
    as_the_daemon_sees_it: Link = link
    assert as_the_daemon_sees_it.report is as_the_daemon_sees_it.report
    assert agent.made == 1 and link.online == (0, 1) and link.age_s() == 3.0
    agent.demand, agent.changes = 0, 1
    report: Any = link.report
    assert report.demand == 0 and agent.made == 2
    assert link.send(allocate(7)) and [one.sequence for one in agent.received] == [7]
    link.acknowledge(7)
    assert link.acknowledged == 7 and news == [1]
    link.close()
    assert (link.report, link.online, link.connected, news) == (None, None, False, [1, 1])
    assert link.age_s() == math.inf
    assert not link.send(allocate(8)) and len(agent.received) == 1


def test_a_paused_guest_does_what_it_was_told_once_it_runs_again() -> None:
    machine = Host(pcpus=8)
    table = GuestTable(name="a", curve=Perfect())
    (plan,) = expanded(Scenario(name="t", seconds=10.0, host=machine, guests=(table,)))

    async def main() -> None:
        cpus = host_cpus(machine)
        host = SimulatedHost(cpus, on_rates=lambda key: guest.changed(), clock=asyncio.get_running_loop().time)
        latencies = LatencySeconds(resize_s=0.2, online_s=0.3)
        model = SpeedModel(machine, cpus)
        world = World(host, model, latencies, Noise(), cpus.online, news_at_once=True, on_end=lambda ended: None)
        guest = Guest(plan, world, seed=1)
        guest.start()
        assert guest.key is not None
        link = guest.link(lambda: None)
        await asyncio.sleep(1.0)
        assert guest.speed == 8.0
        host.set_state(guest.key, RunState.PAUSED)
        await asyncio.sleep(1.0)
        assert guest.speed == 0.0
        link.send(allocate(1))
        await asyncio.sleep(2.0)
        assert (link.acknowledged, guest.team, guest.online, link.age_s()) == (None, 8, 8, pytest.approx(3.0))
        host.set_state(guest.key, RunState.RUNNING)
        await asyncio.sleep(0.25)  # the team changes first, the CPUs after it
        assert (link.acknowledged, guest.team, guest.online, link.age_s()) == (None, 2, 8, 0.0)
        await asyncio.sleep(0.3)
        assert (link.acknowledged, guest.team, guest.online) == (1, 2, 2)

    run_virtual(main())
