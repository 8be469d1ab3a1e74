"""The meters with programs that come and go under one name, and with their children. All processes are real."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from vscaf.bench.observe import pace
from vscaf.bench.observe.host_load import HostLoadMeter
from vscaf.bench.observe.pace import PaceMeter, Paces, steady_seconds
from vscaf.lab.errors import LabError
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import tree, tree_threads
from vscaf.occupancy.sampler import Sample, Sampler
from vscaf.occupancy.timeline import track

CPUS = sorted(os.sched_getaffinity(0))
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
BURN = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done"
CHILD_BURNS = "while :; do :; done & wait"


def start(command):
    return subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True)


def end(process):
    """Waits for its end. Returns its CPU time."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


@pytest.fixture
def child_burns():
    """A shell that waits for its child, which computes."""
    process = start(CHILD_BURNS)
    until(lambda: len(tree(process.pid)) == 2)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANG_S)


def test_a_tree_is_a_process_and_its_descendants(child_burns):
    process, child = tree(child_burns.pid)
    assert process == child_burns.pid and tree(child) == [child]
    assert tree_threads(child_burns.pid) == {process: process, child: child}


def test_the_cpu_time_of_short_programs_is_complete():
    used_s = 0.0
    with HostLoadMeter(CPUS, []) as meter:
        for _ in range(30):
            process = start(BURN)
            meter.add(process.pid)
            each_s = end(process)
            meter.end(process.pid, each_s)
            used_s += each_s
    first, last = meter.readings[0], meter.readings[-1]
    assert used_s > 0
    assert last.run_s - first.run_s == pytest.approx(used_s, abs=TICK_S)
    assert last.bench_s - first.bench_s >= last.run_s - first.run_s - TICK_S
    assert not meter._cpu_s.keys() - {os.getpid()}, "what has ended is forgotten"


def test_children_that_compute_belong_to_the_measured(child_burns):
    with HostLoadMeter(CPUS, [child_burns.pid]) as meter:
        until(lambda: meter.readings[-1].run_s - meter.readings[0].run_s > 0.2)


def test_processes_that_share_a_cpu_are_seen_to_wait_for_it():
    spin = f"taskset -cp {CPUS[-1]} $$ > /dev/null; while :; do :; done"
    both = {name: start(spin) for name in ("first", "second")}

    def waits():
        return track(sampler.samples, 0.1).waits.get(CPUS[-1], {})

    try:
        with Sampler({name: one.pid for name, one in both.items()}, threads_of=tree_threads) as sampler:
            until(lambda: all(any(waits().get(name, ())) for name in both))
    finally:
        for one in both.values():
            os.killpg(one.pid, signal.SIGKILL)
            one.wait(HANG_S)


def test_children_that_have_ended_still_belong_to_the_measured():
    process = start(f"for n in $(seq 200); do sh -c '{BURN}'; done; sleep 1000")
    try:
        with HostLoadMeter(CPUS, []) as meter:
            meter.add(process.pid)
            until(lambda: meter.readings[-1].run_s > 5 * TICK_S and b"sleep" in commands(process.pid))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANG_S)
    times = [one.run_s for one in meter.readings]
    assert times == sorted(times)


def commands(pid):
    try:
        return b" ".join(Path(f"/proc/{one}/cmdline").read_bytes() for one in tree(pid))
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_programs_that_follow_each_other_are_sampled_under_one_name():
    seen = []
    with Sampler({}, threads_of=tree_threads) as sampler:
        for _ in range(3):
            process = start("while :; do :; done")
            sampler.add("first", process.pid)
            until(lambda pid=process.pid: sum(one.thread == pid for one in list(sampler.samples)) >= 2)
            seen.append(process.pid)
            process.kill()
            process.wait(HANG_S)
            sampler.remove(process.pid)
        until(lambda: not sampler._threads)
    assert {one.thread for one in sampler.samples if one.domain == "first"} >= set(seen)
    shares = track(sampler.samples, 0.1).shares
    assert sum(sum(one.get("first", [])) for one in shares.values()) > 0


def test_two_programs_of_one_name_are_both_sampled(child_burns):
    other = start("while :; do :; done")
    try:
        sampler = Sampler({}, threads_of=tree_threads)
        sampler.add("first", child_burns.pid)
        sampler.add("first", other.pid)
        with sampler:
            wanted = {*tree(child_burns.pid), other.pid}
            until(lambda: {one.thread for one in list(sampler.samples)} >= wanted)
    finally:
        other.kill()
        other.wait(HANG_S)


def test_a_pace_meter_that_fails_is_said(capfd):
    offline = max(CPUS) + 500
    with (
        pytest.raises(LabError, match=rf"pace of CPU {offline} was not measured: .*status 2.*choose"),
        PaceMeter([offline, CPUS[0]]) as meter,
    ):
        until(lambda: meter._meters[offline].poll() is not None)
    assert f"CPU {offline}" in capfd.readouterr().err


def test_an_error_is_not_hidden_by_a_pace_meter_that_fails():
    with pytest.raises(RuntimeError, match="its own"), PaceMeter([max(CPUS) + 500]):
        raise RuntimeError("its own")


MUCH = """#!/bin/sh
yes '1.000000 100' | head -n 100000
touch "$0.done"
exec sleep 1000
"""


def test_a_pace_meter_of_a_long_run_does_not_wait_for_its_reader(tmp_path, monkeypatch):
    """It prints more than a pipe holds."""
    program = tmp_path / "host-daemon" / "pace"
    program.parent.mkdir()
    program.write_text(MUCH)
    program.chmod(0o755)
    monkeypatch.setenv("VSCAF_BUILD", str(tmp_path))
    monkeypatch.setattr(pace, "DRAIN_S", 0.01)
    with PaceMeter([0]) as meter:
        until((program.parent / "pace.done").exists)
    assert len(meter.paces.by_pcpu[0]) == 100_000 - 1  # the last line does not count: it may be incomplete


def sampled(at_s, thread, run_ns, domain="first", cpu=0):
    return Sample(at_s, at_s, domain, 0, thread, frozenset({cpu}), cpu, run_ns, 0)


def test_a_thread_number_that_is_used_again_is_another_thread():
    rows = [
        *(sampled(at_s, 7, run_ns) for at_s, run_ns in ((0.0, 0), (0.1, 50_000_000))),
        *(sampled(at_s, 7, run_ns) for at_s, run_ns in ((0.3, 1_000_000), (0.4, 31_000_000))),  # less: another thread
        *(sampled(at_s, 7, run_ns, "second") for at_s, run_ns in ((0.6, 90_000_000), (0.7, 90_000_000))),
    ]
    shares = track(rows, 1.0).shares[0]
    assert (shares["first"], shares["second"]) == (pytest.approx([0.08]), [0.0])


def test_programs_too_short_to_be_sampled_count_by_the_mean_pace_of_all_cpus():
    paces = Paces({0: [(1.05, 100.0)], 1: [(1.05, 200.0)]})
    assert steady_seconds("first", track([], 0.1), paces, 100.0, (1.0, 1.1)) == pytest.approx(0.075)
