"""The lab itself: it is private and real, and leaves no trace."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from vscaf.lab import Guest, LabError, PrivateLibvirt, cgroups, processes
from vscaf.lab import guest as guest_module
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.time_stamp_counter import counts_per_ms
from vscaf.occupancy.sampler import Sampler

from .conftest import CACHE, IMAGE, Pair


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[PrivateLibvirt]:
    with PrivateLibvirt(logs=tmp_path / "logs", cache=CACHE) as private:
        yield private


def traces(directory: Path, pids: list[int], domain: str) -> list[str]:
    """What is left of a lab: processes, mounts, files, cgroups."""
    left = [f"process {pid}" for pid in pids if processes.start_time(pid) is not None]
    left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if directory.name in line]
    left += [str(directory)] if directory.exists() else []
    return left + [str(path) for root in cgroups.hierarchies() for path in root.glob(f"machine/*{domain}*")]


def wait_until_gone(directory: Path, pids: list[int], domain: str) -> None:
    until(lambda: not traces(directory, pids, domain), lambda: traces(directory, pids, domain))


def test_a_guest_boots_computes_and_leaves_no_trace(tmp_path: Path) -> None:
    with PrivateLibvirt(logs=tmp_path / "logs", cache=CACHE) as lab:
        assert lab.connection.listAllDomains() == []
        with Guest(lab, "lab-whole", IMAGE, vcpus=2) as guest:
            pids = [lab.libvirtd_pid, guest.qemu_pid]
            assert sorted(guest.vcpu_threads) == [0, 1]
            assert guest.run("nproc").text.strip() == "2"
            if guest.domain_type == "qemu":  # a rate that the guest measures is wrong while the host is busy
                kernel = guest.run("dmesg | grep 'tsc:'").text
                rate_khz = counts_per_ms()
                assert rate_khz is None or f"tsc: Detected {rate_khz / 1000:.3f} MHz" in kernel, kernel
            result = guest.run("OMP_NUM_THREADS=2 NPB_PROGRESS=/tmp/marks ep.S; echo status $?; tail -n 1 /tmp/marks")
            assert "SUCCESSFUL" in result.text and "status 0" in result.text, result.text
            assert result.text.splitlines()[-1].startswith("1.000000000 "), result.text
            assert traces(lab.directory, pids, guest.name), "the check for traces sees nothing even while the lab runs"
    wait_until_gone(lab.directory, pids, "lab-whole")


@pytest.mark.parametrize(
    ("init", "changed", "persistent"),
    [("while :; do :; done", "BOOT_CPU_S", persistent) for persistent in (False, True)]
    + [("/bin/busybox sleep 100000", "BOOT_IDLE_S", False)],
)
def test_a_guest_that_hangs_at_boot_is_started_again(  # noqa: PLR0917 (fixtures)
    init: str,
    changed: str,
    persistent: bool,
    shared_lab: PrivateLibvirt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(guest_module, changed, 6.0)  # so that it does not take long
    kernel_arguments = f'rdinit=/bin/busybox -- sh -c "{init}"'
    guest = Guest(
        shared_lab, "lab-hangs", IMAGE, memory_mib=256, kernel_arguments=kernel_arguments, persistent=persistent
    )
    if guest.domain_type == "kvm":
        pytest.skip("only emulated guests hang")
    try:
        guest.launch()
        guest.kernel_arguments = ""
        if persistent:
            uuid = f"<uuid>{guest.domain.UUIDString()}</uuid>"
            shared_lab.connection.defineXML(guest.xml.replace("</name>", f"</name>{uuid}", 1))
        guest.wait_ready()
        assert guest.run("echo it works").text == "it works\n"
        # More than once if it also hung by itself.
        assert 1 <= guest.restarts == caplog.text.count("started again") <= guest_module.MAX_RESTARTS
    finally:
        guest.stop()


def test_a_guest_that_does_not_answer_shows_where_it_is(shared_lab: PrivateLibvirt) -> None:
    guest = Guest(shared_lab, "lab-late", IMAGE, vcpus=2)
    try:
        guest.launch()
        with pytest.raises(TimeoutError) as error:
            guest.wait_ready(0.001)  # no guest boots in a millisecond
        text = str(error.value)
        assert text.count("CPU#0") == text.count("CPU#1") == 2 and text.count("IP=") == 4, text
        guest.wait_ready()
        # The console's log comes by another way than the guest's answer.
        until(lambda: "vscaf guest ready" in guest.console_log.read_text(errors="replace"))
        assert "Linux version" in guest.console_log.read_text(errors="replace")
        guest.run("echo '<4>a warning of the kernel' > /dev/kmsg; echo '<3>an error' > /dev/kmsg")
        until(lambda: "an error" in guest.console_log.read_text(errors="replace"))
        assert "a warning of the kernel" not in guest.console_log.read_text(errors="replace")
    finally:
        guest.stop()


def test_an_error_says_where_a_guest_is_that_does_not_answer(
    shared_lab: PrivateLibvirt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_module, "ANSWER_DEADLINE_S", 0.01)
    with pytest.raises(AssertionError) as error, Guest(shared_lab, "lab-silent", IMAGE, vcpus=1) as guest:
        guest.domain.suspend()
        raise AssertionError("not true after 60 s")
    (note,) = error.value.__notes__
    assert "guest lab-silent did not answer" in note and note.count("CPU#0") == 2, note


def test_commands_run_side_by_side_and_are_told_apart(pair: Pair) -> None:
    guest, _ = pair
    guest.run("rm -f /tmp/go")
    waiting = guest.start("while [ ! -e /tmp/go ]; do usleep 10000; done; echo went; exit 7")
    every_byte = guest.run('i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done')
    assert every_byte == (0, bytes(range(256)))
    assert len(guest.run("head -c 300000 /dev/zero").output) == 300000
    assert not waiting.done()
    assert guest.run("touch /tmp/go; echo error >&2") == (0, b"error\n")
    assert waiting.wait(HANG_S) == (7, b"went\n")
    endless = guest.start("echo started; sleep 1000")
    until(lambda: endless.output() == b"started\n")
    with pytest.raises(TimeoutError, match="sleep 1000"):
        endless.wait(0.01)
    endless.kill(signal.SIGTERM)
    assert endless.wait(HANG_S) == (128 + signal.SIGTERM, b"started\n")


def test_clock_offset_is_steady(pair: Pair) -> None:
    """Between two steps of the guest's clock. An emulated guest makes up lost ticks in steps while the host is busy."""
    guest, _ = pair

    def steady() -> bool:
        first = guest.clock_offset()
        before_s = time.monotonic()
        uptime_s = float(guest.run("cat /proc/uptime").text.split()[0])
        after_s = time.monotonic()
        second = guest.clock_offset()
        uncertainty_s = first.uncertainty_s + second.uncertainty_s
        if abs(first.seconds - second.seconds) > uncertainty_s + 1e-4:
            return False
        slack_s = uncertainty_s + 0.02  # /proc/uptime has two decimals
        assert before_s - slack_s <= uptime_s - first.seconds <= after_s + slack_s
        return True

    until(steady)


def test_sampler_agrees_with_the_pins(lab: PrivateLibvirt) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    with Guest(lab, "lab-sample", IMAGE, vcpus=2, max_vcpus=3) as guest:
        map_of = {cpu: tuple(other == cpu for other in range(max(cpus) + 1)) for cpu in cpus}
        for vcpu in (0, 1):
            guest.domain.pinVcpu(vcpu, map_of[cpus[-1]])
        with Sampler({guest.name: guest.qemu_pid}, interval_s=0.01) as sampler:
            guest.run("OMP_NUM_THREADS=1 cg.S")
            guest.domain.setVcpusFlags(3, libvirt.VIR_DOMAIN_AFFECT_LIVE)
            until(lambda: any(sample.vcpu == 2 for sample in sampler.samples))
        pinned = [sample for sample in sampler.samples if sample.vcpu in (0, 1)]
        assert {sample.vcpu for sample in sampler.samples} == {0, 1, 2}
        assert {sample.affinity for sample in pinned} == {frozenset({cpus[-1]})}
        # A thread that sleeps is moved only when it runs again.
        ran = [
            after.last_cpu
            for vcpu in (0, 1)
            for before, after in itertools.pairwise(sample for sample in pinned if sample.vcpu == vcpu)
            if after.run_ns > before.run_ns
        ]
        assert set(ran) == {cpus[-1]}
        first = [sample for sample in pinned if sample.vcpu == 0]
        assert first[-1].run_ns > first[0].run_ns
        assert all(a.run_ns <= b.run_ns for a, b in itertools.pairwise(first))


@pytest.mark.long
def test_two_labs_do_not_see_each_other(lab: PrivateLibvirt, tmp_path: Path) -> None:
    with (
        PrivateLibvirt(logs=tmp_path / "other", cache=CACHE) as other,
        Guest(lab, "lab-same-name", IMAGE) as one,
        Guest(other, "lab-same-name", IMAGE) as two,
    ):
        assert one.qemu_pid != two.qemu_pid
        assert [domain.ID() for domain in lab.connection.listAllDomains()] == [one.domain.ID()]
        one.run("echo one > /tmp/who")
        two.run("echo two > /tmp/who")
        assert (one.run("cat /tmp/who").text, two.run("cat /tmp/who").text) == ("one\n", "two\n")
        one.stop()
        assert lab.connection.listAllDomains() == [] and len(other.connection.listAllDomains()) == 1


def test_guest_runs_on_while_libvirtd_is_killed_and_started(lab: PrivateLibvirt) -> None:
    with Guest(lab, "lab-restart", IMAGE) as guest:
        pid = guest.qemu_pid
        lab.kill_libvirtd()
        assert guest.run("echo on").text == "on\n"
        lab.start_libvirtd()
        assert guest.domain.isActive() and guest.qemu_pid == pid


PROGRAM = """
    import signal, sys, time
    from pathlib import Path
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
    from vscaf.lab import Guest, PrivateLibvirt
    with PrivateLibvirt(cache=Path(sys.argv[1])) as lab:
        guest = Guest(lab, sys.argv[3], Path(sys.argv[2]))
        guest.launch()
        print(lab.directory, lab.libvirtd_pid, guest.qemu_pid, flush=True)
        if sys.argv[4] == "raise":
            lab.kill_libvirtd()
            raise RuntimeError("the test fails")
        time.sleep(1000)
"""


started: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def no_program_outlives_its_test() -> Iterator[None]:
    """A test that fails must not leave its program's lab running. After SIGTERM the program ends its lab itself."""
    yield
    while started:
        program = started.pop()
        if program.poll() is None:
            program.terminate()
            program.wait(HANG_S)


def start_program(domain: str, what: str) -> tuple[subprocess.Popen[str], Path, list[int]]:
    """Starts a lab in a separate process and waits until its guest runs. Returns the process, run directory and
    pids."""
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(CACHE), str(IMAGE), domain, what],
        stdout=subprocess.PIPE,
        text=True,
    )
    started.append(program)
    assert program.stdout is not None
    with program.stdout:
        directory, *pids = program.stdout.readline().split()
    return program, Path(directory), [int(pid) for pid in pids]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals) -> None:
    program, directory, pids = start_program(f"lab-{number.name.lower()}", "wait")
    assert all(processes.start_time(pid) is not None for pid in pids)
    program.send_signal(number)
    assert program.wait(HANG_S) != 0
    wait_until_gone(directory, pids, f"lab-{number.name.lower()}")


def test_a_failing_test_without_libvirtd_leaves_nothing_behind() -> None:
    program, directory, pids = start_program("lab-raise", "raise")
    assert program.wait(HANG_S) == 1
    wait_until_gone(directory, pids, "lab-raise")


def test_the_next_lab_clears_what_a_killed_one_left(tmp_path: Path) -> None:
    program, directory, pids = start_program("lab-killed", "wait")
    program.kill()
    program.wait()
    assert traces(directory, pids, "lab-killed")
    with PrivateLibvirt(logs=tmp_path / "logs", cache=CACHE):
        wait_until_gone(directory, pids, "lab-killed")


def test_a_missing_image_is_said_with_its_mend(lab: PrivateLibvirt, tmp_path: Path) -> None:
    with (
        pytest.raises(LabError, match=r"vmlinuz: build the image with images/build\.py"),
        Guest(lab, "lab-no", tmp_path),
    ):
        pass


def agent_pid(guest: Guest) -> str:
    return guest.run("pidof vscaf-agent").text.strip()


def wait_for_agent(guest: Guest, other_than: str) -> str:
    until(lambda: agent_pid(guest) not in ("", other_than), f"a new agent after {other_than or 'the start'}")
    return agent_pid(guest)


def test_the_image_keeps_an_agent_running_unless_told_not_to(pair: Pair) -> None:
    guest, _ = pair
    first = wait_for_agent(guest, "")
    guest.run(f"kill -9 {first}")
    second = wait_for_agent(guest, first)
    guest.run(f"touch /run/vscaf/agent.off; kill -9 {second}")
    until(lambda: agent_pid(guest) == "", "the killed agent is gone")
    guest.run("sleep 1")
    assert agent_pid(guest) == ""
    guest.run("rm /run/vscaf/agent.off")
    wait_for_agent(guest, second)
    result = guest.run("OMP_NUM_THREADS=2 vscaf-run cg.S")
    assert result.status == 0 and "SUCCESSFUL" in result.text, result.text


def test_the_kernel_command_line_turns_the_agent_off(lab: PrivateLibvirt) -> None:
    with Guest(lab, "lab-no-agent", IMAGE, kernel_arguments="vscaf.agent=off") as guest:
        guest.run("sleep 1")
        assert agent_pid(guest) == ""
