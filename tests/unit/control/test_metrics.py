"""Metrics: a scrape's content, no series of domains that are gone, and no client or guest can spoil or overload it."""

import asyncio
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ports import reserved_port
from prometheus_client.parser import text_string_to_metric_families
from vscaf.control import metrics as metrics_module
from vscaf.control.metric_families import MOST_DOMAINS
from vscaf.control.metrics import KEPT_S, MetricsServer, MetricsText
from vscaf.errors import UsageError
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import soon as until

README = Path(__file__).parents[3] / "host-daemon/README.md"


def program(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "running": True, "team": 1, "points": [], "decomposition": None, **fields}


def domain(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "uuid": f"uuid of {name}",
        "state": "cooperating",
        "why": "",
        "partition": "0-1",
        "allocation": 2,
        "demand": 3,
        "busy_cpus": 1.5,
        "paused": False,
        "suspended": False,
        "vcpus": 2,
        "vcpus_maximum": 4,
        "online": [0, 1],
        "agent": "connected",
        "report_age_s": 0.125,
        "bad_lines": 7,
        "scaf_weight": None,
        "speedup": 1.5,
        "steal_s": None,
        "rules": {"minimum": 1, "maximum": None, "weight": 1.0, "priority": 0, "rest": None},
        "processes": [program('evil"} 1\n'), program("b", running=False)],
        **fields,
    }


def absent(name: str) -> dict[str, Any]:
    nothing = dict.fromkeys(domain(name))
    return {**nothing, "name": name, "state": "not running", "why": "", "bad_lines": 0, "processes": []}


def status(*domains: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "policy": "max-speedup",
        "pool": "0-3,8",
        "managing": True,
        "unknown": False,
        "transitions": 12,
        "transition_s": 0.125,
        "exploring": ["a"],
        "exploration_cost": 0.004,
        "exploration_lost_s": 1.5,
        "optimum_speedup": 6.0,
        "lost_speedup": 0.25,
        "violations": [],
        "domains": list(domains),
        **fields,
    }


def scraped(state: dict[str, Any], counts: dict[str, int] | None = None) -> dict[tuple[str, ...], float]:
    """Every sample of a scrape: (name, label values except the UUID...) -> value. No sample may occur twice."""
    text = MetricsText(lambda: state, lambda: counts or {})().decode()
    samples: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values = dict(sample.labels)
            assert (values.pop("uuid", None) is None) == ("domain" not in values), "each domain has its UUID beside it"
            key = (sample.name, *values.values())
            assert key not in samples, f"{key} occurs twice"
            samples[key] = sample.value
    return samples


def test_a_scrape() -> None:
    parked = domain(
        "b", state="released", partition=None, allocation=None, demand=0, agent="no channel", report_age_s=None
    )
    got = scraped(status(domain("a", scaf_weight=1.25), parked, absent("c")), {"allocation": 3, "state": 5})
    for key, value in {
        ("vscaf_pool_cpus",): 5,
        ("vscaf_pool_cpus_held",): 2,
        ("vscaf_managing",): 1,
        ("vscaf_unknown",): 0,
        ("vscaf_violations",): 0,
        ("vscaf_transitions_total",): 12,
        ("vscaf_transition_seconds",): 0.125,
        ("vscaf_exploring_domains",): 1,
        ("vscaf_exploration_cost_ratio",): 0.004,
        ("vscaf_exploration_lost_seconds",): 1.5,
        ("vscaf_events_total", "allocation"): 3,
        ("vscaf_events_total", "state"): 5,
        ("vscaf_events_total", "fault"): 0,
        ("vscaf_optimum_speedup",): 6,
        ("vscaf_lost_speedup",): 0.25,
        ("vscaf_domain_exploring", "a"): 1,
        ("vscaf_domain_exploring", "b"): 0,
        ("vscaf_domain_speedup", "a"): 1.5,
        ("vscaf_domain_efficiency_ratio", "a"): 0.75,
        ("vscaf_domains", "cooperating"): 1,
        ("vscaf_domains", "released"): 1,
        ("vscaf_domains", "not running"): 1,
        ("vscaf_domains", "resting"): 0,
        ("vscaf_domain_state", "a", "cooperating"): 1,
        ("vscaf_domain_state", "b", "released"): 1,
        ("vscaf_domain_allocation_cpus", "a"): 2,
        ("vscaf_domain_demand_cpus", "a"): 3,
        ("vscaf_domain_busy_cpus", "a"): 1.5,
        ("vscaf_domain_vcpus", "a"): 2,
        ("vscaf_domain_vcpus_maximum", "a"): 4,
        ("vscaf_domain_paused", "a"): 0,
        ("vscaf_domain_suspended", "a"): 0,
        ("vscaf_domain_agent_connected", "a"): 1,
        ("vscaf_domain_agent_connected", "b"): 0,
        ("vscaf_domain_report_age_seconds", "a"): 0.125,
        ("vscaf_domain_scaf_weight", "a"): 1.25,
        ("vscaf_domain_programs", "a"): 1,
        ("vscaf_domain_minimum_cpus", "a"): 1,
        ("vscaf_domain_bad_lines_total", "a"): 7,
    }.items():
        assert got[key] == value, key
    for key in (
        ("vscaf_domain_allocation_cpus", "b"),  # released: it has no allocation, which is not an allocation of 0
        ("vscaf_domain_report_age_seconds", "b"),
        ("vscaf_domain_scaf_weight", "b"),
        ("vscaf_domain_maximum_cpus", "a"),
        ("vscaf_domain_steal_seconds_total", "a"),
        ("vscaf_domain_idle_ratio", "a"),
        ("vscaf_domain_inflation_ratio", "a"),
        ("vscaf_domain_efficiency_ratio", "b"),
        ("vscaf_domain_programs", "b"),  # no agent has reported
        ("vscaf_domain_vcpus", "c"),
    ):
        assert key not in got
    assert any(name.startswith("vscaf_daemon_process_") for name, *_ in got)
    assert not any("evil" in part for key in got for part in key), "a label contains text that a guest chose"


def decomposition(**fields: float) -> dict[str, float]:
    return {"idle_rate": 0.0, "inflation": 0.0, **fields}


def test_where_the_thread_time_goes_is_the_mean_by_team_of_what_is_known() -> None:
    two = [{"p": 1, "speedup": 1.0}, {"p": 2, "speedup": 1.5}]
    processes = [
        program("a", team=3, points=two, decomposition=decomposition(idle_rate=0.4, inflation=0.2)),
        program("b", team=1, decomposition=decomposition(idle_rate=0.2)),  # its inflation is not known
        program("c", team=8),
        program("d", team=8, running=False, decomposition=decomposition(idle_rate=1.0, inflation=1.0)),
    ]
    got = scraped(status(domain("a", processes=processes)))
    assert got["vscaf_domain_idle_ratio", "a"] == pytest.approx(0.35)
    assert got["vscaf_domain_inflation_ratio", "a"] == pytest.approx(0.2)
    processes[0]["decomposition"] = decomposition()
    assert scraped(status(domain("a", processes=processes)))["vscaf_domain_inflation_ratio", "a"] == 0.0
    got = scraped(status(domain("a", processes=processes[1:])))
    assert ("vscaf_domain_inflation_ratio", "a") not in got


def test_what_is_not_known_is_absent() -> None:
    unknown = {"managing": None, "transition_s": None, "optimum_speedup": None, "lost_speedup": None}
    fields = {"busy_cpus": None, "report_age_s": None, "speedup": None, "steal_s": None}
    got = {key[0] for key in scraped(status(domain("a", **fields), **unknown))}
    named = ("managing", "transition_seconds", "optimum_speedup", "lost_speedup")
    of_a_domain = ("busy_cpus", "report_age_seconds", "speedup", "efficiency_ratio", "steal_seconds_total", "programs")
    names = {*(f"vscaf_{one}" for one in named), *(f"vscaf_domain_{one}" for one in of_a_domain)}
    assert not names & got
    assert names <= {key[0] for key in scraped(status(domain("a", steal_s=0.0)))}, "0 is known"


def test_every_help_text_names_the_unit() -> None:
    text = MetricsText(lambda: status(domain("a")), dict)().decode()
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    assert len(helps) > 35
    ours = {name: line for name, line in helps.items() if "_daemon_process_" not in name}
    assert [name for name, line in ours.items() if not re.search(r"[.] Unit: [\w ]+[.]$", line)] == []


def test_no_label_has_unbounded_values() -> None:
    text = MetricsText(lambda: status(domain("a", steal_s=1.0), absent("b")), lambda: {"fault": 1})().decode()
    families = text_string_to_metric_families(text)
    labels = {name for family in families for sample in family.samples for name in sample.labels}
    assert labels == {"domain", "uuid", "state", "kind", "policy", "version"}


def test_promtool_finds_no_fault(promtool: str) -> None:
    text = MetricsText(lambda: status(domain("a", steal_s=1.0)), dict)()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_who_has_gone_leaves_no_series() -> None:
    now: list[dict[str, Any]] = [domain("a"), domain("b")]
    clock = [0.0]
    text = MetricsText(lambda: status(*now), dict, lambda: clock[0])
    assert b'"b"' in text()
    now.pop()
    clock[0] += KEPT_S
    assert b'"b"' not in text() and b'"a"' in text()


def test_scrapes_in_a_row_cost_one() -> None:
    asked: list[int] = []
    clock = [0.0]

    def state() -> dict[str, Any]:
        asked.append(1)
        return status(domain("a"))

    text = MetricsText(state, dict, lambda: clock[0])
    assert len({text() for _ in range(100)}) == 1
    assert len(asked) == 1
    clock[0] += KEPT_S
    text()
    assert len(asked) == 2


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=8, unique=True))
def test_any_names_make_a_scrape_with_a_series_for_each(names: list[str]) -> None:
    got = scraped(status(*(domain(name) for name in names)))
    shown = [key for key in got if key[0] == "vscaf_domain_vcpus"]
    assert len(shown) == len(names)
    assert all(len(key[1]) < 140 and key[1].isprintable() for key in shown)


def test_no_more_series_than_were_agreed() -> None:
    got = scraped(status(*(domain(f"d{number}") for number in range(MOST_DOMAINS + 50))))
    assert sum(1 for key in got if key[0] == "vscaf_domain_vcpus") == MOST_DOMAINS
    assert got["vscaf_domains", "cooperating"] == MOST_DOMAINS + 50


def test_over_http_and_nothing_else_there() -> None:
    async def main(port: int) -> None:
        server = MetricsServer(f"127.0.0.1:{port}")
        await server.start(lambda: b"vscaf_up 1\n")
        try:
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    assert (response.status, await response.text()) == (200, "vscaf_up 1\n")
                    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                for method, path in (("POST", "/metrics"), ("GET", "/v1/status"), ("POST", "/v1/off")):
                    async with session.request(method, f"http://127.0.0.1:{port}{path}") as response:
                        assert response.status == 404
        finally:
            async with asyncio.timeout(HANG_S):
                await server.stop()

    with reserved_port() as port:
        asyncio.run(main(port))


@pytest.mark.slow
def test_idle_connections_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "SCRAPE_S", 3.0)

    async def main(port: int) -> None:
        server = MetricsServer(f"127.0.0.1:{port}")
        await server.start(lambda: b"")
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        try:
            await until(lambda: server._connections["all"] > 0)
            assert server._connections["all"] <= metrics_module.CONNECTIONS
            await until(lambda: not server._connections["all"])
        finally:
            for one in held:
                one.close()
            await server.stop()

    with reserved_port() as port:
        asyncio.run(main(port))


@pytest.mark.parametrize("address", ["192.0.2.1:9753", "[2001:db8::1]:9753"])
def test_an_address_that_is_not_this_hosts(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        MetricsServer(address)
    assert f"metrics_address {address}: " in str(refused.value) and "free port" in str(refused.value)


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"metrics_address .*in use.*free port"):
            MetricsServer(f"127.0.0.1:{taken.getsockname()[1]}")


def test_two_that_were_started_at_once() -> None:
    with reserved_port() as port:
        first = MetricsServer(f"127.0.0.1:{port}")
        with pytest.raises(UsageError, match=r"metrics_address .*in use"):
            MetricsServer(f"127.0.0.1:{port}")
        asyncio.run(first.stop())
