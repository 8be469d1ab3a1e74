"""Pins within a partition: siblings of the guest are on siblings of the host, and vNUMA cells on host nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vscaf.core.reconcile.pins import HostLayout, guest_numbering, host_layout, matched, vcpu_pins, worth
from vscaf.values import GuestCell, GuestTopology, HostCpus

CELLS = (GuestCell(frozenset(range(6)), frozenset()), GuestCell(frozenset(range(6, 12)), frozenset({2})))
PARTITION = st.frozensets(st.integers(0, 15), min_size=1, max_size=8)


@dataclass(frozen=True)
class Case:
    """The input of one match."""

    partition: frozenset[int]
    awake: Sequence[int]
    guest: GuestTopology
    layout: HostLayout
    before: Mapping[int, int]

    def matched(self) -> dict[int, int]:
        return matched(self.partition, self.awake, self.guest, self.layout, self.before)

    def worth(self, pins: Mapping[int, int]) -> tuple[int, int, int]:
        return worth(pins, self.guest, self.layout)

    def best(self) -> tuple[int, int, int]:
        """The best worth of all possible matches."""
        ways = permutations(sorted(self.partition), len(self.awake))
        return max(self.worth(dict(zip(self.awake, way, strict=True))) for way in ways)


def host(cores: Sequence[int], nodes: Sequence[int], *, neighbours: bool) -> HostCpus:
    """A host. cores: the threads of each core. nodes: the node of each core. neighbours: siblings are N and N + 1, else
    N and N + len(cores)."""
    threads = [(core, thread) for core, count in enumerate(cores) for thread in range(count)]
    if not neighbours:
        threads.sort(key=lambda one: (one[1], one[0]))
    members: dict[int, set[int]] = {}
    for number, (core, _thread) in enumerate(threads):
        members.setdefault(core, set()).add(number)
    return HostCpus(
        online=frozenset(range(len(threads))),
        cores=tuple(frozenset(cpus) for _core, cpus in sorted(members.items())),
        node_of={cpu: nodes[core] for core, cpus in members.items() for cpu in cpus},
    )


@st.composite
def cases(draw: st.DrawFn, *, most: int = 5, cells: bool = True, whole_cores: bool = False) -> Case:
    """Hosts of either numbering with one or two kinds of cores, and guests with and without threads and cells."""
    kinds = draw(st.sampled_from([(1,), (2,), (4,)] if whole_cores else [(1,), (2,), (1, 2), (4,), (2, 4)]))
    cores = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4))
    nodes = draw(st.lists(st.integers(0, 2), min_size=len(cores), max_size=len(cores)))
    cpus = host(cores, nodes, neighbours=draw(st.booleans()))
    threads = draw(st.sampled_from([1, max(kinds)] if whole_cores else [1, 2, 4]))
    if whole_cores:
        count = max(1, most // kinds[0])
        chosen = draw(st.lists(st.sampled_from(cpus.cores), min_size=1, max_size=count, unique=True))
        partition = frozenset[int]().union(*chosen)
        guest_cores = list(range(0, 12, threads))
        online = draw(
            st.sets(st.sampled_from(guest_cores), min_size=1, max_size=max(1, min(most, len(partition)) // threads))
        )
        awake = sorted(first + thread for first in online | {0} for thread in range(threads))[: len(partition)]
    else:
        partition = frozenset(draw(st.sets(st.sampled_from(sorted(cpus.online)), min_size=1, max_size=most)))
        awake = sorted({0, *draw(st.sets(st.integers(0, 11), max_size=len(partition) - 1))})[: len(partition)]
    made: tuple[GuestCell, ...] = ()
    if cells and draw(st.booleans()):
        size = draw(st.sampled_from([4, 8] if threads == 4 else [2, 4, 6]))
        homes = st.frozensets(st.integers(0, 2), max_size=2)
        made = tuple(GuestCell(frozenset(range(at, at + size)), draw(homes)) for at in range(0, 12, size))
    known = draw(st.dictionaries(st.sampled_from(awake), st.sampled_from(sorted(cpus.online)), max_size=len(awake)))
    return Case(partition, awake, GuestTopology(threads, made), host_layout(cpus), known)


@pytest.mark.slow
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


@pytest.mark.slow
@given(cases(most=12))
@settings(max_examples=300)
@example(  # two matches have the same number of vCPUs at home, and only one has siblings together
    Case(
        frozenset({0, 1, 2}),
        (0, 1, 6),
        GuestTopology(2, CELLS),
        HostLayout({0: (0, 0), 1: (2, 1), 2: (2, 1)}),
        {0: 0},
    )
)
def test_each_online_vcpu_has_a_pcpu_of_the_partition_to_itself_and_the_answer_stands(case: Case) -> None:
    pins = case.matched()
    assert list(pins) == list(case.awake)  # vCPU 0 among them
    assert len(set(pins.values())) == len(pins) and set(pins.values()) <= case.partition
    again = Case(case.partition, case.awake, case.guest, case.layout, pins)
    assert again.matched() == pins == case.matched()


@pytest.mark.slow
@given(cases(cells=False))
@settings(max_examples=300)
def test_siblings_are_together_and_others_apart_as_far_as_any_match_can(case: Case) -> None:
    assert case.worth(case.matched()) == case.best()


def test_a_guest_core_that_has_to_be_cut_goes_to_idle_cores() -> None:
    layout = HostLayout({cpu: (0, cpu % 4) for cpu in range(16)})
    pins = matched(frozenset({0, 1, 2, 4, 8}), [0, 1, 4, 5], GuestTopology(2), layout, {})
    assert pins == {0: 0, 1: 4, 4: 1, 5: 2}, "8 is on the core of 0 and 4"


@pytest.mark.slow
@given(cases())
@settings(max_examples=300)
def test_as_many_vcpus_as_in_any_match_are_on_the_node_of_their_cell(case: Case) -> None:
    assert case.worth(case.matched())[0] == case.best()[0]


@pytest.mark.slow
@given(cases(most=16, whole_cores=True))
@settings(max_examples=300)
def test_a_guest_core_has_a_host_core_where_there_are_enough(case: Case) -> None:
    """Partitions of whole cores (core-exclusive), guest cores of as many threads, cells of whole guest cores."""
    pins, threads = case.matched(), case.guest.threads
    width = max(
        len([cpu for cpu in case.partition if case.layout.core(cpu) == core]) for core in case.layout.core_of.values()
    )
    if threads == 1 or threads != width:
        return
    for guest_core in {vcpu // threads for vcpu in case.awake}:
        assert len({case.layout.core(pins[vcpu]) for vcpu in case.awake if vcpu // threads == guest_core}) == 1


@pytest.mark.slow
@given(st.data())
@settings(max_examples=200)
def test_both_numberings_give_the_same_match(data: st.DataObject) -> None:
    """The same threads of the same cores, whatever they are called."""
    threads = data.draw(st.sampled_from([1, 2, 4]))
    count = data.draw(st.integers(1, 6))
    nodes = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    chosen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    shown = data.draw(st.sampled_from([1, 2, 4]))
    size = data.draw(st.integers(1, len(chosen) * threads))
    cells = data.draw(
        st.sampled_from([(), (GuestCell(frozenset(range(4))), GuestCell(frozenset(range(4, 99)), frozenset({0})))])
    )
    former = data.draw(
        st.dictionaries(st.integers(0, size), st.tuples(st.integers(0, count - 1), st.integers(0, threads - 1)))
    )
    found = []
    for neighbours in (True, False):
        cpus = host([threads] * count, nodes, neighbours=neighbours)
        name = {
            place: sorted(cpus.cores[place[0]])[place[1]]
            for place in [(c, t) for c in range(count) for t in range(threads)]
        }
        place_of = {cpu: place for place, cpu in name.items()}
        partition = frozenset[int]().union(*(cpus.cores[core] for core in chosen))
        before = {vcpu: name[place] for vcpu, place in former.items()}
        pins = matched(partition, range(size), GuestTopology(shown, cells), host_layout(cpus), before)
        found.append({vcpu: place_of[cpu] for vcpu, cpu in pins.items()})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("neighbours", "expected"), [(True, {0: 0, 1: 1, 2: 2, 3: 3}), (False, {0: 0, 1: 4, 2: 1, 3: 5})]
)
def test_two_threads_a_core_in_the_guest_and_on_the_host(neighbours: bool, expected: dict[int, int]) -> None:
    cpus = host([2, 2, 2, 2], [0, 0, 0, 0], neighbours=neighbours)
    partition = cpus.cores[0] | cpus.cores[1]
    assert matched(partition, range(4), GuestTopology(2), host_layout(cpus), {}) == expected


@pytest.mark.parametrize("neighbours", [True, False])
def test_cells_are_on_the_nodes_of_their_memory(neighbours: bool) -> None:
    cpus = host([2, 2, 2, 2], [0, 0, 1, 1], neighbours=neighbours)
    cells = (GuestCell(frozenset({0, 1, 2, 3}), frozenset({1})), GuestCell(frozenset({4, 5, 6, 7}), frozenset({0})))
    pins = matched(cpus.online, range(8), GuestTopology(2, cells), host_layout(cpus), {})
    assert [cpus.node_of[pins[vcpu]] for vcpu in range(8)] == [1, 1, 1, 1, 0, 0, 0, 0]


def test_cells_whose_memory_may_be_anywhere_are_together() -> None:
    cpus = host([1] * 6, [0, 1, 0, 1, 0, 1], neighbours=True)
    cells = (GuestCell(frozenset({0, 1, 2})), GuestCell(frozenset({3, 4, 5})))
    pins = matched(cpus.online, range(6), GuestTopology(1, cells), host_layout(cpus), {})
    assert [cpus.node_of[pins[vcpu]] for vcpu in range(6)] in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_a_guest_without_threads_has_a_core_a_vcpu_while_there_are_enough() -> None:
    cpus = host([2, 2, 2], [0, 0, 0], neighbours=True)
    assert matched(cpus.online, range(3), None, host_layout(cpus), {}) == {0: 0, 1: 2, 2: 4}


@pytest.mark.slow
@given(cases(most=12, cells=False), st.data())
@settings(max_examples=200)
def test_a_core_more_or_less_moves_those_alone_that_it_concerns(case: Case, data: st.DataObject) -> None:
    """Guest cores and host cores of one width: who was on a core that stays is where it was."""
    width = case.guest.threads
    cpus = host([width] * 6, [0, 0, 0, 1, 1, 1], neighbours=data.draw(st.booleans()))
    cores = [frozenset(core) for core in cpus.cores]
    before_cores = data.draw(st.sets(st.sampled_from(cores), min_size=2, max_size=5))
    left = data.draw(st.sampled_from(sorted(before_cores, key=min)))
    layout, guest = host_layout(cpus), GuestTopology(width)
    wide = frozenset[int]().union(*before_cores)
    pins = matched(wide, range(len(wide)), guest, layout, {})
    narrow = wide - left
    less = matched(narrow, range(len(narrow)), guest, layout, pins)
    moved = [vcpu for vcpu in less if less[vcpu] != pins[vcpu]]
    assert all(pins[vcpu] in left for vcpu in moved)
    back = matched(wide, range(len(wide)), guest, layout, {**pins, **less})
    assert all(back[vcpu] == less[vcpu] for vcpu in less)


def test_the_guest_numbers_vcpus_as_they_came() -> None:
    assert guest_numbering({2, 0, 1}, {}) == (0, 1, 2)
    assert guest_numbering({0, 3}, {}) == (0, 3)
    assert guest_numbering({0, 1, 3}, {0: 1, 3: 2, 1: 3}) == (0, 3, 1)
    assert guest_numbering({0, 1, 3}, {0: 1, 3: 2}) == (0, 3, 1)  # 1 was plugged after the description was read
