"""A policy for tests, found by entry point like any plug-in: allocations that follow a timetable."""

from __future__ import annotations

from collections.abc import Mapping

from vscaf_policies import Options, PolicyError, PoolState


def scripted(pool: PoolState, options: Options) -> Mapping[str, int]:
    """Repeats the option `steps`, a list of `{"for_s": seconds, "cpus": {domain: CPUs}}`, by the caller's clock."""
    steps = options.get("steps")
    if not isinstance(steps, list) or not steps:
        raise PolicyError('policy lab-scripted: option steps must be a list like [{"for_s": 1.0, "cpus": {"a": 1}}]')
    into_s = pool.time_s % sum(step["for_s"] for step in steps)
    for step in steps:
        if into_s < step["for_s"]:
            return {name: cpus for name, cpus in step["cpus"].items() if name in {one.name for one in pool.domains}}
        into_s -= step["for_s"]
    return dict(steps[-1]["cpus"])
