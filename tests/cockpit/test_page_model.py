"""The pure functions of the page, run by node: goldens, hostile names, and agreement with `vscaf top`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cockpit_host import PAGE, lscpu
from top_states import DOMAINS, HOST, domain, program, state, status
from vscaf.control.messages import DomainStatus
from vscaf.top.columns import COLUMNS, Order, ordered, row
from vscaf.top.cpu_map import Owners, layout, marks

NODE = shutil.which("node")
GOLDEN = Path(__file__).parent / "golden"
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


def run(directory: Path, expression: str, **given: Any) -> Any:
    """The value of a JavaScript expression over *given*. `m` has the functions of model.js and writes.js."""
    shutil.copytree(PAGE, directory, dirs_exist_ok=True)
    (directory / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    script = (
        "import * as model from './model.js';\n"
        "import * as writes from './writes.js';\n"
        "const m = {...model, ...writes};\n"
        f"const {{{', '.join(given)}}} = {json.dumps(given)};\n"
        f"console.log(JSON.stringify({expression}));\n"
    )
    (directory / "run.js").write_text(script, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run([NODE, "run.js"], cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def event(
    number: int, kind: str, name: str | None, before: Any = None, after: Any = None, **others: Any
) -> dict[str, Any]:
    time = f"2026-01-01T12:00:{number:02d}.000Z"
    return {
        "number": number,
        "time": time,
        "kind": kind,
        "domain": name,
        "from": before,
        "to": after,
        "why": "",
    } | others


EVENTS = [
    event(1, "started", None),
    event(10, "allocation", "cfd", "rest", "2-9"),
    event(20, "allocation", "weather", "rest", "12-13", why="0 -> 2: it now has a demand of 2"),
    event(21, "allocation", "cfd", "2-9", "2-7"),
    event(25, "allocation", "gone", "rest", "8-9"),
    event(30, "gone", "gone", "8-9"),
    event(31, "refused", "weather", why="a call failed"),
]
ALL = """{
    heading: m.heading(status), map: m.cpuMap(status, m.hostCpus(lscpu)), rows: m.rows(status, m.hostCpus(lscpu)),
    detail: status.domains.map(one => m.detail(one)), decisions: events.map(m.decision),
    timeline: m.timeline(status, events, Date.parse("2026-01-01T12:00:00Z"), Date.parse("2026-01-01T12:00:40Z")),
    actions: status.domains.map(one => m.domainActions(one).map(action => action.text)),
}"""


def test_everything_is_as_in_the_golden_file(tmp_path: Path) -> None:
    said = run(tmp_path, ALL, status=status(), lscpu=lscpu(HOST), events=EVENTS)
    golden = GOLDEN / "model.json"
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), f"if that is right: cp {tmp_path / 'model.json'} {golden}"


def test_what_no_agent_reports_is_shown_as_in_vscaf_top(tmp_path: Path) -> None:
    domains = [
        domain("a", "2-3", report_age_s=None),
        domain("b", "4-5", processes=[program("x", 2, [(1, 1.0)], steal=0.1, inflation=0.0)]),
        domain("c", "6-7", processes=[program("x", 2, [(2, 1.5)], steal=0.1, inflation=0.0)]),
        domain("d", "8-9", state="unknown"),
        DomainStatus(name="e", state="unknown"),
        DomainStatus(name="f", state="unmanaged"),
    ]
    said = run(tmp_path, "m.rows(status, m.hostCpus(lscpu))", status=status(domains), lscpu=lscpu(HOST))
    wanted = [list(row(one, HOST.node_of)) for one in ordered(state(domains).domains, Order())]
    assert [one["cells"] for one in said] == wanted
    assert [cells[-2] for cells in wanted] == ["?", "?", "0%", "-", "?", "?"]


@pytest.mark.parametrize("column", [one.name for one in COLUMNS])
def test_the_table_is_that_of_vscaf_top(tmp_path: Path, column: str) -> None:
    said = run(
        tmp_path, "m.rows(status, m.hostCpus(lscpu), {column})", status=status(), lscpu=lscpu(HOST), column=column
    )
    wanted = ordered(state().domains, Order(column))
    assert [one["cells"] for one in said] == [list(row(one, HOST.node_of)) for one in wanted]


def test_the_map_is_that_of_vscaf_top(tmp_path: Path) -> None:
    domains = (*DOMAINS, domain("shared", "12-12", "contained"))
    said = run(tmp_path, "m.cpuMap(status, m.hostCpus(lscpu))", status=status(domains), lscpu=lscpu(HOST))
    owners = Owners("2-15", "0-1", state(domains).domains, HOST.online)
    wanted = [
        ["".join(owners.cell(cpu).mark for cpu in core) for core in line.cores] for line in layout(owners.cpus, HOST)
    ]
    assert [["".join(cell["mark"] for cell in core) for core in node["cores"]] for node in said] == wanted
    assert any("*" in core for line in wanted for core in line)


def test_letters_run_out_as_in_vscaf_top(tmp_path: Path) -> None:
    domains = [domain(f"d{number:02}", str(number)) for number in range(64)]
    said = run(tmp_path, "[...m.marks(status.domains)].map(([name, one]) => [name, one.mark])", status=status(domains))
    assert dict(said) == marks(state(domains).domains)


def test_what_is_not_known_is_not_shown_as_a_number(tmp_path: Path) -> None:
    domains = [DomainStatus(name="new", state="unknown")]
    said = run(tmp_path, "[m.rows(status, m.hostCpus(null)), m.detail(status.domains[0])]", status=status(domains))
    assert said[0][0]["cells"] == ["new", "unknown", *["?"] * 8]
    assert "bounds unknown" in said[1]["sentences"]
    assert not any(letter.isdigit() for text in said[1]["sentences"] for letter in text)


def test_a_pcpu_that_lscpu_does_not_know_has_no_node_and_is_offline(tmp_path: Path) -> None:
    told = {"cpus": [one | ({"online": False} if one["cpu"] == 15 else {}) for one in lscpu(HOST)["cpus"]]}
    said = run(tmp_path, "m.cpuMap(status, m.hostCpus(lscpu))", status=status(), lscpu=told)
    assert said[-1]["label"] == "node ?"
    assert [cell["mark"] for core in said[-1]["cores"] for cell in core] == ["!"]


@pytest.mark.parametrize("hostile", ["\x1b[31m", "\u202egnp", "a\u0000b", "\u2066x", "line\nbreak"])
def test_names_have_no_characters_that_change_other_text(tmp_path: Path, hostile: str) -> None:
    domains = [domain(hostile, "2-3", why=hostile, processes=[program(hostile, 2, [(2, 1.5)])])]
    events = [event(1, hostile, hostile, hostile, hostile, why=hostile)]
    given = {"status": status(domains, policy=hostile, exploring=[hostile], policy_previous=hostile), "events": events}
    shown = "[m.heading(status), m.rows(status, m.hostCpus(null)).map(one => one.cells), m.detail(status.domains[0]),"
    shown += (
        " events.map(m.decision), m.domainActions(status.domains[0]), m.policyText(status), m.rollbackText(status),"
    )
    shown += " m.cpuMap(status, m.hostCpus(null)).map(one => one.spoken)]"
    said = json.dumps(run(tmp_path, shown, **given), ensure_ascii=False)
    assert not any(letter in said for letter in "\x1b\u202e\u0000\u2066\n")
    assert "\\u0000" not in said and "\\u001b" not in said and "\\n" not in said
    assert "\ufffd" in said


def test_events_that_are_no_longer_kept_leave_the_time_before_unknown(tmp_path: Path) -> None:
    found = segments(tmp_path, EVENTS[1:])
    assert found["cfd"] == [(False, 0, 0, 0.25), (True, 8, 0.25, 0.525), (True, 6, 0.525, 1)]
    assert found["chemistry"] == [(False, 0, 0, 0.25), (True, 4, 0.25, 1)], "no event is about it"


def segments(directory: Path, events: list[dict[str, Any]]) -> dict[str, list[tuple[bool, int, float, float]]]:
    """Of the 40 s of EVENTS, by domain: known, count, from, to."""
    said = run(
        directory,
        "m.timeline(status, events, Date.parse('2026-01-01T12:00:00Z'), Date.parse('2026-01-01T12:00:40Z'))",
        status=status(),
        events=events,
    )
    return {
        lane["name"]: [(one["known"], one["count"], one["from"], one["to"]) for one in lane["segments"]]
        for lane in said
    }


def test_while_events_are_missing_the_pcpus_are_unknown(tmp_path: Path) -> None:
    lost = event(24, "lost", None, why="3 events from number 22 on are no longer kept")
    late = {**lost, "time": "2026-01-01T12:00:39.000Z"}  # when the page heard of it, after the next event
    found = segments(tmp_path, [*EVENTS[:4], late, *EVENTS[5:], event(32, "allocation", "new", "rest", "8-9")])
    gap = (False, 0, 0.525, 0.75)
    assert found["cfd"] == [(True, 8, 0.25, 0.525), gap, (True, 6, 0.75, 1)]
    assert found["chemistry"] == [gap, (True, 4, 0.75, 1)], "no event is about it"
    assert found["gone"] == [gap]
    assert found["new"] == [(False, 0, 0.525, 0.8), (True, 2, 0.8, 1)], "before its first event nothing is known"
    found = segments(tmp_path, [*EVENTS[:4], late])
    assert found["cfd"] == [(True, 8, 0.25, 0.525), (False, 0, 0.525, 1)], "the next event has not come yet"
    assert found["chemistry"] == [(False, 0, 0.525, 1)]


def test_a_list_that_is_too_long_for_an_event_is_not_known_until_the_status_tells(tmp_path: Path) -> None:
    cut = [{**one, "to": "0,2,4,…"} if one["domain"] in ("cfd", "gone") else one for one in EVENTS]
    said = run(
        tmp_path,
        "m.timeline(status, events, Date.parse('2026-01-01T12:00:00Z'), Date.parse('2026-01-01T12:00:40Z'))",
        status=status(),
        events=cut,
    )
    cfd = next(one for one in said if one["name"] == "cfd")
    assert [(one["known"], one["count"]) for one in cfd["segments"]] == [(False, 0), (True, 6)]
    assert len(said) == len(run(tmp_path, ALL, status=status(), lscpu=lscpu(HOST), events=EVENTS)["timeline"])


def test_released_domains_can_be_managed_and_others_released(tmp_path: Path) -> None:
    states = ["cooperating", "released", "unmanaged", "not running", "unknown"]
    domains = [DomainStatus(name=one, state=one) for one in states]
    said = run(tmp_path, "status.domains.map(one => m.domainActions(one).map(a => a.action))", status=status(domains))
    assert said == [["release", "bounds"], ["manage", "bounds"], ["manage", "bounds"], [], []], "unknown: no UUID yet"


def test_an_explanation_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    made = {"domain": "cfd", "now": ["It rests.\x1b"], "asked": [], "would_change": ["More demand."], "what_if": [{}]}
    assert run(tmp_path, "m.explanation(made)", made=made) == [
        {"title": "What it has", "sentences": ["It rests.\ufffd"]},
        {"title": "What would change it", "sentences": ["More demand."]},
    ]


def test_many_domains_are_asked_for_less_often(tmp_path: Path) -> None:
    numbers = [0, 10, 200, 1000]
    said = run(
        tmp_path,
        "[m.interval_ms(null), ...numbers.map(number => m.interval_ms({domains: Array(number)}))]",
        numbers=numbers,
    )
    assert said == [1000, 1000, 1000, 1000, 5000]


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "key=3", '"text"'])
def test_policy_options_must_be_an_object(tmp_path: Path, text: str) -> None:
    caught = "(() => { try { return m.policyOptions(text); } catch (error) { return error.message; } })()"
    assert "not a JSON object" in run(tmp_path, caught, text=text)


def test_policy_options_are_an_object(tmp_path: Path) -> None:
    assert run(tmp_path, "[m.policyOptions(' '), m.policyOptions(text)]", text='{"a": {"b": 1}}') == [
        {},
        {"a": {"b": 1}},
    ]


@pytest.mark.parametrize(
    ("minimum", "maximum"), [("0", "4"), ("3", "2"), ("", "2"), ("1", ""), ("1.5", "2"), ("-1", "2"), ("1", "65536")]
)
def test_bounds_must_be_whole_and_rising(tmp_path: Path, minimum: str, maximum: str) -> None:
    caught = "(() => { try { return m.partitionElement({}, low, high); } catch (error) { return error.message; } })()"
    assert run(tmp_path, caught, low=minimum, high=maximum).startswith("Write whole numbers")


def test_bounds_leave_the_other_rules_as_they_are(tmp_path: Path) -> None:
    said = run(
        tmp_path, "m.partitionElement(others, '1', '4')", others={"min": "2", "weight": '2"><x/>', "rest": "keep"}
    )
    assert said == '<partition min="1" weight="2&#34;&#62;&#60;x/&#62;" rest="keep" max="4"/>'
