"""Guests of the lab that do not answer or are gone: what the bench then sees. No guest is booted."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
from vscaf.bench.places import lab
from vscaf.bench.places.lab import LabMember, LabStarted, lab_place
from vscaf.bench.places.place import PlaceError
from vscaf.errors import UsageError
from vscaf.lab import LabError


def fails(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize("error", [TimeoutError("no answer"), LabError("guest a is gone")])
def test_a_clock_that_cannot_be_read_is_said(error):
    member = LabMember(SimpleNamespace(name="a", vcpus=2, clock_offset=fails(error)))
    with pytest.raises(PlaceError, match=f"clock of guest a could not be read: {error}"):
        member.clock_ahead_s()


def test_a_command_in_a_guest_that_is_gone_is_ended():
    LabStarted(SimpleNamespace(done=lambda: False, kill=fails(LabError("guest a is gone")))).kill()


def test_a_guest_that_does_not_boot_is_said(tmp_path, monkeypatch):
    class Booting(ExitStack):
        name = "a"

        def __enter__(self):
            raise TimeoutError("no answer")

    @contextmanager
    def libvirt(**_):
        yield SimpleNamespace(directory=tmp_path)

    monkeypatch.setattr(lab, "PrivateLibvirt", libvirt)
    monkeypatch.setattr(lab, "image_with", lambda *_: tmp_path)
    monkeypatch.setattr(lab, "Guest", lambda *_, **__: Booting())
    monkeypatch.setattr(lab.os, "sched_getaffinity", lambda _: {0, 1})
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
