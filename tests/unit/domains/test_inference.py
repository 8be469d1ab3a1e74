"""What the looks at a domain, one each period, infer from its agent's reports and its vCPUs' CPU time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from vscaf import clock
from vscaf.agentlink.link import AgentLink
from vscaf.agentlink.messages import Report, ReportedPoint, ReportedProcess
from vscaf.core.reconcile.state import Affinity, TransitionState, Treatment
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.inference import domain_ipc, infer
from vscaf.domains.rules import DomainRules
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, HostCpus, RunState

START_S = 1000.0
PERIOD_S = 0.25
CPUS = 4


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only when a test wants it, so a report stays fresh even if the machine is very slow."""
    monkeypatch.setattr(clock, "now_s", lambda: START_S)


class Watched:
    """A domain with an agent. `look` looks at it once a period."""

    def __init__(self) -> None:
        numbers = frozenset(range(CPUS))
        host = SimulatedHost(HostCpus(numbers, tuple(frozenset({cpu}) for cpu in numbers), dict.fromkeys(numbers, 0)))
        seen = DomainSeen(DomainKey("u", 1), "a", True, RunState.RUNNING, CPUS, CPUS, dict.fromkeys(numbers, 0.0))
        self.domain = ManagedDomain(seen, DomainRules(), host, AgentLink("a", Path("/nowhere"), lambda: None))
        self.domain.maximum = CPUS
        self.now_s = START_S
        self.domains = 1
        self.claim(0)

    def claim(self, cpus: int) -> None:
        held = frozenset(range(cpus))
        pins = dict.fromkeys(range(CPUS), held)
        self.domain.transition = TransitionState(
            "a", CPUS, CPUS, Treatment(held, None, None, held, CPUS), held, Affinity(pins, held), resting=not held
        )

    def suspend(self, stands: bool) -> None:
        assert self.domain.transition is not None
        self.domain.transition = replace(self.domain.transition, suspended_by_us=stands, known_suspended=stands)
        self.domain.seen = replace(self.domain.seen, state=RunState.PAUSED if stands else RunState.RUNNING)

    def look(self, demand: int, busy: float, periods: int = 1, processes: Sequence[ReportedProcess] = ()) -> None:
        """Looks once a period. The agent reports *demand* and *processes*, and the host sees *busy* CPUs in use."""
        link = self.domain.link
        for _ in range(periods):
            self.now_s += PERIOD_S
            times = {vcpu: used + busy * PERIOD_S / CPUS for vcpu, used in self.domain.seen.vcpu_time_s.items()}
            self.domain.seen = replace(self.domain.seen, vcpu_time_s=times)
            if link is not None:
                link.report = Report(
                    sequence=0, online=list(range(CPUS)), demand=demand, busy=busy, processes=list(processes)
                )
                link.report_at_s = START_S
            infer(self.domain, self.now_s, self.domains)


def test_a_program_that_starts_is_seen_at_the_next_look() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.01, periods=40)
    assert watched.domain.inferred.demand == 0
    watched.look(demand=0, busy=0.9)
    assert watched.domain.inferred.demand > 0, "not seen before its agent reports it"


def test_a_sleeper_that_wakes_slowly_is_not_averaged_away() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.0, periods=40)
    watched.look(demand=0, busy=0.04)  # within what a sleeper uses
    watched.look(demand=0, busy=0.4)
    assert watched.domain.inferred.busy_cpus == pytest.approx(0.4), "not of the last period alone"


def test_who_computes_as_it_says_is_looked_at_once_a_second() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.9, periods=8)
    looks = set()
    for _ in range(12):
        watched.look(demand=CPUS, busy=3.9)
        looks.add(watched.domain.inferred.vcpu_seen_at_s)
    assert 3 <= len(looks) <= 4
    assert watched.domain.inferred.demand == CPUS


def test_who_claims_and_is_idle_is_found_out_in_time() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.9, periods=8)
    watched.look(demand=CPUS, busy=0.0, periods=16)
    assert watched.domain.inferred.demand == 0


@pytest.mark.parametrize("agent", [True, False])
def test_who_computes_while_its_times_cannot_be_read_does_not_rest(agent: bool) -> None:
    watched = Watched()
    watched.claim(CPUS)
    if not agent:
        watched.domain.session.relink(None)
    watched.look(demand=CPUS, busy=3.9, periods=8)
    times = watched.domain.seen.vcpu_time_s
    for _ in range(20):
        watched.domain.seen = replace(watched.domain.seen, vcpu_time_s={})
        watched.look(demand=CPUS, busy=0.0)
        assert watched.domain.inferred.demand == CPUS
    watched.domain.seen = replace(watched.domain.seen, vcpu_time_s=times)
    watched.look(demand=CPUS, busy=3.9, periods=8)
    assert watched.domain.inferred.demand == CPUS and watched.domain.inferred.busy_cpus == pytest.approx(3.9)
    watched.look(demand=CPUS, busy=0.0, periods=16)
    assert watched.domain.inferred.demand == 0


def test_the_delay_of_its_vcpus_adds_up_at_every_look() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.0)
    assert watched.domain.inferred.steal.total_s is None
    for waited_s in (0.5, 0.75, 0.75, 1.0):
        watched.domain.seen = replace(watched.domain.seen, vcpu_delay_s={0: waited_s, 1: 1.0})
        watched.look(demand=0, busy=0.0)
        assert watched.domain.inferred.steal.total_s == 1.0 + waited_s


def test_who_says_idle_and_always_computes_a_little_does_not_rest() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.29, periods=20)
    assert watched.domain.inferred.demand == 1


def waits(watched: Watched, cpus: float) -> None:
    """Each of its vCPUs waits for a pCPU for this part of the next period."""
    delays = watched.domain.seen.vcpu_delay_s or dict.fromkeys(range(CPUS), 0.0)
    delays = {vcpu: delay_s + cpus * PERIOD_S for vcpu, delay_s in delays.items()}
    watched.domain.seen = replace(watched.domain.seen, vcpu_delay_s=delays)


@pytest.mark.parametrize("cpus", [0, 2])
@pytest.mark.parametrize(("waiting", "busy"), [(0.3, 0.03), (0.95, 0.06)])
def test_an_idle_guest_whose_vcpus_wait_for_busy_pcpus_rests(cpus: int, waiting: float, busy: float) -> None:
    watched = Watched()
    watched.claim(cpus)
    for _ in range(40):
        waits(watched, waiting)
        watched.look(demand=0, busy=busy)
        assert watched.domain.inferred.demand == 0


def test_a_guest_that_gets_no_more_than_an_idle_one_uses_and_never_sleeps_shows_its_whole_demand() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.0, periods=4)
    for _ in range(4):
        waits(watched, 0.98)
        watched.look(demand=0, busy=0.02 * CPUS)
    assert watched.domain.inferred.demand == CPUS


def test_a_guest_that_computes_on_a_small_part_of_busy_pcpus_shows_its_whole_demand() -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.0, periods=4)
    for _ in range(4):
        waits(watched, 0.95)
        watched.look(demand=0, busy=0.05 * CPUS)
    assert watched.domain.inferred.demand == CPUS


def test_a_look_that_spans_two_allocations_says_nothing_of_either() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=3.8, periods=20)
    assert watched.domain.inferred.host_view.known == (CPUS, pytest.approx(3.8))
    watched.claim(2)
    watched.look(demand=CPUS, busy=3.8)
    assert watched.domain.inferred.host_view.cpus == CPUS
    watched.look(demand=CPUS, busy=1.9, periods=8)
    assert watched.domain.inferred.host_view.known == (2, pytest.approx(1.9))


def program(name: str, team: int, speedup: float) -> ReportedProcess:
    points = [ReportedPoint(p=team, speedup=speedup, standard_error=0.1, samples=8)]
    return ReportedProcess(pid=7, name=name, team=team, malleable="full", running=True, points=points)


def test_sizes_that_a_program_had_are_remembered_and_another_program_has_its_own() -> None:
    watched = Watched()
    watched.claim(4)
    watched.look(demand=4, busy=3.9, periods=12, processes=[program("cg", 4, 3.5)])
    watched.claim(2)
    watched.look(demand=4, busy=1.9, periods=12, processes=[program("cg", 2, 1.9)])
    assert [(one.cpus, round(one.speedup, 1)) for one in watched.domain.inferred.points] == [(2, 1.9), (4, 3.5)]
    watched.look(demand=4, busy=1.9, periods=8, processes=[program("lu", 2, 1.2)])
    assert [(one.cpus, round(one.speedup, 1)) for one in watched.domain.inferred.points] == [(2, 1.2)]
    watched.look(demand=4, busy=1.9, periods=8, processes=[program("cg", 2, 1.9)])
    assert [one.cpus for one in watched.domain.inferred.points] == [2, 4]


def test_among_many_domains_too_another_program_has_its_own_curve_at_once() -> None:
    watched = Watched()
    watched.domains = 500
    watched.claim(4)
    watched.look(demand=4, busy=3.9, periods=12, processes=[program("cg", 4, 3.5)])
    watched.look(demand=4, busy=3.9, periods=8, processes=[program("lu", 4, 2.5)])
    assert [one.speedup for one in watched.domain.inferred.points] == [2.5]


def test_nothing_is_remembered_before_there_is_something_to_hold_it_against() -> None:
    watched = Watched()
    watched.claim(4)
    watched.look(demand=4, busy=3.9, periods=4, processes=[program("cg", 4, 3.5)])
    assert watched.domain.inferred.points == ()
    watched.look(demand=4, busy=3.9, periods=8, processes=[program("cg", 4, 3.5)])
    assert len(watched.domain.inferred.points) == 1


def test_sizes_that_a_domain_never_had_are_not_remembered() -> None:
    watched = Watched()
    watched.claim(2)
    program_of_two = program("cg", 2, 1.9)
    points = [*program_of_two.points, ReportedPoint(p=4, speedup=3.9, standard_error=0.1, samples=8)]
    claims = msgspec.structs.replace(program_of_two, points=points)
    watched.look(demand=4, busy=1.95, periods=12, processes=[claims])
    assert [one.cpus for one in watched.domain.inferred.points] == [2]


def test_what_its_cpu_time_does_not_bear_is_not_remembered() -> None:
    watched = Watched()
    watched.claim(4)
    watched.look(demand=4, busy=2.0, periods=40, processes=[program("liar", 4, 4.0)])
    (point,) = watched.domain.inferred.points
    assert point.speedup < 2.6


def test_among_many_domains_each_is_fitted_less_often() -> None:
    watched = Watched()
    watched.domains = 500
    watched.claim(4)
    seen = set()
    for number in range(80):
        watched.look(demand=4, busy=3.9, processes=[program("cg", 4, 2.0 + number / 40)])
        seen.add(watched.domain.inferred.points)
    assert 2 <= len(seen) <= 4, "fits in 20 seconds"


def test_a_domain_that_vscaf_has_suspended_wants_what_it_wanted() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=3, busy=2.9, periods=8)
    assert (watched.domain.inferred.demand, watched.domain.transition is not None) == (3, True)
    view = watched.domain.inferred.host_view
    watched.suspend(True)
    watched.look(demand=3, busy=0.0, periods=40)
    assert watched.domain.inferred.demand == 3 and watched.domain.inferred.busy_cpus == 0.0
    assert watched.domain.inferred.host_view == view, "time in which it was suspended counts"
    watched.suspend(False)
    watched.look(demand=3, busy=2.9)
    assert watched.domain.inferred.host_view == view, "a window that began while it was suspended counts"
    watched.look(demand=3, busy=2.9, periods=8)
    assert watched.domain.inferred.demand == 3


def fall_quiet(watched: Watched, demand: int) -> None:
    """The agent has said that it sends no more until something changes. That was a minute ago."""
    link = watched.domain.link
    assert isinstance(link, AgentLink)
    link.report = Report(sequence=0, online=list(range(CPUS)), demand=demand, busy=0.0, processes=[], quiet=True)
    link.report_at_s = START_S - 60.0


def look_on(watched: Watched, busy: float, periods: int) -> None:
    """Looks once a period, without a new report."""
    for _ in range(periods):
        watched.now_s += PERIOD_S
        times = {vcpu: used + busy * PERIOD_S / CPUS for vcpu, used in watched.domain.seen.vcpu_time_s.items()}
        watched.domain.seen = replace(watched.domain.seen, vcpu_time_s=times)
        infer(watched.domain, watched.now_s, watched.domains)


def test_a_quiet_agent_answers_and_its_domain_is_judged_by_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentLink, "connected", True)
    watched = Watched()
    watched.look(demand=0, busy=0.01, periods=8)
    fall_quiet(watched, 0)
    watched.domain.process_reports()
    assert watched.domain.transition is not None and watched.domain.transition.answers
    assert watched.domain.silence_s() == 0.0 and watched.domain.agent_demand() is None
    look_on(watched, 0.01, 8)
    assert watched.domain.inferred.demand == 0
    look_on(watched, 0.9, 1)  # of programs that never joined
    assert watched.domain.inferred.demand == CPUS, "a resting domain without an agent could use all its vCPUs"
    look_on(watched, 0.01, 5)
    assert watched.domain.inferred.demand == 0
    watched.look(demand=3, busy=0.01)
    assert watched.domain.inferred.demand == 3, "it reports again"


def test_a_claim_in_a_quiet_report_counts_for_nothing() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=CPUS, busy=0.0, periods=4)
    assert watched.domain.inferred.demand == CPUS
    fall_quiet(watched, CPUS)
    look_on(watched, 0.0, 1)
    assert watched.domain.inferred.demand == 0


def test_an_idle_domain_whose_agent_is_quiet_is_not_measured_anew_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    watched.look(demand=0, busy=0.01, periods=8)
    fall_quiet(watched, 0)
    look_on(watched, 0.01, 8)
    monkeypatch.setattr("vscaf.domains.inference.after_window", None)
    look_on(watched, 0.01, 8)
    assert watched.domain.inferred.busy_cpus == pytest.approx(0.01)


def test_a_domain_that_others_have_paused_wants_nothing() -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=3, busy=2.9, periods=8)
    watched.domain.seen = replace(watched.domain.seen, state=RunState.PAUSED)
    watched.look(demand=3, busy=0.0)
    assert watched.domain.inferred.demand == 0


def test_silence_while_suspended_is_not_held_against_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    watched.claim(CPUS)
    watched.look(demand=3, busy=2.9)
    link, domain = watched.domain.link, watched.domain
    assert link is not None and domain.transition is not None
    monkeypatch.setattr(AgentLink, "connected", True)
    domain.process_reports()
    assert domain.transition.answers
    link.report_at_s = START_S - 60.0
    watched.suspend(True)
    domain.process_reports()
    assert domain.transition.answers and domain.silence_s() == 0.0, "a suspended guest cannot report"
    watched.suspend(False)
    domain.switched_at_s = START_S
    domain.process_reports()
    assert domain.transition.answers and domain.silence_s() < 1.0, "it has had no time to report"
    assert domain.agent_demand() == 3
    domain.switched_at_s = START_S - 10.0
    domain.process_reports()
    assert not domain.transition.answers and domain.agent_demand() is None


def counted(ipc: float | None, team: int = 1, running: bool = True) -> ReportedProcess:
    return ReportedProcess(pid=1, name="p", team=team, malleable="full", running=running, points=[], ipc=ipc)


def test_a_domains_instructions_per_cycle_are_the_mean_over_its_cpus_in_use() -> None:
    assert domain_ipc([counted(0.85)]) == 0.85
    assert domain_ipc([counted(2.0, team=3), counted(0.4, team=1)]) == pytest.approx(1.6)
    assert domain_ipc([counted(2.0, team=3), counted(None)]) is None
    assert domain_ipc([counted(2.0, team=0)]) == 2.0  # its share may be 0, but it runs on one CPU


def test_instructions_per_cycle_are_those_of_the_programs_that_run() -> None:
    watched = Watched()

    def ipc_after_a_window(demand: int, busy: float, *processes: ReportedProcess) -> float | None:
        for _ in range(5):
            watched.look(demand=demand, busy=busy, processes=list(processes))
        return watched.domain.inferred.ipc

    assert ipc_after_a_window(2, 2.0, counted(0.8), counted(None, running=False)) == 0.8
    assert ipc_after_a_window(2, 0.0, counted(0.8, running=False)) == 0.8, "it pauses, its agent still reports demand"
    assert ipc_after_a_window(2, 2.0, counted(0.8), counted(None)) is None
    assert ipc_after_a_window(2, 2.0, counted(0.8)) == 0.8
    assert ipc_after_a_window(0, 0.0) is None
