"""Guests of the lab that do not answer or are gone: what the bench then sees. No guest is booted."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import libvirt
import pytest
from vscaf.bench.places import lab, own_pool
from vscaf.bench.places.lab import LabMember, LabStarted, lab_place
from vscaf.bench.places.place import PlaceError
from vscaf.config import Config
from vscaf.cpulist import format_cpu_list
from vscaf.domains.pool import HostPool
from vscaf.errors import UsageError
from vscaf.lab import LabError
from vscaf.values import HostCpus


def fails(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize("error", [TimeoutError("no answer"), LabError("guest a is gone")])
def test_a_clock_that_cannot_be_read_is_said(error):
    member = LabMember(SimpleNamespace(name="a", vcpus=2, clock_offset=fails(error)))
    with pytest.raises(PlaceError, match=f"clock of guest a could not be read: {error}"):
        member.clock_ahead_s()


def test_an_agent_that_does_not_end_is_said():
    member = LabMember(SimpleNamespace(name="a", vcpus=2, run=fails(TimeoutError("`killall` has not ended"))))
    with pytest.raises(PlaceError, match="guest a: its agent could not be switched: `killall` has not ended"):
        member.use_agent(False)


def test_a_command_in_a_guest_that_is_gone_is_ended():
    LabStarted(SimpleNamespace(done=lambda: False, kill=fails(LabError("guest a is gone")))).kill()


def test_a_guest_that_does_not_boot_is_said(tmp_path, monkeypatch):
    class Booting(ExitStack):
        name = "a"

        def __enter__(self):
            raise TimeoutError("no answer")

    @contextmanager
    def private_libvirt(**_):
        yield SimpleNamespace(directory=tmp_path)

    monkeypatch.setattr(lab, "PrivateLibvirt", private_libvirt)
    monkeypatch.setattr(lab, "image_with", lambda *_: tmp_path)
    monkeypatch.setattr(lab, "Guest", lambda *_, **__: Booting())
    monkeypatch.setattr(own_pool.os, "sched_getaffinity", lambda _: {0, 1})
    with (
        pytest.raises(PlaceError, match="guest a did not boot: no answer"),
        lab_place(("a",), [], (), tmp_path, tmp_path, pool_cpus=2),
    ):
        pass


def test_a_misspelled_policy_is_refused_before_a_guest_boots(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "PrivateLibvirt", lambda **_: pytest.fail("it would boot"))
    with (
        pytest.raises(UsageError, match=r"'max-sppedup': choose .*equipartition.*max-speedup"),
        lab_place(("a",), [], ("static", "max-sppedup"), tmp_path, tmp_path, pool_cpus=2),
    ):
        pass


HOSTS = [
    ([0, 1, 2, 3], [], [0, 1]),
    ([0, 1, 2, 3], [{0, 1}, {2, 3}], [0, 2]),
    ([0, 1, 2, 3], [{0, 2}, {1, 3}], [0, 1]),
    ([1, 2, 3], [{0, 1}, {2, 3}], [1, 2]),
    ([0, 1], [{0, 1}], [0, 1]),
]


@pytest.mark.parametrize(("cpus", "cores", "pool"), HOSTS)
def test_the_pool_is_on_different_cores_and_a_daemon_can_split_it(cpus, cores, pool):
    cores = tuple(map(frozenset, cores))
    assert own_pool.pool_among(cpus, 2, cores) == pool
    online = frozenset(cpus).union(*cores)
    config = Config(pool=format_cpu_list(pool), **lab.DAEMON_SETTINGS)
    assert HostPool(config, HostCpus(online, cores, {})).topology.chunks == tuple(frozenset({cpu}) for cpu in pool)


def test_guests_and_daemons_have_that_pool(tmp_path, monkeypatch):
    class Booted(ExitStack):
        name, vcpus, domain_type = "a", 2, "qemu"

    @contextmanager
    def private_libvirt(**_):
        yield SimpleNamespace(directory=tmp_path, libvirtd_pid=1)

    guests = []
    monkeypatch.setattr(lab, "PrivateLibvirt", private_libvirt)
    monkeypatch.setattr(lab, "image_with", lambda *_: tmp_path)
    monkeypatch.setattr(lab, "Guest", lambda *_, **options: guests.append(options) or Booted())
    monkeypatch.setattr(own_pool.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    cores = (frozenset({0, 1}), frozenset({2, 3}))
    monkeypatch.setattr(own_pool, "read_host_cpus", lambda: HostCpus(frozenset(range(4)), cores, {}))
    with lab_place(("a",), [], (), tmp_path, tmp_path, pool_cpus=2) as place:
        assert guests[0]["cpuset"] == "0,2" and place._pool == [0, 2]
        assert place._settings == lab.DAEMON_SETTINGS


def test_a_guest_that_libvirt_cannot_start_is_said():
    class Refused(ExitStack):
        name = "a"

        def __enter__(self):
            raise libvirt.libvirtError("cannot set up guest memory")

    with ExitStack() as stack, pytest.raises(PlaceError, match=r"guest a could not be started: .*--memory"):
        lab._boot(stack, Refused())
