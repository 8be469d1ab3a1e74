"""The alert rules and the dashboard name only metrics and labels that exist. The alerts fire when they should."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from metric_names import metric_names
from vscaf.cli.main import main
from vscaf.events import Kind
from vscaf.values import State

main.load_all()  # else `commands` has those that were used
ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "host-daemon" / "monitoring"
ALERTS = (MONITORING / "alerts.yml").read_text(encoding="utf-8")
ALERT_TESTS = (MONITORING / "alerts_test.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
LABELS = {"job", "instance", "domain", "uuid", "state", "kind", "policy", "version"}


def expressions() -> Iterator[str]:
    """Each PromQL expression of the alerts and of the dashboard."""
    yield from re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in DASHBOARD["templating"]["list"]:
        yield from re.findall(r"^label_values\((.*), \w+\)$", variable["query"])


EXPRESSIONS = list(expressions())


def named_metrics(expression: str) -> set[str]:
    """The words of *expression* that can only be metrics."""
    return set(re.findall(r"\b(?:vscaf_\w+|up\b)", re.sub(r'"[^"]*"', '""', expression)))


def test_every_expression_names_metrics_that_exist() -> None:
    assert len(EXPRESSIONS) > 40
    known = metric_names() | {"up"}
    for expression in EXPRESSIONS:
        assert named_metrics(expression), f"no metric in {expression}"
        assert named_metrics(expression) <= known, expression


def test_every_label_exists() -> None:
    for expression in EXPRESSIONS:
        matched = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
        grouped = [
            name for names in re.findall(r"\b(?:by|on|ignoring) ?\(([^)]*)\)", expression) for name in names.split(",")
        ]
        assert {name.strip() for name in [*matched, *grouped]} <= LABELS, expression
    shown = json.dumps(DASHBOARD["panels"]) + ALERTS
    assert set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown)) <= LABELS


def test_states_and_kinds_exist() -> None:
    text = " ".join(EXPRESSIONS)
    assert set(re.findall(r'\bstate="([^"]*)"', text)) <= set(State)
    assert set(re.findall(r'\bkind="([^"]*)"', text)) <= set(Kind)


def test_the_dashboard_is_what_the_program_makes() -> None:
    made = subprocess.run(
        [sys.executable, MONITORING / "make_dashboard.py"], capture_output=True, text=True, check=True
    )
    assert (MONITORING / "dashboard.json").read_text(encoding="utf-8") == made.stdout, (
        "run host-daemon/monitoring/make_dashboard.py >host-daemon/monitoring/dashboard.json"
    )


def test_no_two_panels_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not covered & cells and max(x for x, _ in covered) < 24, panel["title"]
        cells |= covered
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_expression_is_promql(promtool: str, tmp_path: Path) -> None:
    rules = []
    for number, expression in enumerate(EXPRESSIONS):
        plain = expression.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$domain", ".*")
        assert "$" not in plain, expression
        rules.append({"record": f"expression_{number}", "expr": plain})
    file = tmp_path / "rules.json"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "expressions", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_they_should(promtool: str) -> None:
    for command in ("check rules alerts.yml", "test rules alerts_test.yml"):
        done = subprocess.run([promtool, *command.split()], cwd=MONITORING, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways() -> None:
    alerts = re.findall(r"alert: (\w+)", ALERTS)
    assert len(set(alerts)) == len(alerts) > 10
    silent, *cases = ALERT_TESTS.split("  - name: ")[1:]
    assert set(re.findall(r"alertname: (\w+)", silent)) == set(alerts)
    for alert in alerts:
        case = next(one for one in cases if one.startswith(f"{alert}\n"))
        assert f"alertname: {alert}, exp_alerts: []" in case and f"alertname: {alert}\n        exp_alerts:\n" in case


def test_every_alert_has_a_summary_and_says_what_to_do() -> None:
    for rule in ALERTS.split("- alert: ")[1:]:
        assert re.search(r"severity: (critical|warning|info)\b", rule), rule
        assert re.search(r"summary: \".+\"\n +description: \".+\.\"\n", rule), rule


def test_a_wrong_name_would_be_found() -> None:
    assert named_metrics('rate(vscaf_wrong{domain="vscaf_x"}[5m])') - metric_names() == {"vscaf_wrong"}


def test_the_commands_that_descriptions_name_exist() -> None:
    assert set(re.findall(r"`vscaf ([\w-]+)", ALERTS)) <= set(main.commands)
