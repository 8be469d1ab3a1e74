"""The pool of a host whose pCPUs go offline and come back."""

from pathlib import Path

from vscaf.config import Config, load_config
from vscaf.core.place.topology import Topology
from vscaf.domains.pool import HostPool
from vscaf.values import HostCpus

CORES = tuple(frozenset({cpu}) for cpu in range(4))


def configured(directory: Path) -> Config:
    path = directory / "vscaf.toml"
    path.write_text('pool = "1-2"\nreserve = "0"\n[domains.a]\n', encoding="utf-8")
    return load_config(path)


def online(*cpus: int) -> HostCpus:
    return HostCpus(frozenset(cpus), CORES, dict.fromkeys(range(4), 0))


def held(topology: Topology | None) -> frozenset[int] | None:
    return None if topology is None else topology.cpus


def test_a_pcpu_that_goes_offline_leaves_the_pool_and_comes_back(tmp_path: Path) -> None:
    pool = HostPool(configured(tmp_path), online(0, 1, 2, 3))
    version = pool.version
    assert pool.renew(online(0, 1, 2, 3)) is None and pool.version == version
    assert held(pool.renew(online(0, 2, 3))) == {1, 2}
    assert pool.cpus == pool.topology.cpus == {2} and pool.version > version and not pool.gone
    assert held(pool.renew(online(0, 1, 2, 3))) == {2}
    assert pool.cpus == {1, 2}


def test_a_pool_that_is_gone_stays_as_it_was_until_it_is_back(tmp_path: Path) -> None:
    pool = HostPool(configured(tmp_path), online(0, 1, 2, 3))
    version = pool.version
    assert pool.renew(online(0, 3)) is None
    assert pool.gone and pool.cpus == {1, 2} and pool.version == version, "there is no pCPU to move a domain to"
    assert held(pool.renew(online(0, 2, 3))) == {1, 2}
    assert not pool.gone and pool.cpus == {2}
