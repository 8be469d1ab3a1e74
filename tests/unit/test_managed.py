"""What one domain's record makes of what it hears."""

from vscaf.core.trust import DISTRUSTED_PERIODS, TRUSTED_PERIODS
from vscaf.hypervisor.simulated import SimulatedHost
from vscaf.hypervisor.values import DomainKey, DomainSeen, HostCpus, RunState
from vscaf.managed import ManagedDomain
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
