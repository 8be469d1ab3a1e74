"""The metrics, as families that prometheus_client prints.

No counters are kept here, so a domain that ends leaves no series behind. Labels are names and UUIDs of domains, states,
kinds of events and names of policies. No label contains a name that a guest chooses (program names). A value that is
not known has no sample.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from vscaf import __version__
from vscaf.control.messages import inflation_is_known
from vscaf.cpulist import parse_cpu_list
from vscaf.events import Kind
from vscaf.values import LEFT_ALONE, State

MOST_DOMAINS = 1000
NAME_CHARACTERS = 128

Domain = Mapping[str, Any]
DOMAIN_LABELS = ("domain", "uuid")


class Row(NamedTuple):
    """A metric: its name without "vscaf_", its unit, its help text, and its value. None: not known."""

    name: str
    unit: str
    text: str
    value_of: Callable[[Mapping[str, Any]], float | None]


def _held(status: Mapping[str, Any]) -> int:
    pool = parse_cpu_list(status["pool"])
    held = frozenset[int]().union(*(parse_cpu_list(one["partition"] or "") for one in status["domains"]))
    return len(pool & held)


def _programs(domain: Domain) -> float | None:
    return None if domain["report_age_s"] is None else len(_running(domain))


def _running(domain: Domain) -> list[Mapping[str, Any]]:
    return [process for process in domain["processes"] if process["running"]]


def _mean(parts: Iterable[tuple[int, float]]) -> float | None:
    """The mean of the programs' values, each weighted by its team size. None: there is no value."""
    listed = [(max(1, team), value) for team, value in parts]
    return sum(team * value for team, value in listed) / sum(team for team, _ in listed) if listed else None


def _idle(domain: Domain) -> float | None:
    measured = [process for process in _running(domain) if process["decomposition"] is not None]
    return _mean((process["team"], process["decomposition"]["idle_rate"]) for process in measured)


def _inflation(domain: Domain) -> float | None:
    """The mean inflation of the programs of which it is known."""
    measured = [
        process
        for process in _running(domain)
        if process["decomposition"] is not None
        and inflation_is_known(process["decomposition"]["inflation"], (point["p"] for point in process["points"]))
    ]
    return _mean((process["team"], process["decomposition"]["inflation"]) for process in measured)


def _efficiency(domain: Domain) -> float | None:
    speedup, cpus = domain["speedup"], domain["allocation"]
    return speedup / cpus if speedup is not None and cpus else None


def _allocation(domain: Domain) -> float | None:
    allocation: int | None = domain["allocation"]
    return None if domain["state"] in LEFT_ALONE else allocation


GAUGES = (
    Row("pool_cpus", "pCPUs", "In the pool now.", lambda status: len(parse_cpu_list(status["pool"]))),
    Row("pool_cpus_held", "pCPUs", "In the pool and in some domain's partition.", _held),
    Row("managing", "0 or 1", "0: the policy changes nothing.", lambda status: status["managing"]),
    Row("unknown", "0 or 1", "1: libvirt does not answer, and the values of all domains are old.",
        lambda status: status["unknown"]),
    Row("violations", "laws", "That the present partition breaks. Above 0 is a bug.",
        lambda status: len(status["violations"])),
    Row("transition_seconds", "seconds", "Mean duration of a domain's transition.",
        lambda status: status["transition_s"]),
    Row("exploring_domains", "domains", "Whose allocation is varied on purpose now.",
        lambda status: len(status["exploring"])),
    Row("exploration_cost_ratio", "ratio",
        "Share of the predicted sum of speedups that exploration has cost on average.",
        lambda status: status["exploration_cost"]),
    # Not a counter: the cost of a variation is corrected when it ends, and may become less.
    Row("exploration_lost_seconds", "seconds", "Of the whole predicted sum of speedups, that exploration has cost.",
        lambda status: status["exploration_lost_s"]),
    Row("optimum_speedup", "speedup", "Predicted sum of weighted speedups if each domain had what the policy asks for.",
        lambda status: status["optimum_speedup"]),
    Row("lost_speedup", "speedup", "How much less than vscaf_optimum_speedup the present partition gives.",
        lambda status: status["lost_speedup"]),
)  # fmt: skip

DOMAIN_GAUGES = (
    Row("allocation_cpus", "pCPUs", "In the domain's partition.", _allocation),
    Row("demand_cpus", "pCPUs", "The most that it can use now.", lambda domain: domain["demand"]),
    Row("busy_cpus", "pCPUs", "That its vCPUs used on average recently.", lambda domain: domain["busy_cpus"]),
    Row("minimum_cpus", "pCPUs", "Its minimum, by the rules in force.",
        lambda domain: (domain["rules"] or {}).get("minimum")),
    Row("maximum_cpus", "pCPUs", "Its maximum, by the rules in force.",
        lambda domain: (domain["rules"] or {}).get("maximum")),
    Row("vcpus", "vCPUs", "Plugged.", lambda domain: domain["vcpus"]),
    Row("vcpus_maximum", "vCPUs", "That can be plugged.", lambda domain: domain["vcpus_maximum"]),
    Row("paused", "0 or 1", "1: it does not run now.", lambda domain: domain["paused"]),
    Row("suspended", "0 or 1", "1: vscaf has suspended it until its next slice of time.",
        lambda domain: domain["suspended"]),
    Row("agent_connected", "0 or 1", "1: its agent is connected.", lambda domain: domain["agent"] == "connected"),
    Row("report_age_seconds", "seconds", "Age of its agent's last report.", lambda domain: domain["report_age_s"]),
    Row("programs", "programs", "That compute in it, as its agent reports.", _programs),
    Row("scaf_weight", "1", "C of its speedup model S(p) = 1 + C ln p.", lambda domain: domain["scaf_weight"]),
    Row("speedup", "speedup", "What its curve predicts for its allocation, compared with one pCPU.",
        lambda domain: domain["speedup"]),
    Row("efficiency_ratio", "ratio", "Its speedup divided by its allocation.", _efficiency),
    Row("idle_ratio", "ratio",
        "Share of its programs' thread time in sections that was lost to fork, dispatch and barriers.", _idle),
    Row("inflation_ratio", "ratio",
        "Share of its programs' thread time in sections by which their own work takes longer than on one thread.",
        _inflation),
)  # fmt: skip

DOMAIN_COUNTERS = (
    Row("steal_seconds", "seconds", "For which its vCPUs were ready to run and had no pCPU.",
        lambda domain: domain["steal_s"]),
    Row("bad_lines", "lines", "From its agent, that were refused.", lambda domain: domain["bad_lines"]),
)  # fmt: skip


class StatusCollector(Collector):
    """The status and the counts of events as metrics; both are read when collect() is called."""

    def __init__(self, status: Callable[[], Mapping[str, Any]], events: Callable[[], Mapping[str, int]]) -> None:
        self._status = status
        self._events = events

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        info = {"version": __version__, "policy": _label(status["policy"])}
        yield InfoMetricFamily("vscaf", _help("Version and policy.", "1"), info)
        for row in GAUGES:
            gauge = GaugeMetricFamily(f"vscaf_{row.name}", _help(row.text, row.unit))
            _add(gauge, [], row.value_of(status))
            yield gauge
        yield CounterMetricFamily(
            "vscaf_transitions", _help("Changes of the partition.", "changes"), float(status["transitions"])
        )
        counts = CounterMetricFamily("vscaf_events", _help("By kind.", "events"), labels=["kind"])
        # A kind that has not occurred is 0, because an increase from "absent" to 1 is no increase to Prometheus.
        for kind, count in {**{kind.value: 0 for kind in Kind}, **self._events()}.items():
            counts.add_metric([_label(kind)], float(count))
        yield counts
        yield from _domain_metrics(status)


def _domain_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    domains = status["domains"]
    states = Counter(domain["state"] for domain in domains)
    by_state = GaugeMetricFamily("vscaf_domains", _help("By state.", "domains"), labels=["state"])
    for state in State:
        by_state.add_metric([state], float(states[state]))
    yield by_state
    known = [one for one in domains if one["state"] != State.NOT_RUNNING and one["vcpus"] is not None]
    shown = list(_named(known[:MOST_DOMAINS]))
    state_of = GaugeMetricFamily(
        "vscaf_domain_state", _help("1 for the state that the domain is in.", "1"), labels=[*DOMAIN_LABELS, "state"]
    )
    for labels, domain in shown:
        state_of.add_metric([*labels, _label(domain["state"])], 1.0)
    yield state_of
    exploring = GaugeMetricFamily(
        "vscaf_domain_exploring", _help("1: its allocation is varied on purpose.", "0 or 1"), labels=DOMAIN_LABELS
    )
    for labels, domain in shown:
        exploring.add_metric(labels, float(domain["name"] in status["exploring"]))
    yield exploring
    for kind, rows in ((GaugeMetricFamily, DOMAIN_GAUGES), (CounterMetricFamily, DOMAIN_COUNTERS)):
        for row in rows:
            family = kind(f"vscaf_domain_{row.name}", _help(row.text, row.unit), labels=DOMAIN_LABELS)
            for labels, domain in shown:
                _add(family, labels, row.value_of(domain))
            yield family


def _help(text: str, unit: str) -> str:
    return f"{text} Unit: {unit}."


def _add(family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, float(value))


def _named(domains: Iterable[Domain]) -> Iterator[tuple[list[str], Domain]]:
    """Each domain with unique labels. Two series with the same labels would make the whole scrape invalid."""
    used: set[str] = set()
    for domain in domains:
        name = label = _label(domain["name"])
        number = 1
        while label in used:
            number += 1
            label = f"{name}~{number}"
        used.add(label)
        yield [label, _label(domain["uuid"] or "")], domain


def _label(text: str) -> str:
    return "".join(letter if letter.isprintable() else "_" for letter in text[:NAME_CHARACTERS])
