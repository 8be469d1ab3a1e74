"""What one domain's record makes of what it hears."""

import asyncio

from vscaf.config import Config, PolicyConfig
from vscaf.core.trust import DISTRUSTED_PERIODS, TRUSTED_PERIODS
from vscaf.hypervisor.simulated import SimulatedHost
from vscaf.hypervisor.values import DomainKey, DomainSeen, HostCpus, RunState
from vscaf.journal import FoundSettings, JournalEntry
from vscaf.managed import ManagedDomain
from vscaf.pool import HostPool
from vscaf.rules import DomainRules

SEEN = DomainSeen(
    DomainKey("u", 1), "a", accelerated=True, state=RunState.RUNNING, vcpus=2, vcpus_maximum=2, vcpu_time_s={}
)


def domain() -> ManagedDomain:
    cpus = HostCpus(frozenset({0}), (frozenset({0}),), {0: 0})
    return ManagedDomain(SEEN, DomainRules(), SimulatedHost(cpus), None)


def test_a_vcpu_that_comes_or_goes_is_no_broken_word() -> None:
    one = domain()
    for _ in range(5):
        for _ in range(DISTRUSTED_PERIODS - 1):
            one.judge(kept=False)
        one.judge(kept=True)
    assert not one.word.distrusted


def test_a_broken_word_is_remembered_until_it_is_kept_for_long() -> None:
    one = domain()
    for _ in range(DISTRUSTED_PERIODS):
        one.judge(kept=False)
    assert one.word.distrusted
    for _ in range(TRUSTED_PERIODS - 1):
        one.judge(kept=True)
    assert one.word.distrusted
    one.judge(kept=True)
    assert not one.word.distrusted


def test_who_may_have_been_suspended_may_compute_where_it_is_pinned() -> None:
    """Its daemon was killed before the suspend came about, and its pins are the same as at rest."""
    numbers = frozenset(range(2))
    cpus = HostCpus(numbers, tuple(frozenset({cpu}) for cpu in numbers), dict.fromkeys(numbers, 0))
    config = Config(uri="test:///default", pool="0-1", domains={}, policy=PolicyConfig(name="gang"))

    async def adopted(*, suspended: bool) -> ManagedDomain:
        host = SimulatedHost(cpus)
        key = host.start("a", 2)
        found = FoundSettings.of(await host.settings(key))
        entry = JournalEntry(
            name="a", uuid=key.uuid, run_id=1, found=found, partition=[], reach=[], suspended=suspended
        )
        (seen,) = await host.observe()
        one = ManagedDomain(seen, DomainRules(), host, None)
        await one.adopt(entry, None, HostPool(config, cpus))
        return one

    rests = asyncio.run(adopted(suspended=False)).standing
    assert rests is not None and rests.ways.rest_area == numbers and rests.resting and not rests.ours
    suspended = asyncio.run(adopted(suspended=True)).standing
    assert suspended is not None and suspended.claim == numbers and suspended.ours and not suspended.resting
