"""What is skipped because nothing has changed would have changed nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from daemon_world import Agent
from hypothesis import example, given
from hypothesis import strategies as st
from vscaf import clock
from vscaf.core.reconcile.state import Affinity, AnnouncedSize, TransitionState, Treatment
from vscaf.domains.containment import Fault
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.rules import DomainRules
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, GuestTopology, HostCpus, RunState

CPUS = 4
NUMBERS = frozenset(range(CPUS))
HOST = HostCpus(NUMBERS, tuple(frozenset({cpu}) for cpu in NUMBERS), dict.fromkeys(NUMBERS, 0))


class Watched:
    """A domain with an agent that was told a size."""

    now_s = 0.0

    def __init__(self) -> None:
        Watched.now_s = 1000.0
        self.agent = Agent(lambda: None)
        self.agent.acknowledges, self.agent.online = False, tuple(range(CPUS))
        seen = DomainSeen(DomainKey("u", 1), "a", True, RunState.RUNNING, CPUS, CPUS, dict.fromkeys(NUMBERS, 0.0))
        self.domain = ManagedDomain(seen, DomainRules(), SimulatedHost(HOST), self.agent)
        pins = {cpu: frozenset({cpu}) for cpu in NUMBERS}
        treatment = Treatment(NUMBERS, None, None, NUMBERS, CPUS)
        self.domain.transition = TransitionState(
            "a", CPUS, CPUS, treatment, NUMBERS, Affinity(pins, NUMBERS), found_at_s=0.0
        )

    def change(self, **values: object) -> None:
        assert self.domain.transition is not None
        self.domain.transition = replace(self.domain.transition, **values)

    def announce(self, again: bool) -> None:
        self.domain.session.announce(AnnouncedSize(CPUS, CPUS, competition=False), again, 1.0)
        self.change(
            announced=AnnouncedSize(CPUS, CPUS, competition=False), acknowledged=False, announced_at_s=self.now_s
        )


@pytest.fixture(autouse=True, scope="module")
def time_of_the_test() -> Iterator[None]:
    """The clock shows the time of the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now_s", lambda: Watched.now_s)
        yield


def passes(seconds: float) -> Callable[[Watched], None]:
    def act(_one: Watched) -> None:
        Watched.now_s += seconds / 2  # each step acts on both domains

    return act


DEEDS: dict[str, Callable[[Watched], None]] = {
    "silent": lambda one: setattr(one.agent, "silent_s", 5.0),
    "reports": lambda one: setattr(one.agent, "silent_s", 0.0),
    "announce": lambda one: one.announce(False),
    "announce again": lambda one: one.announce(True),
    "acknowledge": lambda one: setattr(one.agent, "acknowledged", one.domain.session.sequence),
    "acknowledge another": lambda one: setattr(one.agent, "acknowledged", 7),
    "offline": lambda one: setattr(one.agent, "online", (0, 1)),
    "online": lambda one: setattr(one.agent, "online", tuple(range(CPUS))),
    "impossible": lambda one: setattr(one.agent, "online", (1, 99)),
    "hello": lambda one: one.agent.hello(),
    "lost": lambda one: setattr(one.agent, "connected", False),
    "connected": lambda one: setattr(one.agent, "connected", True),
    "another channel": lambda one: one.domain.session.relink(one.agent),
    "no report": lambda one: setattr(one.agent, "report", None),
    "a report": lambda one: one.agent.says(2),
    "false": lambda one: one.domain.trust.judge("a", False),
    "true": lambda one: one.domain.trust.judge("a", True),
    "fewer vCPUs": lambda one: one.change(vcpus=2, affinity=Affinity({0: NUMBERS, 1: NUMBERS}, NUMBERS)),
    "more vCPUs": lambda one: one.change(vcpus=CPUS, affinity=Affinity(dict.fromkeys(NUMBERS, NUMBERS), NUMBERS)),
    "unknown pins": lambda one: one.change(affinity=None),
    "suspended": lambda one: one.change(suspended_by_us=True),
    "resumed": lambda one: one.change(suspended_by_us=False),
    "just switched": lambda one: setattr(one.domain, "switched_at_s", Watched.now_s),
    "threads": lambda one: setattr(one.domain, "seen", replace(one.domain.seen, topology=GuestTopology(2))),
    "another order": lambda one: setattr(
        one.domain, "seen", replace(one.domain.seen, enabled_order={0: 1, 1: 0, 2: 2, 3: 3})
    ),
    "fault": lambda one: setattr(one.domain, "fault", Fault(0.0, 10.0, False)),
    "no fault": lambda one: setattr(one.domain, "fault", None),
    "contained": lambda one: one.domain.contain(),
    "0.1 s": passes(0.1),
    "2 s": passes(2.0),
    "20 s": passes(20.0),
    "nothing": lambda one: None,
}


@given(st.lists(st.sampled_from(sorted(DEEDS)), max_size=40))
@example(["announce", "acknowledge", "silent", "2 s", "reports", "hello", "announce again", "acknowledge"])
@example(["announce", "acknowledge", *["online", "offline"] * 10, "20 s", "nothing", "online"])
@example(["announce", "acknowledge", "offline", *["false"] * 8, "nothing", *["true"] * 20, "nothing"])
@example(["fault", "offline", "contained", "no fault", "nothing"])
def test_reports_that_change_nothing_may_be_skipped(deeds: list[str]) -> None:
    skips, works = Watched(), Watched()
    for deed in deeds:
        for one in (skips, works):
            DEEDS[deed](one)
        works.domain._processed = None
        skips.domain.process_reports()
        works.domain.process_reports()
        assert skips.domain.transition == works.domain.transition, deed
        assert skips.domain.trust._steadiness == works.domain.trust._steadiness, deed
        assert skips.domain.trust._offline == works.domain.trust._offline, deed
