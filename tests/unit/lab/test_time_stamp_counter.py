"""The rate of the time stamp counter is right also if the reading is held up. What emulated kernels are told."""

from itertools import count
from types import SimpleNamespace

from vscaf.lab import Guest, accelerator, time_stamp_counter

RATE_KHZ = 2_445_404


class Machine:
    """A clock, and a counter of RATE_KHZ beside it. Each third reading of the counter is held up for 1 ms."""

    def __init__(self):
        self.now_ns = 5_000
        self.readings = count()

    def clock_ns(self):
        self.now_ns += 30
        return self.now_ns

    def counter(self):
        self.now_ns += 30
        read = self.now_ns * RATE_KHZ // 1_000_000
        if next(self.readings) % 3 == 0:
            self.now_ns += 1_000_000
        return read

    def sleep(self, seconds):
        self.now_ns += round(seconds * 1e9)


def test_a_process_that_is_held_up_measures_the_rate():
    machine = Machine()
    assert abs(time_stamp_counter.measured(machine.counter, machine.clock_ns, machine.sleep) - RATE_KHZ) <= 1


def arguments(monkeypatch, tmp_path, kind, rate_khz):
    for part in ("vmlinuz", "initrd.img"):
        (tmp_path / part).touch()
    monkeypatch.setattr(accelerator, "domain_type", lambda image, cache: kind)
    monkeypatch.setattr(time_stamp_counter, "counts_per_ms", lambda: rate_khz)
    lab = SimpleNamespace(cache=None, logs=tmp_path, socket_path=lambda name: tmp_path / name)
    return Guest(lab, "a", tmp_path).xml.partition("<cmdline>")[2].partition("</cmdline>")[0].split()


def test_an_emulated_guest_is_told_the_rate_and_measures_none(monkeypatch, tmp_path):
    assert {"tsc=reliable", f"tsc_early_khz={RATE_KHZ}"} <= set(arguments(monkeypatch, tmp_path, "qemu", RATE_KHZ))
    assert not [one for one in arguments(monkeypatch, tmp_path, "qemu", None) if "khz" in one]
    assert not [one for one in arguments(monkeypatch, tmp_path, "kvm", RATE_KHZ) if "tsc" in one]


def test_only_an_emulated_guest_keeps_its_addresses(monkeypatch, tmp_path):
    assert "norandmaps" in arguments(monkeypatch, tmp_path, "qemu", None)
    assert "norandmaps" not in arguments(monkeypatch, tmp_path, "kvm", None)
