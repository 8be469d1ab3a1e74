"""What `vscaf status` shows of the programs that agents report."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console
from vscaf.agentlink.link import AgentLink
from vscaf.agentlink.messages import GuestCpus, GuestHello, Report, ReportedProcess
from vscaf.cli.status_table import table
from vscaf.config import Config, DomainConfig
from vscaf.control.messages import DomainStatus, RulesStatus
from vscaf.core.decide.prediction import Prediction
from vscaf.core.model.steal import Steal
from vscaf.daemon.status import domain_status, process_status, status
from vscaf.domains.inferred import Inferred
from vscaf.values import DomainKey, DomainSeen, RunState

LEARNING = {"cost": 0.31, "budget": 0.01, "used": 0.0082, "metric": "rate", "counters": True}
DECOMPOSITION = {
    "useful": 0.8123,
    "inflation": 0.02,
    "fork": 0.001,
    "dispatch": 0.0177,
    "barrier": 0.109,
    "steal": 0.04,
    "idle_rate": 0.1277,
    "section_ms": 1.72,
}


def process(**fields: Any) -> dict[str, Any]:
    """A process that the agent reports, in the form in which the daemon sends it to `vscaf status`."""
    reported = {"pid": 123, "name": "cg.A", "team": 2, "malleable": "full", "running": True, "points": [], **fields}
    return msgspec.to_builtins(process_status(msgspec.convert(reported, ReportedProcess)))


def shown(
    *processes: dict[str, Any],
    width: int = 120,
    exploration_cost: float = 0.0,
    weights_count: bool = True,
    **fields: Any,
) -> str:
    domain = {
        "name": "a",
        "state": "contained",
        "partition": "0-1",
        "demand": 2,
        "busy_cpus": 1.97,
        "vcpus": 2,
        "vcpus_maximum": 2,
        "agent": "connected",
        "scaf_weight": 1.21,
        "processes": list(processes),
        **fields,
    }
    state = {
        "policy": "max-speedup",
        "weights_count": weights_count,
        "pool": "0-3",
        "transitions": 7,
        "unknown": False,
        "exploration_cost": exploration_cost,
        "domains": [domain, {"name": "b", "state": "not running"}],
    }
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table(state))
    return console.export_text()


def row(*processes: dict[str, Any]) -> list[str]:
    """The cells of the only row in the second table. The lines of a cell are joined by commas."""
    lines = [line for line in shown(*processes, width=80).split("learning")[1].splitlines() if "│" in line]
    columns = zip(*(line.split("│")[1:-1] for line in lines), strict=True)
    return [", ".join(cell for one in column if (cell := one.strip())) for column in columns]


def test_a_weight_that_the_policy_ignores_is_marked() -> None:
    rules = {"minimum": None, "maximum": 4, "weight": 2.0, "priority": None, "rest": None}
    assert "weight 2, ignored" in shown(rules=rules, weights_count=False)
    assert "weight 2" in shown(rules=rules) and "ignored" not in shown(rules=rules)


def test_no_program_no_second_table() -> None:
    assert "learning" not in shown()
    assert "learning" not in shown(process(running=False))


def test_a_program_of_which_nothing_is_known() -> None:
    assert row(process()) == ["a", "cg.A", "2", "full", "unknown", "", ""]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"malleable": "shrink"}, "shrink"),
        ({"malleable": "rigid", "override": True}, "rigid, override"),
        ({"malleable": "full", "long_section": True}, "full, long section"),
        ({"malleable": "rigid", "contained": True}, "rigid, contained"),
        ({"malleable": "shrink", "override": True, "long_section": True}, "shrink, override, long section"),
    ],
)
def test_malleability(fields: dict[str, Any], text: str) -> None:
    assert row(process(**fields))[3] == text


@pytest.mark.parametrize(("team", "text"), [(1, "1.84±0.06, on 2"), (3, "1.84±0.06, on 2"), (4, "3.10±0.20, on 4")])
def test_speedup_at_the_team_size(team: int, text: str) -> None:
    points = [
        {"p": 1, "speedup": 1.0, "standard_error": 0.0, "samples": 9},
        {"p": 2, "speedup": 1.84, "standard_error": 0.03, "samples": 9},
        {"p": 4, "speedup": 3.1, "standard_error": 0.1, "samples": 9},
    ]
    assert row(process(team=team, points=points))[4] == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "0.82% of 1%"),
        ({"metric": "ipc"}, "0.82% of 1%, ipc"),
        ({"counters": False}, "0.82% of 1%, no counters"),
        ({"used": 1.0, "budget": 1.0}, "100% of 100%"),
        ({"used": 0.0, "budget": 0.000001}, "0% of 0.0001%"),
    ],
)
def test_what_learning_costs(fields: dict[str, Any], text: str) -> None:
    cell = row(process(learning={**LEARNING, **fields}))[5]
    assert cell.replace(",", "").split() == text.replace(",", "").split()


def test_where_the_time_goes() -> None:
    assert row(process(decomposition=DECOMPOSITION))[6] == "useful 81%, barrier 11%, steal 4%"
    nothing_lost = dict.fromkeys(DECOMPOSITION, 0.0) | {"useful": 0.995, "fork": 0.005}
    assert row(process(decomposition=nothing_lost))[6] == "useful 100%"


def test_a_guest_cannot_write_markup() -> None:
    text = shown(process(name="[/b][red]x"))
    assert text.count("[/b][red]x") == 1


def test_a_guest_cannot_write_to_the_terminal() -> None:
    text = shown(process(name="x\x1b]0;mine\x07\r\x9b2J"))
    assert not any(letter in text for letter in "\x1b\x07\r\x9b")
    assert "x\N{REPLACEMENT CHARACTER}]0;mine" in text


def test_a_domain_of_which_nothing_is_known_yet() -> None:
    domain = msgspec.to_builtins(DomainStatus(name="a", state="unknown", why="libvirt has not listed its domains"))
    console = Console(width=120, record=True, file=io.StringIO())
    state = {"policy": "fair", "pool": "0-3", "transitions": 0, "unknown": False, "exploration_cost": 0.0}
    console.print(table({**state, "domains": [domain]}))
    text = console.export_text()
    assert "a is unknown: libvirt has not listed its domains" in text and "None" not in text


def test_rules_in_force() -> None:
    rules = {"minimum": 1, "maximum": None, "weight": 1.0, "priority": 0, "rest": None}
    assert "│ 1-    │" in shown(rules=rules)
    text = shown(rules={"minimum": 2, "maximum": 4, "weight": 2.5, "priority": -3, "rest": "keep"})
    for expected in ("2-4", "weight 2.5", "priority -3", "rest keep"):
        assert expected in text


@pytest.mark.parametrize("state", ["unmanaged", "released"])
def test_why_a_domain_is_left_alone(state: str) -> None:
    text = shown(state=state, partition=None, why="somebody changed the pins of vCPU 0\x1b")
    assert f"a is {state}: somebody changed the pins of vCPU 0\N{REPLACEMENT CHARACTER}" in text
    assert "is released" not in shown() and "is unmanaged" not in shown()


def test_what_exploring_has_cost() -> None:
    assert "7 transitions, exploring cost 0.4%" in shown(exploration_cost=0.0042)
    assert "exploring" not in shown()


@pytest.mark.parametrize("state", ["cooperating", "shrinking", "contained", "growing", "resting", "unknown"])
def test_states(state: str) -> None:
    assert f"│ {state}" in shown(state=state)
    assert f"{state}, paused" in shown(state=state, paused=True)
    assert "suspended, paused" not in shown(state="suspended", paused=True, suspended=True)


@dataclass
class Shown:
    """A stand-in for a domain of the daemon's loop."""

    name: str = "a"
    state: str = "cooperating"
    unmanaged_why: str = ""
    suspended_by_us: bool = False
    held: frozenset[int] = frozenset({0, 2})
    inferred: Inferred = field(default_factory=lambda: Inferred(demand=2, busy_cpus=1.23456, usage_known=True))
    seen: DomainSeen = field(
        default_factory=lambda: DomainSeen(DomainKey("u", 1), "a", True, RunState.PAUSED, 2, 4, {})
    )
    link: AgentLink | None = None
    rules: DomainConfig = field(default_factory=lambda: DomainConfig(maximum=3))


def test_the_status_of_a_domain() -> None:
    got = domain_status(Shown(), 1.56789)
    assert (got.partition, got.allocation, got.demand, got.busy_cpus) == ("0,2", 2, 2, 1.235)
    assert (got.uuid, got.speedup, got.steal_s) == ("u", 1.5679, None)
    assert (got.paused, got.vcpus, got.vcpus_maximum, got.agent, got.online) == (True, 2, 4, "no channel", None)
    assert got.rules == RulesStatus(minimum=1, maximum=3, weight=1.0, priority=0, rest=None)
    unheard = domain_status(Shown(link=AgentLink("a", Path("/nowhere"), lambda: None)))
    assert unheard.agent == "not reachable: not tried yet", "not the link's own text"
    assert unheard.agent_version is None and unheard.steal_governor is None
    link = AgentLink("a", Path("/nowhere"), lambda: None)
    link.hello = GuestHello(
        agent="vscaf-agent 0.1.0",
        boot_id="b",
        cpus=GuestCpus(possible=1, present=1, online=[0]),
        capabilities=[],
    )
    assert domain_status(Shown(link=link)).agent_version == "vscaf-agent 0.1.0"
    for told, shown in (({}, None), ({"steal_governor": False}, False), ({"steal_governor": True}, True)):
        link.report = Report(sequence=0, online=[0], demand=0, busy=0.0, processes=[], **told)
        assert domain_status(Shown(link=link)).steal_governor is shown, "an older agent does not tell"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AgentLink, "condition", "stale")
        assert domain_status(Shown(link=link)).agent == "stale"
        assert domain_status(Shown(link=link, suspended_by_us=True)).agent == "connected", "it is suspended"
        patched.setattr(AgentLink, "condition", "deaf")
        assert domain_status(Shown(link=link, suspended_by_us=True)).agent == "deaf", "a deaf guest is shown as deaf"
    assert domain_status(Shown(inferred=Inferred())).busy_cpus is None, "no window of vCPU time has ended yet"
    stolen = Inferred(steal=Steal().after({0: 1.5, 1: 0.25}))
    assert domain_status(Shown(inferred=stolen)).steal_s == 1.75
    resting = domain_status(Shown(state="resting", held=frozenset()))
    assert (resting.partition, resting.allocation) == ("", 0), "an empty partition is not an unknown one"


@pytest.mark.parametrize("state", ["unmanaged", "released"])
def test_what_is_left_alone_has_no_partition(state: str) -> None:
    got = domain_status(Shown(state=state, unmanaged_why="by request"))
    assert (got.state, got.partition, got.allocation, got.why) == (state, None, None, "by request")


def test_what_is_tried_and_what_it_has_cost_is_said() -> None:
    decider = SimpleNamespace(
        transition_s=0.12344,
        transition_measured=True,
        exploring=frozenset("ba"),
        cost=0.0042,
        lost_s=1.5,
        prediction=lambda held: Prediction({}, 7.12341, None),
    )
    daemon = SimpleNamespace(
        config=Config(pool="0-3"),
        configured_at="2026-01-01T00:00:00.000Z",
        policy_name="max-speedup-fitted",
        policy_options={},
        policy_previous=None,
        weights_count=True,
        pool_cpus=frozenset({0, 1, 3}),
        reserve=frozenset(),
        decision=None,
        unknown_since_s=None,
        has_listed=True,
        transitions=7,
        decider=decider,
        violations=[],
        managed={},
    )
    values = status(daemon)
    assert (values["exploring"], values["exploration_cost"], values["exploration_lost_s"]) == (["a", "b"], 0.0042, 1.5)
    assert values["transition_s"] == 0.1234
    assert (values["optimum_speedup"], values["lost_speedup"]) == (7.1234, None)
    decider.transition_measured = False
    assert status(daemon)["transition_s"] is None, "it is only assumed"
    assert values["pool"] == "0-1,3", "pCPU 2 went offline and left the pool"
