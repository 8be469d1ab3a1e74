"""The map of pCPUs, and what is read of the host."""

from pathlib import Path

from top_states import HOST, domain, state
from vscaf.top.cpu_map import Cell, Owners, layout, marks, plain
from vscaf.top.host_cpus import read_host_cpus
from vscaf.values import HostCpus


def drawn(*domains: tuple[str, str], host: HostCpus = HOST, pool: str = "2-15", reserve: str = "0-1") -> list[str]:
    shown = state([domain(name, partition) for name, partition in domains])
    owners = Owners(pool, reserve, shown.domains, host.online)
    return plain(layout(owners.cpus, host), owners)


def test_cores_and_nodes() -> None:
    assert drawn(("a", "2-3"), ("b", "8-9,15")) == ["node 0  -- aa .. ..", "node 1  bb .. .. .b"]


def test_a_pcpu_of_several_domains_is_no_domains() -> None:
    owners = Owners(
        "2-15", "", state([domain("a", "2-3"), domain("b", "2-3"), domain("c", "3-4")]).domains, HOST.online
    )
    assert [owners.cell(cpu) for cpu in (2, 3, 4)] == [Cell("*"), Cell("*"), Cell("c", "c")]


def test_a_node_that_does_not_fit_continues_below() -> None:
    lines = layout(range(16), HOST, 16)
    assert [line.label.strip() for line in lines] == ["node 0", "", "node 1", ""]
    assert [line.cores for line in lines[:2]] == [((0, 1), (2, 3), (4, 5)), ((6, 7),)]


def test_a_pcpu_that_is_offline_is_not_free() -> None:
    host = HostCpus(HOST.online - {3}, tuple(core - {3} for core in HOST.cores), {2: 0})
    assert drawn(pool="2-3", reserve="", host=host) == ["node 0  .", "node ?  !"]


def test_nothing_known_of_the_host() -> None:
    assert drawn(("a", "2"), pool="2-4", reserve="", host=HostCpus(frozenset(), (), {})) == ["node ?  a . ."]


def test_letters_run_out_after_62_domains() -> None:
    many = state([domain(f"d{number:03}", str(number)) for number in range(70)] + [domain("rests")]).domains
    letters = marks(many)
    assert len(set(letters.values())) == 63 and letters["d069"] == letters["d062"] == "#"
    assert "rests" not in letters


def test_the_host_is_read_from_sysfs(tmp_path: Path) -> None:
    for cpu, siblings in ((0, "0,2"), (1, "1,3"), (2, "0,2")):
        directory = tmp_path / f"cpu/cpu{cpu}/topology"
        directory.mkdir(parents=True)
        (directory / "thread_siblings_list").write_text(siblings + "\n")
    (tmp_path / "cpu/online").write_text("0-3\n")
    for node, cpus in ((0, "0,2"), (1, "1,3")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(cpus + "\n")
    host = read_host_cpus(tmp_path)
    assert host.online == {0, 1, 2, 3} and host.cores == ({0, 2}, {1, 3})
    assert host.node_of == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_host_without_sysfs_is_unknown(tmp_path: Path) -> None:
    assert read_host_cpus(tmp_path) == HostCpus(frozenset(), (), {})


def test_this_host_can_be_read() -> None:
    host = read_host_cpus()
    assert 0 in host.online and frozenset().union(*host.cores) <= host.online
