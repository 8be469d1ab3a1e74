#!/usr/bin/env python3
"""make_dashboard.py: prints the Grafana dashboard of vscaf as JSON. dashboard.json beside it is its output."""

import json
import sys
from dataclasses import dataclass
from typing import Any

WIDTH = 24  # columns of Grafana's grid
HEIGHT = 8
HOST = '{instance=~"$instance"}'
DOMAIN = '{instance=~"$instance",domain=~"$domain"}'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """queries: PromQL and legend of each. unit: as Grafana names it. kind: the panel's type. columns: its width."""

    title: str
    text: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    columns: int = 8
    stacked: bool = False


def of_host(title: str, text: str, *queries: tuple[str, str], **options: Any) -> Panel:
    return Panel(
        title, text, tuple((expression.replace("{}", HOST), legend) for expression, legend in queries), **options
    )


def of_domain(title: str, text: str, expression: str, legend: str = "{{domain}}", **options: Any) -> Panel:
    return Panel(title, text, ((expression.replace("{}", DOMAIN), legend),), **options)


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Host",
        (
            of_host("Policy", "The policy in use and the version of the daemon.",
                    ("vscaf_info{}", "{{instance}}: {{policy}}, {{version}}"), kind="stat", columns=6),
            of_host("libvirt does not answer", "1: the values of all domains are old.", ("max(vscaf_unknown{})", ""),
                    kind="stat", columns=6),
            of_host("Broken laws", "Above 0 is a bug.", ("sum(vscaf_violations{})", ""), kind="stat", columns=6),
            of_host("Domains that compute", "With pCPUs of their own.",
                    ("count(vscaf_domain_allocation_cpus{} > 0) or vector(0)", ""), kind="stat", columns=6),
            of_host("Pool", "pCPUs in the pool, and those in some domain's partition.",
                    ("sum(vscaf_pool_cpus{})", "pool"), ("sum(vscaf_pool_cpus_held{})", "held")),
            of_host("Speedup that the policy asks for, and what is lost of it",
                    "By the speedup curves, weighted. Lost to damping, exploration, transitions, and calls that fail.",
                    ("sum(vscaf_optimum_speedup{})", "asked for"), ("sum(vscaf_lost_speedup{})", "lost")),
            of_host("Cost of exploration", "Share of the predicted sum of speedups.",
                    ("vscaf_exploration_cost_ratio{}", "{{instance}}"), unit="percentunit"),
            of_host("Domains by state", "", ("sum by (state) (vscaf_domains{}) > 0", "{{state}}"), stacked=True),
            of_host("Changes of the partition", "Per second.",
                    ("rate(vscaf_transitions_total{}[$__rate_interval])", "{{instance}}"), unit="cps"),
            of_host("Duration of a transition", "Mean over the last transitions.",
                    ("vscaf_transition_seconds{}", "{{instance}}"), unit="s"),
            of_host("Events", "Per minute, by kind.",
                    ("60 * sum by (kind) (rate(vscaf_events_total{}[$__rate_interval])) > 0", "{{kind}}"), columns=12),
            of_host("The daemon's own CPU time", "CPUs in use.",
                    ("rate(vscaf_daemon_process_cpu_seconds_total{}[$__rate_interval])", "{{instance}}"), columns=12),
        ),
    ),
    (
        "Domains: CPUs",
        (
            of_domain("Allocation", "pCPUs in each domain's partition.", "vscaf_domain_allocation_cpus{}",
                      stacked=True),
            of_domain("Demand", "The most pCPUs that each domain can use now.", "vscaf_domain_demand_cpus{}"),
            of_domain("Use", "pCPUs in use, as the host sees it.", "vscaf_domain_busy_cpus{}"),
            of_domain("State", "", "vscaf_domain_state{} == 1", legend="{{domain}}: {{state}}",
                      kind="state-timeline", columns=16),
            of_domain("Steal", "vCPUs that are ready and wait for a pCPU.",
                      "rate(vscaf_domain_steal_seconds_total{}[$__rate_interval])"),
        ),
    ),
    (
        "Domains: speedup",
        (
            of_domain("Speedup", "What the domain's curve predicts for its allocation.", "vscaf_domain_speedup{}"),
            of_domain("Efficiency", "Speedup divided by allocation.", "vscaf_domain_efficiency_ratio{}",
                      unit="percentunit"),
            of_domain("SCAF's weight C", "Of S(p) = 1 + C ln p.", "vscaf_domain_scaf_weight{}"),
            of_domain("Idle rate", "Thread time that is lost to fork, dispatch and barriers.",
                      "vscaf_domain_idle_ratio{}", unit="percentunit"),
            of_domain("Inflation", "Thread time by which the work takes longer than on one thread.",
                      "vscaf_domain_inflation_ratio{}", unit="percentunit"),
            of_domain("Allocation varied on purpose", "1: exploration.", "vscaf_domain_exploring{}"),
        ),
    ),
    (
        "Domains: agents",
        (
            of_domain("Agent connected", "", "vscaf_domain_agent_connected{}", kind="state-timeline"),
            of_domain("Programs that compute", "As the agents report.", "vscaf_domain_programs{}"),
            of_domain("Lines that were refused", "Per second.",
                      "rate(vscaf_domain_bad_lines_total{}[$__rate_interval])", unit="cps"),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})  # fmt: skip
        x, y = 0, y + 1
        for panel in row:
            if x + panel.columns > WIDTH:
                x, y = 0, y + HEIGHT
            panels.append(drawn(panel, len(panels) + 1, x, y))
            x += panel.columns
        y += HEIGHT
    return {
        "title": "vscaf",
        "uid": "vscaf",
        "tags": ["vscaf"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                variable("instance", "Host", "label_values(vscaf_info, instance)"),
                variable("domain", "Domain", f"label_values(vscaf_domain_state{HOST}, domain)"),
            ]
        },
        "panels": panels,
    }


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE, "query": query, "refresh": 2,
            "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"}}  # fmt: skip


def drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        defaults["custom"] = {"fillOpacity": 30 if panel.stacked else 0}
        defaults["custom"]["stacking"] = {"mode": "normal" if panel.stacked else "none"}
    targets = [
        {"refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
        for index, (expression, legend) in enumerate(panel.queries)
    ]
    return {"id": number, "type": panel.kind, "title": panel.title, "description": panel.text,
            "datasource": DATASOURCE, "targets": targets, "fieldConfig": {"defaults": defaults, "overrides": []},
            "gridPos": {"h": HEIGHT, "w": panel.columns, "x": x, "y": y}}  # fmt: skip


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")
