"""Pins within a partition."""

from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.pins import vcpu_pins

PARTITION = st.frozensets(st.integers(0, 15), min_size=1, max_size=8)


@given(PARTITION, st.integers(1, 8), st.none() | st.lists(st.integers(0, 9), max_size=8), st.booleans())
def test_every_vcpu_stays_within_the_partition(
    partition: frozenset[int], vcpus: int, online: list[int] | None, cooperating: bool
) -> None:
    pins = vcpu_pins(partition, range(vcpus), online, cooperating=cooperating)
    assert set(pins) == set(range(vcpus))
    assert all(cpus and cpus <= partition for cpus in pins.values())


@given(PARTITION, st.integers(1, 8), st.data())
def test_online_vcpus_of_a_cooperating_domain_never_share(
    partition: frozenset[int], vcpus: int, data: st.DataObject
) -> None:
    most = min(vcpus, len(partition))
    online = sorted(data.draw(st.sets(st.integers(0, vcpus - 1), min_size=1, max_size=most)))
    pins = vcpu_pins(partition, range(vcpus), online, cooperating=True)
    used = [cpu for vcpu in online for cpu in pins[vcpu]]
    assert len(used) == len(online) == len(set(used))


def test_contained_where_more_are_online_than_there_are_pcpus() -> None:
    assert set(vcpu_pins(frozenset({3}), range(2), [0, 1], cooperating=True).values()) == {frozenset({3})}
    assert set(vcpu_pins(frozenset({3, 4}), range(2), [0, 1], cooperating=False).values()) == {frozenset({3, 4})}
