"""Reads the host's pCPUs from capabilities XML as libvirt writes it."""

import os
from pathlib import Path

import libvirt
import pytest
from capabilities import capabilities, cpu, four_nodes, hybrid, partly_offline, two_nodes_smt2
from vscaf.cpulist import parse_cpu_list
from vscaf.errors import HypervisorError
from vscaf.hypervisor.libvirt.capabilities import parse_capabilities


def cpus(text):
    return parse_cpu_list(text)


def test_two_nodes_of_two_threads_a_core():
    host = parse_capabilities(two_nodes_smt2(), cpus("0-15"))
    assert host.cores == tuple(frozenset({c, c + 8}) for c in range(8))
    assert {node: {c for c in host.online if host.node_of[c] == node} for node in (0, 1)} == {
        0: cpus("0-3,8-11"),
        1: cpus("4-7,12-15"),
    }
    assert host.sockets == dict(host.node_of)
    assert host.caches == (cpus("0-3,8-11"), cpus("4-7,12-15"))
    assert host.distances == {(0, 0): 10, (0, 1): 21, (1, 0): 21, (1, 1): 10}


def test_four_nodes_with_distances_on_two_sockets():
    host = parse_capabilities(four_nodes(), cpus("0-15"))
    assert host.cores == tuple(frozenset({c}) for c in range(16))
    assert host.sockets == {c: c // 8 for c in range(16)}
    assert (host.distances[0, 1], host.distances[1, 2], host.distances[3, 3]) == (12, 32, 10)
    assert host.caches == ()


def test_a_core_with_an_offline_thread_is_smaller_and_one_that_is_offline_is_none():
    host = parse_capabilities(partly_offline(), cpus("0-5,7-8,10-13,15"))
    assert host.cores == tuple(cpus(text) for text in ("0,8", "1", "2,10", "3,11", "4,12", "5,13", "7,15"))
    assert host.caches == (cpus("0-3,8,10-11"), cpus("4-5,7,12-13,15"))


def test_what_went_offline_since_the_capabilities_were_read_is_in_no_core_and_no_cache():
    host = parse_capabilities(two_nodes_smt2(), cpus("0-14"))
    assert host.cores[-1] == cpus("7")
    assert host.caches[-1] == cpus("4-7,12-14")


def test_what_came_online_since_is_a_core_of_its_own_or_of_those_that_name_it():
    late = capabilities([(0, [cpu(0, "0,2"), cpu(1, "1"), cpu(2), cpu(3)])])
    assert parse_capabilities(late, cpus("0-4")).cores == (cpus("0,2"), cpus("1"), cpus("3"), cpus("4"))


def test_cores_of_different_kinds():
    host = parse_capabilities(hybrid(), cpus("0-15"))
    assert [len(core) for core in host.cores] == [2] * 4 + [1] * 8
    assert host.caches == (cpus("0-15"),)


@pytest.mark.parametrize("cells", [None, []])
def test_no_topology_at_all_is_one_node_of_single_cores(cells):
    host = parse_capabilities(capabilities(cells), cpus("0-3"))
    assert host.cores == tuple(frozenset({c}) for c in range(4))
    assert host.node_of == dict.fromkeys(range(4), 0)
    assert (host.sockets, host.caches, host.distances) == ({}, (), {})


def test_cores_without_siblings_are_told_by_their_ids():
    def old(number, core):
        return f"<cpu id='{number}' socket_id='0' die_id='0' core_id='{core}'/>"

    host = parse_capabilities(capabilities([(0, [old(0, 0), old(1, 0), old(2, 1), old(3, 1)])]), cpus("0-3"))
    assert host.cores == (cpus("0-1"), cpus("2-3"))


def test_the_last_level_is_each_cpus_own_and_instruction_caches_are_none():
    banks = [(3, "both", "0-3"), (3, "both", "4-7"), (4, "both", "0-3"), (3, "code", "0-7")]
    host = parse_capabilities(capabilities([(0, [cpu(c, str(c)) for c in range(9)])], banks=banks), cpus("0-8"))
    assert host.caches == (cpus("0-3"), cpus("4-7"))


@pytest.mark.parametrize("xml", ["", "<capabilities", capabilities([(0, [cpu("x", "0")])]), "<capabilities/>"])
def test_what_cannot_be_read_is_said(xml):
    if xml == "<capabilities/>":
        assert parse_capabilities(xml, cpus("0")).cores == (cpus("0"),)
        return
    with pytest.raises(HypervisorError, match="virsh capabilities"):
        parse_capabilities(xml, cpus("0"))


def test_the_test_drivers_own():
    connection = libvirt.open("test:///default")
    try:
        host = parse_capabilities(connection.getCapabilities(), frozenset(range(16)))
    finally:
        connection.close()
    assert host.cores == tuple(frozenset({c}) for c in range(16))
    assert host.node_of == {c: c // 8 for c in range(16)}
    assert host.sockets == {c: c // 8 for c in range(16)}


@pytest.mark.skipif(not Path("/sys/devices/system/cpu/cpu0/topology").exists(), reason="no sysfs of CPUs here")
def test_this_machines_threads_as_sysfs_has_them():
    """The XML that libvirt makes from this machine's sysfs agrees with sysfs."""
    root = Path("/sys/devices/system/cpu")
    online = parse_cpu_list((root / "online").read_text())
    siblings = {c: (root / f"cpu{c}/topology/thread_siblings_list").read_text().strip() for c in online}
    nodes = {c: next((int(p.name[4:]) for p in (root / f"cpu{c}").glob("node[0-9]*")), 0) for c in online}
    cells = [(n, [cpu(c, siblings[c]) for c in sorted(online) if nodes[c] == n]) for n in sorted(set(nodes.values()))]
    host = parse_capabilities(capabilities(cells), online)
    assert os.cpu_count() == len(host.online) == sum(len(core) for core in host.cores)
    for core in host.cores:
        assert all(parse_cpu_list(siblings[c]) & online == core for c in core)
    assert {c: host.node_of[c] for c in online} == nodes
