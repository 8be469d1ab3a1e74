"""The names of all metrics of the daemon."""

import re

from vscaf.control.metrics import MetricsText

STATUS = {
    "policy": "",
    "pool": "0",
    "managing": True,
    "unknown": False,
    "transitions": 0,
    "transition_s": 0,
    "exploring": [],
    "exploration_cost": 0,
    "exploration_lost_s": 0,
    "optimum_speedup": 0,
    "lost_speedup": 0,
    "violations": [],
    "domains": [],
}


def metric_names() -> set[str]:
    """The names in a scrape, those of the daemon's process among them."""
    return set(re.findall(r"^# TYPE (\S+)", MetricsText(lambda: STATUS, dict)().decode(), re.MULTILINE))
