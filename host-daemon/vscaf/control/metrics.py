"""Metrics in Prometheus's text format, computed from the daemon's status at each scrape.

No counters are kept here, so a domain that ends leaves no series behind. Labels are domain names, states, kinds of
events and policy names. No label contains a name that a guest chooses (program names).
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from vscaf import __version__
from vscaf.config import parse_address
from vscaf.control.limits import Admission, ConnectionLimiter
from vscaf.cpulist import parse_cpu_list
from vscaf.errors import UsageError
from vscaf.values import LEFT_ALONE, State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_DOMAINS = 1000
NAME_CHARACTERS = 128
KEPT_S = 1.0  # scrapes within this time get the same text, so that scraping cannot keep the daemon busy
CONNECTIONS = 32
SCRAPE_S = 10.0


def _programs(domain: Mapping[str, Any]) -> int:
    return sum(1 for process in domain["processes"] if process["running"])


DOMAIN_GAUGES: tuple[tuple[str, str, Callable[[Mapping[str, Any]], Any]], ...] = (
    ("allocation_cpus", "pCPUs in the domain's partition", lambda domain: domain["allocation"]),
    ("demand_cpus", "Most pCPUs that it can use now", lambda domain: domain["demand"]),
    ("busy_cpus", "pCPUs that its vCPUs used on average recently", lambda domain: domain["busy_cpus"]),
    ("vcpus", "vCPUs plugged", lambda domain: domain["vcpus"]),
    ("vcpus_maximum", "vCPUs that can be plugged", lambda domain: domain["vcpus_maximum"]),
    ("paused", "1: it does not run now", lambda domain: domain["paused"]),
    ("suspended", "1: vscaf has suspended it until its next slice of time", lambda domain: domain["suspended"]),
    ("agent_connected", "1: its agent is connected", lambda domain: domain["agent"] == "connected"),
    ("report_age_seconds", "Age of its agent's last report", lambda domain: domain["report_age_s"]),
    ("scaf_weight", "C of its speedup model S(p) = 1 + C ln p", lambda domain: domain["scaf_weight"]),
    ("programs", "Programs that compute in it, as its agent reports", _programs),
    ("minimum_cpus", "Its minimum, by the rules in force", lambda domain: (domain["rules"] or {}).get("minimum")),
    ("maximum_cpus", "Its maximum, by the rules in force", lambda domain: (domain["rules"] or {}).get("maximum")),
)


class StatusCollector(Collector):
    """The status and the counts of events as metrics; both are read when collect() is called."""

    def __init__(self, status: Callable[[], Mapping[str, Any]], events: Callable[[], Mapping[str, int]]) -> None:
        self._status = status
        self._events = events

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield InfoMetricFamily(
            "vscaf", "Version and policy", {"version": __version__, "policy": _label(status["policy"])}
        )
        pool = parse_cpu_list(status["pool"])
        held = frozenset[int]().union(*(parse_cpu_list(one["partition"] or "") for one in status["domains"]))
        gauges = {
            "vscaf_pool_cpus": ("pCPUs in the pool now", len(pool)),
            "vscaf_pool_cpus_held": ("pCPUs of the pool that are in some domain's partition", len(pool & held)),
            "vscaf_managing": ("0: the policy changes nothing", bool(status["managing"])),
            "vscaf_unknown": ("1: libvirt does not answer", bool(status["unknown"])),
            "vscaf_transition_seconds": ("Mean duration of a domain's transition", status["transition_s"]),
            "vscaf_exploration_cost_ratio": (
                "Share of the predicted sum of speedups that exploration has cost on average",
                status["exploration_cost"],
            ),
            # A gauge and not a counter: the cost of a variation is corrected when it ends, and may become less.
            "vscaf_exploration_lost_seconds": (
                "Seconds of the whole predicted sum of speedups that exploration has cost",
                status["exploration_lost_s"],
            ),
            "vscaf_exploring_domains": ("Domains whose allocation is varied on purpose", len(status["exploring"])),
            "vscaf_violations": ("Laws that the present partition breaks", len(status["violations"])),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, float(value))
        yield CounterMetricFamily("vscaf_transitions", "Changes of the partition", float(status["transitions"]))
        counts = CounterMetricFamily("vscaf_events", "Events by kind", labels=["kind"])
        for kind, count in self._events().items():
            counts.add_metric([_label(kind)], float(count))
        yield counts
        yield from _domain_metrics(status["domains"])


def _domain_metrics(domains: list[Mapping[str, Any]]) -> Iterator[Metric]:
    states = Counter(domain["state"] for domain in domains)
    by_state = GaugeMetricFamily("vscaf_domains", "Domains by state", labels=["state"])
    for state in State:
        by_state.add_metric([state], float(states[state]))
    yield by_state
    shown = list(_named([domain for domain in domains if domain["state"] != State.NOT_RUNNING][:MOST_DOMAINS]))
    state_of = GaugeMetricFamily(
        "vscaf_domain_state", "1 for the state that the domain is in", labels=["domain", "state"]
    )
    for name, domain in shown:
        state_of.add_metric([name, _label(domain["state"])], 1.0)
    yield state_of
    for metric, text, value_of in DOMAIN_GAUGES:
        gauge = GaugeMetricFamily(f"vscaf_domain_{metric}", text, labels=["domain"])
        for name, domain in shown:
            value = value_of(domain)
            if value is not None and not (metric == "allocation_cpus" and domain["state"] in LEFT_ALONE):
                gauge.add_metric([name], float(value))
        yield gauge
    bad = CounterMetricFamily("vscaf_domain_bad_lines", "Lines from its agent that were refused", labels=["domain"])
    for name, domain in shown:
        bad.add_metric([name], float(domain["bad_lines"]))
    yield bad


def _named(domains: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each domain with a unique label. Two series with the same labels would make the whole scrape invalid."""
    used: set[str] = set()
    for domain in domains:
        name = label = _label(domain["name"])
        number = 1
        while label in used:
            number += 1
            label = f"{name}~{number}"
        used.add(label)
        yield label, domain


def _label(text: str) -> str:
    return "".join(letter if letter.isprintable() else "_" for letter in text[:NAME_CHARACTERS])


class MetricsText:
    """The text of a scrape, at most `KEPT_S` old."""

    def __init__(
        self,
        status: Callable[[], Mapping[str, Any]],
        events: Callable[[], Mapping[str, int]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(StatusCollector(status, events))
        ProcessCollector(namespace="vscaf_daemon", registry=self._registry)
        self._now_s = now_s
        self._made_at_s = float("-inf")
        self._text = b""

    def __call__(self) -> bytes:
        if self._now_s() - self._made_at_s >= KEPT_S:
            self._text = generate_latest(self._registry)
            self._made_at_s = self._now_s()
        return self._text


class MetricsServer:
    """Serves GET /metrics on a TCP *address*. The constructor binds it, with UsageError if that fails."""

    def __init__(self, address: str) -> None:
        host, port = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"metrics_address {address}: {error.strerror}: give an address of this host and a free port"
            ) from error
        self._server: asyncio.Server | None = None
        self._connections: Counter[Hashable] = Counter()
        self._web: web.Server | None = None

    async def start(self, text: Callable[[], bytes]) -> None:
        """Begins to answer requests."""

        async def answer(request: web.BaseRequest) -> web.Response:
            if (request.method, request.path) != ("GET", "/metrics"):
                return web.Response(status=404, text="only GET /metrics is served\n")
            response = web.Response(body=text(), headers={"Content-Type": CONTENT_TYPE})
            response.force_close()
            return response

        self._web = web.Server(answer, access_log=None, auto_decompress=False)
        self._server = await asyncio.get_running_loop().create_server(self._connected, sock=self._socket)

    async def stop(self) -> None:
        """Ends the server and closes the socket."""
        if self._server is not None:
            self._server.close()
        if self._web is not None:
            await self._web.shutdown(1.0)
        self._socket.close()

    def _connected(self) -> asyncio.Protocol:
        assert self._web is not None
        return ConnectionLimiter(self._web(), lambda _: Admission("all", CONNECTIONS, SCRAPE_S), self._connections)
