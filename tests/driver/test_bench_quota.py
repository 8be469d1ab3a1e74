"""Quotas of vCPUs, as the libvirts of hosts with cgroup v1 and v2 take and report them."""

from pathlib import Path

import libvirt
import pytest
from vscaf.bench.places.baselines import QUOTA_PERIOD_US
from vscaf.bench.places.domains import LARGEST_QUOTA_US

from .bench_guests import FOUND, Bench
from .faults import Faults, libvirt_error

KINDS = ["v1", "v2", "v2, and libvirt cannot write that there is no quota"]


class Quota:
    """A quota of a domain, as libvirt with such a cgroup has it; None: no quota.

    The test driver has none.
    """

    def __init__(self, faults: Faults, name: str, kind: str, quota_us: int | None) -> None:
        self.kind, self.quota_us, self.calls = kind, quota_us, 0
        faults.inject("schedulerParametersFlags", name, times=None, instead=self.reported)
        faults.inject("setSchedulerParametersFlags", name, times=None, instead=self.taken)

    def reported(self, _flags: int) -> dict[str, int]:
        none = -1 if self.kind == "v1" else LARGEST_QUOTA_US
        quota_us = none if self.quota_us is None else self.quota_us
        return {"vcpu_period": QUOTA_PERIOD_US, "vcpu_quota": quota_us}

    def taken(self, wanted: dict[str, int], _flags: int) -> None:
        self.calls += 1
        value = wanted["vcpu_quota"]
        if value < 0 and self.kind == KINDS[2]:
            raise libvirt_error(libvirt.VIR_ERR_SYSTEM_ERROR, 'Invalid value "-1" for "cpu.max": Invalid argument')
        none = value < 0 or (value == LARGEST_QUOTA_US and self.kind != "v1")
        self.quota_us = None if none else value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [None, 50_000])
def test_a_quota_is_taken_away_and_put_back(tmp_path: Path, kind: str, before: int | None) -> None:
    bench = Bench(tmp_path)
    quotas = [Quota(bench.faults, name, kind, before) for name in FOUND]
    with bench.place() as place:
        for arrangement, wanted in [("static", [None, None]), ("quota", [50_000, 33_333]), ("pinned", [None, None])]:
            calls = [quota.calls for quota in quotas]
            with place.arrange(arrangement, (1, 1)):
                assert [quota.quota_us for quota in quotas] == wanted
            if arrangement == "pinned":
                assert [quota.calls for quota in quotas] == calls, "nothing is set that is so already"
    assert [quota.quota_us for quota in quotas] == [before, before]
    assert bench.as_found()
