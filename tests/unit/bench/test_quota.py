"""Quotas of vCPUs, as the libvirts of hosts with cgroup v1 and v2 take and report them."""

from types import SimpleNamespace
from typing import Any

import libvirt
import pytest
from vscaf.bench.places.baselines import QUOTA_PERIOD_US, Setting
from vscaf.bench.places.domains import LARGEST_QUOTA_US, apply
from vscaf.bench.places.existing import Found, put_back

KINDS = ["v1", "v2", "v2, and libvirt cannot write that there is no quota"]


class Domain:
    """Has a quota as libvirt with such a cgroup would have it; None: no quota."""

    def __init__(self, kind: str, quota_us: int | None) -> None:
        self.kind, self.quota_us, self.period_us, self.calls = kind, quota_us, QUOTA_PERIOD_US, 0

    def schedulerParametersFlags(self, _flags: int) -> dict[str, int]:  # noqa: N802
        none = -1 if self.kind == "v1" else LARGEST_QUOTA_US
        return {"vcpu_period": self.period_us, "vcpu_quota": none if self.quota_us is None else self.quota_us}

    def setSchedulerParametersFlags(self, wanted: dict[str, int], _flags: int) -> None:  # noqa: N802
        self.calls += 1
        value = wanted["vcpu_quota"]
        if value < 0 and self.kind == KINDS[2]:
            raise libvirt.libvirtError('Invalid value "-1" for "cpu.max": Invalid argument')
        none = value < 0 or (value == LARGEST_QUOTA_US and self.kind != "v1")
        self.quota_us, self.period_us = None if none else value, wanted["vcpu_period"]


def guest_of(domain: Domain) -> Any:
    return SimpleNamespace(name="a", domain=domain, vcpus=(), cpus=(), use_agent=lambda running: None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [None, 50_000])
def test_a_quota_is_taken_away_and_put_back(monkeypatch: pytest.MonkeyPatch, kind: str, before: int | None) -> None:
    for module in ("domains", "existing"):
        monkeypatch.setattr(f"vscaf.bench.places.{module}.pin", lambda *_: None)
    domain = Domain(kind, before)
    guest = guest_of(domain)
    found = Found({}, domain.schedulerParametersFlags(0), "0")
    apply(guest, Setting((), 0))
    assert domain.quota_us is None and domain.calls == (before is not None) * (1 + (kind == KINDS[2]))
    apply(guest, Setting((), 0, 25_000))
    assert domain.quota_us == 25_000
    apply(guest, Setting((), 0))
    assert domain.quota_us is None
    put_back(guest, found)
    assert domain.quota_us == before
