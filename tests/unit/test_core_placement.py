"""Placement: whole chunks, the fewest moves, few NUMA nodes."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.invariants import check_partitions
from vscaf.core.placement import place
from vscaf.core.topology import Topology


def topology(chunks, chunk=1, per_node=1000):
    """chunks cores of chunk threads; per_node cores on each NUMA node; siblings are c and c + chunks, as on Intel."""
    parts = tuple(frozenset(c + t * chunks for t in range(chunk)) for c in range(chunks))
    return Topology(parts, {cpu: c // per_node for c, part in enumerate(parts) for cpu in part})


def cpus(*numbers):
    return frozenset(numbers)


def kept(partitions, held):
    return sum(len(partition & held.get(name, frozenset())) for name, partition in partitions.items())


def test_siblings_stay_together():
    placed = place(topology(4, chunk=2), {}, {"a": 4, "b": 2, "c": 0})
    assert placed == {"a": cpus(0, 1, 4, 5), "b": cpus(2, 6), "c": frozenset()}


def test_what_is_held_is_kept_and_only_the_difference_moves():
    held = {"a": cpus(0, 1, 2, 3), "b": cpus(4, 5, 6, 7)}
    placed = place(topology(8), held, {"a": 2, "b": 6})
    assert placed["a"] < held["a"]
    assert placed["b"] > held["b"]


def test_everyone_everywhere_is_split_without_a_stranger():
    everywhere = cpus(*range(64))
    placed = place(topology(4), {"a": everywhere, "b": everywhere}, {"a": 1, "b": 3})
    assert placed == {"a": cpus(3), "b": cpus(0, 1, 2)}


def test_both_hold_one_and_one_holds_more():
    """Either way one pCPU moves; where b keeps the shared one, both keep something."""
    held = {"a": cpus(0, 1), "b": cpus(0)}
    assert place(topology(3), held, {"a": 2, "b": 1}) == {"a": cpus(1, 2), "b": cpus(0)}
    assert place(topology(4), held, {"a": 2, "b": 2}) == {"a": cpus(1, 2), "b": cpus(0, 3)}


def test_a_chunk_cut_in_two_goes_where_most_is_kept():
    """c0 is cut between a and b, c1 is a's by half: greedily a takes c0 and b is left with nothing."""
    topo = Topology((cpus(0, 1), cpus(2, 3), cpus(4, 5)), dict.fromkeys(range(6), 0))
    held = {"a": cpus(0, 2), "b": cpus(1)}
    assert place(topo, held, {"a": 2, "b": 2}) == {"a": cpus(2, 3), "b": cpus(0, 1)}


def test_a_shrinking_domain_leaves_the_node_where_it_is_fewer():
    assert place(topology(8, per_node=4), {"a": cpus(2, 3, 4)}, {"a": 2}) == {"a": cpus(2, 3)}
    assert place(topology(8, per_node=4), {"a": cpus(3, 4, 5)}, {"a": 2}) == {"a": cpus(4, 5)}


def test_a_growing_domain_stays_on_its_node_and_a_new_one_takes_the_one_that_fits():
    held = {"a": cpus(4)}
    assert place(topology(12, per_node=4), held, {"a": 3, "b": 4}) == {"a": cpus(4, 5, 6), "b": cpus(0, 1, 2, 3)}
    assert place(topology(8, per_node=4), {"a": cpus(0, 1)}, {"a": 2, "b": 2})["b"] == cpus(2, 3)
    held = {"a": cpus(0), "b": cpus(4, 5)}  # the other node would be the tighter fit
    assert place(topology(8, per_node=4), held, {"a": 3, "b": 2})["a"] == cpus(0, 1, 2)


def test_what_nobody_holds_is_taken_before_what_has_to_be_released():
    held = {"a": cpus(0, 1), "b": cpus(3)}
    assert place(topology(4), held, {"a": 1, "b": 2}) == {"a": cpus(0), "b": cpus(2, 3)}


def test_sharing_domains_get_one_and_the_same_chunk_that_most_of_them_hold():
    held = {"a": cpus(0), "b": cpus(1), "c": cpus(1), "d": cpus(2)}
    allocations = {"a": 1, "b": 1, "c": 1, "d": 1}
    placed = place(topology(3), held, allocations, frozenset("bc"))
    assert placed == {"a": cpus(0), "b": cpus(1), "c": cpus(1), "d": cpus(2)}


def test_more_than_the_pool_is_refused():
    with pytest.raises(ValueError, match="3 chunks of a pool of 2"):
        place(topology(2), {}, {"a": 2, "b": 1})


def test_a_topology_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"chunk \[1\]"):
        Topology((cpus(0, 1), cpus(1)), {0: 0, 1: 0})
    with pytest.raises(ValueError, match="pCPU 1 has no NUMA node"):
        Topology((cpus(0, 1),), {0: 0})


def splits(total, parts):
    if parts == 1:
        yield from ((n,) for n in range(total + 1))
        return
    for n in range(total + 1):
        yield from ((n, *rest) for rest in splits(total - n, parts - 1))


def assignments(counts, free):
    """All ways to give counts[i] of free to domain i."""
    if not counts:
        yield ()
        return
    for mine in combinations(sorted(free), counts[0]):
        yield from (((frozenset(mine)), *rest) for rest in assignments(counts[1:], free - set(mine)))


def test_exhaustively_on_small_pools_the_moves_are_minimal_for_disjoint_held_sets():
    """Every disjoint holding of 4 pCPUs by up to 3 domains, every allocation: against every assignment there is."""
    names, pool = ("a", "b", "c"), frozenset(range(4))
    topo = topology(4, per_node=2)
    cases = 0
    for counts_held in splits(4, 3):
        for parts in assignments(counts_held, pool):
            held = dict(zip(names, parts, strict=True))
            for counts in splits(4, 3):
                allocations = dict(zip(names, counts, strict=True))
                placed = place(topo, held, allocations)
                most = max(kept(dict(zip(names, a, strict=True)), held) for a in assignments(counts, pool))
                assert kept(placed, held) == most, (held, allocations, placed)
                assert check_partitions(placed, allocations, {}, topo) == []
                cases += 1
    assert cases > 5000


@st.composite
def placements(draw):
    chunk, count = draw(st.integers(1, 2)), draw(st.integers(1, 5))
    topo = topology(count, chunk, draw(st.integers(1, 3)))
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=min(4, count)))
    host_cpus = st.frozensets(st.integers(0, count * chunk + 1))
    held = {name: draw(host_cpus) for name in names}
    left, allocations = count, {}
    for name in names:
        chunks = draw(st.integers(0, left))
        left -= chunks
        allocations[name] = chunks * chunk
    return topo, held, allocations


@given(placements())
def test_moves_are_minimal_also_where_held_sets_overlap_and_cut_chunks(problem):
    topo, held, allocations = problem
    placed = place(topo, held, allocations)
    assert check_partitions(placed, allocations, {}, topo) == []
    names, indices = list(allocations), frozenset(range(len(topo.chunks)))
    counts = [topo.chunks_for(allocations[name]) for name in names]
    best_kept, best_loyal = -1, -1
    for parts in assignments(counts, indices):
        partitions = {
            name: frozenset().union(*(topo.chunks[c] for c in part)) for name, part in zip(names, parts, strict=True)
        }
        loyal = sum(bool(partitions[name] & held[name]) for name in names)
        best_kept, best_loyal = max((best_kept, best_loyal), (kept(partitions, held), loyal))
    assert kept(placed, held) == best_kept
    assert sum(bool(placed[name] & held[name]) for name in names) == best_loyal


@given(placements())
def test_what_was_placed_stays_where_it_is(problem):
    topo, held, allocations = problem
    placed = place(topo, held, allocations)
    assert place(topo, placed, allocations) == placed


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_the_order_of_the_domains_does_not_matter(order):
    allocations = {"a": 1, "b": 2, "c": 1}
    held = {"a": cpus(0, 1, 2), "b": cpus(1, 2), "c": cpus(2)}
    first = place(topology(5), held, allocations)
    assert place(topology(5), {n: held[n] for n in order}, {n: allocations[n] for n in order}) == first


def test_violations_are_named():
    topo = topology(2, chunk=2)
    assert check_partitions({"a": cpus(0, 2), "b": cpus(0, 2)}, {"a": 2, "b": 2}, {}, topo, frozenset("ab")) == []
    both = check_partitions({"a": cpus(0, 2), "b": cpus(0, 2)}, {"a": 2, "b": 2}, {}, topo, frozenset("a"))
    assert both == ["pCPU 0 belongs to both a and b", "pCPU 2 belongs to both a and b"]
    assert check_partitions({"a": cpus(0, 1)}, {"a": 2}, {}, topo) == [
        "a holds [0, 1], which is not whole chunks of the pool",
        "a is allocated 2 CPUs and holds 0 chunks of 2",
    ]
    assert check_partitions({"a": cpus(0, 2)}, {"a": 2}, {"a": (3, 4)}, topo) == [
        "a is allocated 2 CPUs, below its minimum of 3"
    ]
    whole = {"a": cpus(0, 1, 2, 3)}
    assert check_partitions(whole, {"a": 4}, {"a": (1, 2)}, topo) == ["a is allocated 4 CPUs, above its maximum of 2"]
    apart = check_partitions({"a": cpus(0, 2), "b": cpus(1, 3)}, {"a": 2, "b": 2}, {}, topo, frozenset("ab"))
    assert apart == ["a, b share a chunk but have different partitions"]
