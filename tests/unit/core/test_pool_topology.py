"""The pool's chunks are whole cores, all of one size, also if cores differ or go offline."""

import pytest
from capabilities import capabilities, cpu, four_nodes, hybrid, partly_offline, two_nodes_smt2
from hypothesis import given
from hypothesis import strategies as st
from vscaf.core.place.placement import place
from vscaf.core.place.topology import SmtMode, Topology, pool_topology, remaining_topology
from vscaf.core.reconcile.plan import plan
from vscaf.cpulist import parse_cpu_list
from vscaf.errors import UsageError
from vscaf.hypervisor.libvirt.capabilities import parse_capabilities
from vscaf.values import HostCpus


def cpus(text):
    return parse_cpu_list(text)


def host(xml, online):
    return parse_capabilities(xml, cpus(online))


SMT = host(two_nodes_smt2(), "0-15")


def test_chunks_are_whole_cores_with_their_nodes_and_caches():
    topology = pool_topology(cpus("1-3,9-11,4,12"), SMT)
    assert topology.chunks == (cpus("1,9"), cpus("2,10"), cpus("3,11"), cpus("4,12"))
    assert (topology.chunk, topology.node_by_chunk) == (2, (0, 0, 0, 1))
    assert topology.caches == (cpus("1-3,9-11"), cpus("4,12"))
    assert topology.cache_by_chunk == (0, 0, 0, 1)
    assert (topology.distance(0, 1), topology.distance(1, 1)) == (21, 10)


def test_a_pool_outside_the_host_is_refused():
    with pytest.raises(UsageError, match=r"CPU 16 is not online on this host \(it has 0-15\)"):
        pool_topology(cpus("0,8,16"), SMT)


def test_a_pool_that_cuts_a_core_is_refused_unless_threads_are_handed_out():
    with pytest.raises(UsageError, match="CPU 1 shares a core with CPU 9: take both or neither"):
        pool_topology(cpus("0,8,1"), SMT)
    topology = pool_topology(cpus("0,8,1"), SMT, SmtMode.THREAD)
    assert topology.chunks == (cpus("0"), cpus("1"), cpus("8"))
    assert topology.cores == (cpus("0,8"),)


def test_threads_of_a_core_stay_together_where_they_can_though_they_may_be_split():
    topology = pool_topology(cpus("0-3,8-11"), SMT, SmtMode.THREAD)
    placed = place(topology, {}, {"a": 2, "b": 3, "c": 1})
    assert placed == {"a": cpus("2,10"), "b": cpus("0,8,1"), "c": cpus("9")}
    held = {"a": cpus("1"), "b": cpus("0")}
    assert place(topology, held, {"a": 2, "b": 2}) == {"a": cpus("1,9"), "b": cpus("0,8")}


def test_efficient_cores_make_chunks_together():
    topology = pool_topology(cpus("0-15"), host(hybrid(), "0-15"))
    assert topology.chunks[:4] == (cpus("0-1"), cpus("2-3"), cpus("4-5"), cpus("6-7"))
    assert topology.chunks[4:] == (cpus("8-9"), cpus("10-11"), cpus("12-13"), cpus("14-15"))
    assert pool_topology(cpus("8-10"), host(hybrid(), "0-15")).chunk == 1  # all cores are of one kind


def test_small_cores_that_fill_no_chunk_are_refused():
    with pytest.raises(UsageError, match=r"CPU 10 is on a core with fewer threads than .*, which have 2"):
        pool_topology(cpus("0-10"), host(hybrid(), "0-15"))
    with pytest.raises(UsageError, match="CPU 1 is on a core with fewer threads"):
        pool_topology(cpus("0-3,8,10,11"), host(partly_offline(), "0-5,7-8,10-13,15"))


def test_small_cores_are_paired_on_one_cache_before_one_node_and_never_across_nodes():
    cells = [(0, [cpu(0, "0-1"), cpu(1, "0-1"), *(cpu(c, str(c)) for c in range(2, 8))]), (1, [cpu(8, "8")])]
    banks = [(3, "both", "0-1,2,4,6"), (3, "both", "3,5,7"), (3, "both", "8")]
    made = host(capabilities(cells, banks=banks), "0-8")
    assert pool_topology(cpus("0-7"), made).chunks == (cpus("0-1"), cpus("2,4"), cpus("3,5"), cpus("6-7"))
    assert remaining_topology(cpus("0-1,2,8"), made).chunks == (cpus("0-1"),)


def test_a_pcpu_that_goes_offline_takes_its_core_out_and_partitions_move_off_it():
    before = pool_topology(cpus("0-15"), SMT)
    held = place(before, {}, {"a": 8, "b": 6})
    gone = min(held["a"])
    after = remaining_topology(cpus("0-15"), parse_capabilities(two_nodes_smt2(), cpus("0-15") - {gone}))
    lost = next(chunk for chunk in before.chunks if gone in chunk)
    assert after.cpus == cpus("0-15") - lost
    moved = place(after, held, {"a": 8, "b": 6})
    assert moved["b"] == held["b"]
    assert moved["a"] >= held["a"] - lost and len(moved["a"]) == 8
    assert plan(held, moved).shrinks[0].keep == held["a"] - lost
    assert remaining_topology(cpus("0-15"), SMT) == before  # the pCPU is online again


def test_with_all_siblings_offline_each_core_is_a_chunk_of_one():
    topology = remaining_topology(cpus("0-15"), host(two_nodes_smt2(), "0-7"))
    assert topology.chunk == 1
    assert topology.cpus == cpus("0-7")


def test_a_sibling_outside_the_pool_that_comes_online_takes_its_core_out():
    started = host(two_nodes_smt2(), "0-8,10-15")
    assert remaining_topology(cpus("0-3,8,10-11"), started).cpus == cpus("0,2-3,8,10-11")
    assert remaining_topology(cpus("0-3,8,10-11"), SMT).cpus == cpus("0,2-3,8,10-11")


def test_nothing_may_be_left():
    topology = remaining_topology(cpus("0,8"), host(two_nodes_smt2(), "1-7"))
    assert (topology.chunks, topology.chunk, topology.cpus) == ((), 1, frozenset())
    assert place(topology, {"a": cpus("0,8")}, {"a": 0}) == {"a": frozenset()}


def test_without_distances_nodes_of_one_socket_are_nearer():
    made = host(four_nodes(), "0-15")
    bare = HostCpus(made.online, made.cores, made.node_of, made.sockets)
    for one in (made, bare):
        topology = pool_topology(cpus("0-15"), one)
        assert topology.distance(0, 0) < topology.distance(0, 1) < topology.distance(0, 2)
    unknown = pool_topology(cpus("0-15"), HostCpus(made.online, made.cores, made.node_of))
    assert unknown.distance(0, 1) == unknown.distance(0, 2) > unknown.distance(0, 0)


def test_a_topology_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"chunk \[2\] is not of the size"):
        Topology((cpus("0-1"), cpus("2")), dict.fromkeys(range(3), 0))


@st.composite
def hosts(draw):
    """Any host with cores of one to four threads, any nodes and caches, any of its pCPUs offline, and any pool."""
    cores, first = [], 0
    for threads in draw(st.lists(st.integers(1, 4), min_size=1, max_size=8)):
        cores.append(frozenset(range(first, first + threads)))
        first += threads
    online = draw(st.frozensets(st.integers(0, first - 1)))
    nodes = [draw(st.integers(0, 2)) for _ in cores]
    caches = [draw(st.integers(0, 3)) for _ in cores]
    made = HostCpus(
        online,
        tuple(core & online for core in cores if core & online),
        {number: node for core, node in zip(cores, nodes, strict=True) for number in core},
        {},
        tuple(
            frozenset().union(*(core for core, mine in zip(cores, caches, strict=True) if mine == cache)) & online
            for cache in range(4)
        ),
    )
    return made, draw(st.frozensets(st.integers(0, first - 1)))


@given(hosts(), st.sampled_from(SmtMode))
def test_what_is_left_is_always_whole_equal_chunks_within_the_pool(made, smt):
    cpus_of_host, pool = made
    topology = remaining_topology(pool, cpus_of_host, smt)
    assert topology.cpus <= pool & cpus_of_host.online
    assert len({len(chunk) for chunk in topology.chunks}) <= 1
    if smt is SmtMode.THREAD:
        assert topology.cpus == pool & cpus_of_host.online
        return
    for core in cpus_of_host.cores:
        assert core <= topology.cpus or not core & topology.cpus
        assert sum(1 for chunk in topology.chunks if chunk & core) <= 1  # a core never belongs to two chunks
    for chunk in topology.chunks:
        assert len({cpus_of_host.node_of[number] for number in chunk}) == 1
    largest = max((len(core) for core in cpus_of_host.cores if core <= pool), default=1)
    assert topology.chunk == largest
    assert all(core in topology.chunks for core in cpus_of_host.cores if core <= pool and len(core) == largest)
    try:
        assert pool_topology(pool, cpus_of_host) == topology
        assert topology.cpus == pool
    except UsageError:
        assert topology.cpus != pool


@given(hosts(), st.sampled_from(SmtMode), st.data())
def test_whole_chunks_are_found_however_often_they_are_asked_for(made, smt, data):
    host, pool = made
    topology = remaining_topology(pool, host, smt)
    everything = sorted(host.online | pool)
    parts = st.sets(st.sampled_from(topology.chunks)).map(lambda chunks: frozenset().union(*chunks))
    sets = st.lists(parts | st.frozensets(st.sampled_from(everything)), max_size=30) if topology.chunks else st.just([])
    for cpus in data.draw(sets):
        inside = frozenset(index for index, chunk in enumerate(topology.chunks) if chunk <= cpus)
        whole = frozenset().union(*(topology.chunks[index] for index in inside)) == cpus
        assert topology.whole_chunks(cpus) == topology.whole_chunks(cpus) == (inside if whole else None)
