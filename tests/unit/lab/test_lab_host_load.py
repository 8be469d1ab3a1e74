"""When the demo says that the host was busy with something else. Pure functions are tested with made-up figures, and
the reading from the kernel with processes that compute.
"""

import os
import subprocess
import sys
import time

import pytest
from vscaf.bench.observe.host_load import HostLoad, HostLoadMeter, Reading, busy_seconds, host_load
from vscaf.lab.polling import until

WINDOW = (10.0, 40.0)


def readings(foreign=lambda at_s: 0.0, delay=lambda at_s: 0.0, wanted=2.0, seconds=50):
    """Four readings a second of two pCPUs. foreign, delay: by time, the CPUs that others used and those that the guests
    waited for. The guests use what others leave, at most *wanted*. The demo's own processes use 2% of a CPU.
    """
    rows = [Reading(0.0, 100.0, 50.0, 40.0, 7.0)]
    for number in range(seconds * 4):
        _, busy_s, demo_s, run_s, delay_s = rows[-1]
        others = foreign(number / 4)
        guests = min(wanted, 2.0 - others)
        step = (guests + others + 0.02, guests + 0.02, guests, delay(number / 4))
        sums = [before + more / 4 for before, more in zip((busy_s, demo_s, run_s, delay_s), step, strict=True)]
        rows.append(Reading((number + 1) / 4, *sums))
    return rows


def between(start_s, end_s, rate):
    return lambda at_s: rate if start_s <= at_s < end_s else 0.0


def test_half_of_both_pcpus_for_15_seconds_is_a_disturbance():
    """A round that was disturbed like this showed 1.07. Undisturbed it shows 1.70."""
    taken = between(20.0, 35.0, 1.0)
    load = host_load(readings(foreign=taken, delay=taken), WINDOW)
    assert (load.foreign_s, load.delay_s, load.run_s) == pytest.approx((15.0, 15.0, 45.0))
    assert load.lost == pytest.approx(0.25) and load.disturbed


def test_guests_that_delay_each_other_disturb_nothing():
    """Two guests of two vCPUs on two pCPUs, without pins. Two threads wait all the time."""
    load = host_load(readings(delay=lambda _: 2.0), WINDOW)
    assert (load.foreign_s, load.delay_s) == pytest.approx((0.0, 60.0), abs=1e-9)
    assert not load.disturbed


def test_somebody_else_is_seen_among_guests_that_delay_each_other():
    load = host_load(readings(foreign=lambda _: 0.5, delay=lambda _: 2.5), WINDOW)
    assert load.lost == pytest.approx(0.25) and load.disturbed


def test_a_pcpu_that_no_guest_wants_is_anybodys():
    """A program runs alone on one thread, and something else uses the other pCPU."""
    load = host_load(readings(foreign=lambda _: 1.0, delay=lambda _: 0.01, wanted=1.0), WINDOW)
    assert load.foreign_s == pytest.approx(30.0) and not load.disturbed


@pytest.mark.parametrize(("rate", "disturbed"), [(0.04, False), (0.08, True)])
def test_little_of_both_pcpus_is_no_disturbance(rate, disturbed):
    assert host_load(readings(foreign=lambda _: rate, delay=lambda _: rate), WINDOW).disturbed is disturbed


@pytest.mark.parametrize("when", [(0.0, 9.0), (41.0, 50.0)])
def test_what_happens_while_nothing_is_measured_does_not_count(when):
    taken = between(*when, 1.0)
    assert not host_load(readings(foreign=taken, delay=taken), WINDOW).disturbed


def test_a_window_begins_and_ends_between_readings():
    load = host_load(readings(foreign=lambda _: 1.0, delay=lambda _: 1.0), (10.1, 10.2))
    assert (load.run_s, load.delay_s, load.foreign_s) == pytest.approx((0.1, 0.1, 0.1))
    assert host_load(readings(), (-5.0, 60.0)).run_s == pytest.approx(100.0)  # only what was read counts


def test_accounting_that_lags_is_no_foreign_time_below_zero():
    rows = [Reading(0.0, 0.0, 0.0, 0.0, 0.0), Reading(1.0, 1.9, 2.0, 2.0, 1.0)]
    assert host_load(rows, (0.0, 1.0)) == HostLoad(2.0, 1.0, 0.0)
    assert host_load(rows, (0.0, 1.0)).lost == 0.0


def test_one_reading_is_no_load():
    with pytest.raises(ValueError, match="not read twice"):
        host_load(readings()[:1], WINDOW)


SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


def spinning(cpu):
    """A process that computes on this CPU. It has begun when this returns."""
    process = subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


@pytest.mark.slow
def test_the_meter_tells_the_measured_from_the_others():
    """Two processes compute on one CPU and delay each other. The only difference is whether they count as two guests,
    or as a guest and something else."""
    cpu = min(os.sched_getaffinity(0))
    one, other = spinning(cpu), spinning(cpu)
    try:
        with HostLoadMeter([cpu], [one.pid, other.pid]) as both, HostLoadMeter([cpu], [one.pid]) as alone:
            while min(both.readings[-1].run_s, alone.readings[-1].run_s) < 2.0:
                time.sleep(0.05)
    finally:
        for process in (one, other):
            process.kill()
            process.communicate()
    guests, guest = (
        host_load(meter.readings, (meter.readings[0].at_s, meter.readings[-1].at_s)) for meter in (both, alone)
    )
    assert guests.run_s > guest.run_s > 0
    assert guests.delay_s > guest.delay_s > 0
    # Everything else on this machine is foreign to both.
    other_s = guests.run_s - guest.run_s
    assert guest.foreign_s - guests.foreign_s > other_s / 2
    assert guest.disturbed


# As QEMU under a daemon: its main thread has a CPU of the reserve, and another thread computes on the pool.
MAIN_THREAD_ELSEWHERE = """
import os, sys, threading, time
def compute():
    os.sched_setaffinity(0, {int(sys.argv[1])})  # only of this thread
    print(flush=True)
    while True: pass
os.sched_setaffinity(0, {int(sys.argv[2])})
threading.Thread(target=compute).start()
time.sleep(100000)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_measured_process_whose_main_thread_is_elsewhere_is_not_foreign():
    cpu, elsewhere = sorted(os.sched_getaffinity(0))[:2]
    command = [sys.executable, "-c", MAIN_THREAD_ELSEWHERE, str(cpu), str(elsewhere)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        with HostLoadMeter([cpu], [process.pid]) as meter:
            until(lambda: meter.readings[-1].run_s - meter.readings[0].run_s > 0.5)
    finally:
        process.kill()
        process.communicate()
    first, last = meter.readings[0], meter.readings[-1]
    assert last.bench_s - first.bench_s >= last.run_s - first.run_s - 1e-6


def test_a_cpu_is_busy_while_it_is_not_idle_whatever_was_sampled_as_its_work():
    stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 40 0 60 300 50 1 2 7 0 0\ncpu1 0 0 0 9900 0 0 0 0 0 0\nintr 5\n"
    assert busy_seconds(stat, [0], 100.0) == pytest.approx({0: 100.0 - 3.57})
    worked_unsampled = stat.replace("cpu0 40", "cpu0 41")
    assert busy_seconds(worked_unsampled, [0, 1], 110.0) == pytest.approx({0: 110.0 - 3.57, 1: 11.0})
