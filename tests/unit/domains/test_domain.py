"""What the record of one domain concludes from what it learns."""

import asyncio
from dataclasses import replace

from daemon_world import Agent
from vscaf.config import Config, PolicyConfig
from vscaf.core.model.trust import DISTRUSTED_PERIODS, TRUSTED_PERIODS
from vscaf.core.reconcile.state import Affinity, TransitionState
from vscaf.core.reconcile.steps import Goal
from vscaf.domains.domain import ManagedDomain
from vscaf.domains.pool import HostPool
from vscaf.domains.rules import DomainRules
from vscaf.journal import FoundSettings, JournalEntry
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import DomainKey, DomainSeen, DomainSettings, HostCpus, RunState

SEEN = DomainSeen(
    DomainKey("u", 1), "a", accelerated=True, state=RunState.RUNNING, vcpus=2, vcpus_maximum=2, vcpu_time_s={}
)


CPUS = HostCpus(frozenset({0}), (frozenset({0}),), {0: 0})


def domain() -> ManagedDomain:
    return ManagedDomain(SEEN, DomainRules(), SimulatedHost(CPUS), None)


def test_a_vcpu_that_comes_or_goes_is_no_broken_word() -> None:
    one = domain()
    for _ in range(5):
        for _ in range(DISTRUSTED_PERIODS - 1):
            one.trust.judge("a", kept=False)
        one.trust.judge("a", kept=True)
    assert not one.trust.distrusted


def test_a_broken_word_is_remembered_until_it_is_kept_for_long() -> None:
    one = domain()
    for _ in range(DISTRUSTED_PERIODS):
        one.trust.judge("a", kept=False)
    assert one.trust.distrusted
    for _ in range(TRUSTED_PERIODS - 1):
        one.trust.judge("a", kept=True)
    assert one.trust.distrusted
    one.trust.judge("a", kept=True)
    assert not one.trust.distrusted


def test_which_vcpus_are_online_is_unknown_while_it_is_unknown_which_are_plugged() -> None:
    """Otherwise the guest's CPU 1, which is vCPU 2, would be taken for vCPU 1, and vCPU 2 would seem to compute while
    it is offline."""
    one = domain()
    one.seen = replace(SEEN, vcpus_maximum=4)
    one.session.link = Agent(lambda: None)
    one.session.link.online = (0, 1)
    where = frozenset({0})
    read = Affinity({0: where, 2: where}, where)
    rests = frozenset[int]()
    treatment = HostPool(Config(pool="0", domains={}), CPUS).treatment(
        one.rules, DomainSettings(2, {}, where, None), False
    )
    one.transition = TransitionState("a", 2, 4, treatment, rests, read)
    assert one.online_vcpus() == (0, 2)
    one.transition = replace(one.transition, affinity=None)
    assert one.online_vcpus() is None


def test_who_may_have_been_suspended_may_compute_where_it_is_pinned() -> None:
    """Its daemon was killed before the suspend took effect, and its pins are the same as at rest."""
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

    rests = asyncio.run(adopted(suspended=False)).transition
    assert rests is not None and rests.treatment.rest_area == numbers and rests.resting and not rests.suspended_by_us
    suspended = asyncio.run(adopted(suspended=True)).transition
    assert suspended is not None and suspended.claim == numbers and suspended.suspended_by_us and not suspended.resting


def test_who_was_suspended_as_it_was_found_is_only_itself_when_it_comes_back_paused() -> None:
    """It was never pinned, so pins that allow all pCPUs do not mean that it was restored with pins that vscaf set."""
    numbers = frozenset(range(2))
    cpus = HostCpus(numbers, tuple(frozenset({cpu}) for cpu in numbers), dict.fromkeys(numbers, 0))
    pool = HostPool(Config(uri="test:///default", pool="0-1", domains={}, policy=PolicyConfig(name="gang")), cpus)

    async def next_run(state: RunState, *, pinned: bool) -> ManagedDomain:
        host = SimulatedHost(cpus)
        key = host.start("a", 2)
        await host.pin_vcpus(key, {0: frozenset({1})})
        (seen,) = await host.observe()
        before = ManagedDomain(seen, DomainRules(), host, None)
        await before.adopt(None, None, pool)
        assert before.transition is not None and before.transition.affinity is not None
        if pinned:
            there = replace(before.transition.affinity, vcpus=dict.fromkeys(range(2), frozenset({0})))
            before.transition = replace(before.transition, affinity=there)
        before.transition = replace(before.transition, suspended_by_us=True)
        before.goal = Goal(frozenset(), 2, competition=True, suspended=True)
        entry = before.entry()
        assert entry.suspended and entry.reach == ([0] if pinned else [])
        host.end(key)
        key = host.start("a", 2)
        if state is RunState.PAUSED:  # restored with the pins that it was saved with
            await host.pin_vcpus(key, dict.fromkeys(range(2), frozenset({0})) if pinned else {0: frozenset({1})})
            host.set_state(key, state)
        (seen,) = await host.observe()
        after = ManagedDomain(seen, DomainRules(), host, None)
        await after.adopt(None, entry, pool)
        return after

    for pinned in (False, True):
        anew = asyncio.run(next_run(RunState.RUNNING, pinned=pinned))
        assert anew.found is not None and set(anew.found.vcpu_pins.values()) == {numbers} and not anew.suspended_by_us
        back = asyncio.run(next_run(RunState.PAUSED, pinned=pinned))
        assert (
            back.found is not None and back.found.vcpu_pins == {0: frozenset({1}), 1: numbers} and back.suspended_by_us
        )
