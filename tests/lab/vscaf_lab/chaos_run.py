"""Runs the chaos test: real guests that compute, a real daemon, and the failures that follow from the seed.

    python -m vscaf_lab.chaos_run --seconds 300 --seed 7

It kills and stops processes by the pids of this lab, never by name.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import libvirt
from vscaf.lab import processes
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.errors import LabError
from vscaf.lab.guest import AGENT_CHANNEL, Guest
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.private_libvirt import PrivateLibvirt
from vscaf.occupancy.sampler import Sample, Sampler

from vscaf_lab.chaos import (
    DAEMON,
    LIBVIRTD,
    VIRTLOGD,
    Burst,
    Failure,
    Law,
    Look,
    Moment,
    Verdict,
    judge,
    not_right,
    schedule,
)
from vscaf_lab.separation import Window

# Unique names: without systemd libvirt names a domain's cgroups only by its name and number. Domains of two labs with
# the same name and number would share cgroups and overwrite each other's pins.
COMPUTING = ("chaos-left", "chaos-right")
IDLE = ("chaos-idle",)
PROGRAM = "cg.W"
RUNS = "/tmp/runs"
INTERVAL_S = 0.05
PATIENCE_S = HANG_S  # for actions that must succeed at some time: a restart, a plug
RECOVERY_TIMEOUT_S = 300.0  # for everything to be right again after a burst; takes some seconds on an idle machine
BOOT_PATIENCE_S = 300.0  # emulated vCPUs that boot on one pCPU while others compute are slow
RETRY_S = 0.05
WARM_UP_S = 3.0  # after a program's start: it loads, and its guest asks for CPUs
RIGHT, DONE = " SUCCESSFUL", "Verification"


class ChaosError(LabError):
    """Something that the test itself needed did not happen."""


def retry_until(subject: str, attempt: Callable[[], object], deadline_s: float = PATIENCE_S) -> None:
    """Tries until it is true. Calls of libvirt may fail while libvirtd or QEMU is away, and work later."""
    end_s = time.monotonic() + deadline_s
    last: Exception | None = None
    while True:
        try:
            if attempt():
                return
        except (libvirt.libvirtError, LabError, OSError, TimeoutError) as error:
            last = error
        if time.monotonic() > end_s:
            raise ChaosError(f"{subject}: did not succeed within {deadline_s:g} s ({last})")
        time.sleep(RETRY_S)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process with SIGSTOP and continues it with SIGCONT. Ignores a process that was killed meanwhile."""
    started = processes.start_time(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if processes.start_time(pid) == started:
            os.kill(pid, signal.SIGCONT)


class GuestWithProgram:
    """A guest that repeats a verified program, and the program's output."""

    def __init__(self, guest: Guest, program: str | None) -> None:
        self.guest = guest
        self.program = program
        self.windows: list[Window] = []  # when it had to compute
        self.outputs: list[str] = []  # from before the guest was restarted
        self._since_s: float | None = None

    def start(self) -> None:
        """Starts the runs. They go on if the connection to the guest is lost."""
        if self.program is None:
            return
        # At least one run, also if the test ends at once. A failed run ends the loop.
        loop = f"while vscaf-run {self.program} && [ ! -e {RUNS}/enough ]; do :; done > {RUNS}/output 2>&1"
        # A command whose answer is late may have been carried out, so only the first one that makes the directory runs
        # programs. After a boot there is none. finish() needs the directory, so a start has succeeded when it is there.
        loop = f"mkdir {RUNS} || exit; {loop}; touch {RUNS}/over"
        command = f"setsid sh -c '{loop}' > /dev/null 2>&1 & [ -e {RUNS} ]"
        retry_until(f"programs in {self.guest.name}", lambda: self.guest.run(command, 10.0).status == 0)
        self.begin_window(WARM_UP_S)

    def begin_window(self, after_s: float = 0.0) -> None:
        """From now on it must compute."""
        self._since_s = time.monotonic() + after_s

    def end_window(self) -> None:
        """From now on it need not compute, because a failure of the guest itself begins."""
        if self._since_s is not None:
            self.windows.append((self._since_s, time.monotonic()))
        self._since_s = None

    def collect_output(self) -> None:
        """Keeps the output of its programs before the guest is lost; keeps nothing if it does not answer."""
        if self.program is not None:
            with contextlib.suppress(TimeoutError, LabError):
                self.outputs.append(self.guest.run(f"cat {RUNS}/output", 3.0).text)

    def finish(self) -> None:
        """Ends the runs. Raises ChaosError if one failed, or if none was verified since the guest last started."""
        if self.program is None:
            return
        self.end_window()
        guest = self.guest
        if guest.run(f"[ ! -e {RUNS}/over ] && touch {RUNS}/enough").status != 0:
            raise ChaosError(f"{guest.name}: a run of {self.program} failed: {guest.run(f'cat {RUNS}/output').text}")
        retry_until(f"the last run in {guest.name}", lambda: guest.run(f"ls {RUNS}/over").status == 0, 2 * PATIENCE_S)
        text = guest.run(f"cat {RUNS}/output").text
        if not 0 < text.count(DONE) == text.count(RIGHT):
            raise ChaosError(f"{guest.name}: not every run of {self.program} was right: {text}")
        for text in self.outputs:
            if text.count(DONE) > text.count(RIGHT) + 1 or "UNSUCCESSFUL" in text:  # the last line may be cut off
                raise ChaosError(f"{guest.name}: a run of {self.program} was wrong: {text}")


class Storm:
    """The parts of a lab and their failures. Each failure runs in a thread of its own, because calls may hang."""

    def __init__(
        self,
        lab: PrivateLibvirt,
        daemon: DaemonProcess,
        guests: Mapping[str, GuestWithProgram],
        law: Law,
        log: TextIO,
    ) -> None:
        self.outages: dict[str, list[Window]] = {DAEMON: [], LIBVIRTD: []}
        self.errors: list[str] = []
        self.sampler = Sampler(
            {name: one.guest.qemu_pid for name, one in guests.items()}, INTERVAL_S, on_round=self._look
        )
        self._law = law
        self._tracker = Look()
        self._moments: list[Moment] = []
        self._lab = lab
        self._daemon = daemon
        self._guests = guests
        self._log = log
        self._lock = threading.Lock()
        self._began_s = time.monotonic()

    def log_event(self, **fields: object) -> None:
        """Writes one line of the log of events: JSON, with the seconds since the start."""
        with self._lock:
            self._log.write(json.dumps({"at_s": round(time.monotonic() - self._began_s, 3), **fields}) + "\n")
            self._log.flush()

    def _look(self, taken: list[Sample]) -> None:
        if taken:
            self._moments.append(self._tracker.moment(taken))

    def burst(self, number: int, failures: list[Failure]) -> Burst:
        """Runs a burst and waits for the quiet after it."""
        ended_s: list[float] = []
        begin_s = time.monotonic()

        def one(failure: Failure) -> None:
            time.sleep(max(0.0, begin_s + failure.delay_s - time.monotonic()))
            self.log_event(burst=number, what="begin", part=failure.part, kind=failure.kind, away_s=failure.away_s)
            try:
                after = self._happen(failure)
                ended_s.append(time.monotonic())
                self.log_event(burst=number, what="end", part=failure.part, kind=failure.kind)
                after()
            except Exception as error:  # noqa: BLE001  a thread cannot raise: the error is logged, and the run fails
                self.log_event(burst=number, what="failed", part=failure.part, kind=failure.kind, error=str(error))
                self.errors.append(f"burst {number}: {failure.kind} of {failure.part}: {error!r}")

        threads = [threading.Thread(target=one, args=(failure,), name=failure.kind) for failure in failures]
        for thread in threads:
            thread.start()
        # The quiet begins when the last failure is over. A guest that still boots comes back during the quiet.
        for thread in threads:
            thread.join()
        end_s = max(ended_s, default=time.monotonic())
        first = bisect.bisect_left(self._moments, end_s, key=lambda one: one.at_s)
        computing = [name for name, one in self._guests.items() if one.program is not None]
        quiet: list[Moment] = []

        def right() -> bool:
            quiet[:] = self._moments[first:]
            return not not_right(quiet, self._law, computing)

        with contextlib.suppress(TimeoutError):  # the judge reports what is wrong
            until(lambda: self.errors or right(), hang_s=RECOVERY_TIMEOUT_S)
        # The judge sees the same moments. Meanwhile there may be others, with the next changes.
        return Burst(number, begin_s, end_s, quiet[-1].at_s if quiet else time.monotonic())

    def _happen(self, failure: Failure) -> Callable[[], None]:
        """Runs one failure from its start to its end. Returns a function to call before the next burst."""
        if failure.part in (DAEMON, LIBVIRTD, VIRTLOGD):
            since_s = time.monotonic()
            self._of_the_host(failure)
            if failure.part in self.outages:
                self.outages[failure.part].append((since_s, min(time.monotonic(), since_s + failure.away_s)))
            return lambda: None
        return self._of_a_guest(self._guests[failure.part], failure)

    def _of_the_host(self, failure: Failure) -> None:
        lab, daemon = self._lab, self._daemon
        if failure.kind == "stop":
            pid = {DAEMON: lambda: daemon.pid, LIBVIRTD: lambda: lab.libvirtd_pid, VIRTLOGD: lambda: lab.virtlogd_pid}
            with stopped(pid[failure.part]()):
                time.sleep(failure.away_s)
            return
        kill, start = {
            DAEMON: (daemon.kill, self._start_daemon),
            LIBVIRTD: (lab.kill_libvirtd, lab.start_libvirtd),
            VIRTLOGD: (lab.kill_virtlogd, lab.start_virtlogd),
        }[failure.part]
        kill()
        time.sleep(failure.away_s)
        start()

    def _start_daemon(self) -> None:
        """Starts the daemon again and again until libvirtd answers it, as a service manager does."""

        def attempt() -> bool:
            try:
                self._daemon.start()
            except LabError:
                with contextlib.suppress(AssertionError, ProcessLookupError):
                    self._daemon.kill()
                raise
            return True

        retry_until("a start of the daemon", attempt)

    @contextlib.contextmanager
    def _domain(self, name: str) -> Iterator[libvirt.virDomain]:
        """The domain, by a new connection: another one may hang, or may have ended with its libvirtd."""
        connection = libvirt.open(self._lab.uri)
        try:
            yield connection.lookupByName(name)
        finally:
            with contextlib.suppress(libvirt.libvirtError):
                connection.close()

    def _retry_until_state(self, name: str, state: int, action: Callable[[libvirt.virDomain], object]) -> None:
        def attempt() -> bool:
            with self._domain(name) as domain:
                if domain.state()[0] != state:
                    action(domain)
                return bool(domain.state()[0] == state)

        retry_until(f"state {state} of domain {name}", attempt)

    def _of_a_guest(self, running: GuestWithProgram, failure: Failure) -> Callable[[], None]:
        guest, away_s = running.guest, failure.away_s
        if failure.kind == "agent-kill":
            gone = f"touch /run/vscaf/agent.off; kill -9 $(pidof vscaf-agent); sleep {away_s}; rm /run/vscaf/agent.off"
            guest.run(gone, PATIENCE_S)
        elif failure.kind == "agent-stop":
            guest.run(f"pid=$(pidof vscaf-agent); kill -STOP $pid; sleep {away_s}; kill -CONT $pid", PATIENCE_S)
        elif failure.kind == "channel":
            self._unplug_channel(guest.name, away_s)
        elif failure.kind == "qemu-stop":
            running.end_window()
            with stopped(guest.qemu_pid):
                time.sleep(away_s)
            running.begin_window(1.0)
        elif failure.kind == "pause":
            running.end_window()
            self._retry_until_state(guest.name, libvirt.VIR_DOMAIN_PAUSED, lambda domain: domain.suspend())
            time.sleep(away_s)
            self._retry_until_state(guest.name, libvirt.VIR_DOMAIN_RUNNING, lambda domain: domain.resume())
            running.begin_window(1.0)
        elif failure.kind == "save":
            running.end_window()
            self._retry_until_state(guest.name, libvirt.VIR_DOMAIN_SHUTOFF, lambda domain: domain.managedSave())
            time.sleep(away_s)
            self._start_domain(guest)
            guest.reconnect()
            running.begin_window(1.0)
        elif failure.kind == "reboot":
            running.collect_output()
            running.end_window()
            retry_until(f"a reset of {guest.name}", lambda: self._reset(guest.name))
            return lambda: self._wait_booted(running)
        elif failure.kind == "qemu-kill":
            running.collect_output()
            running.end_window()
            os.kill(guest.qemu_pid, signal.SIGKILL)
            time.sleep(away_s)
            # libvirt may report for seconds that the domain still runs. It would not start the domain before that ends.
            retry_until(f"the end of {guest.name}", lambda: not self._runs(guest.name))
            self._start_domain(guest)
            guest.reconnect()
            return lambda: self._wait_booted(running)
        else:
            raise ChaosError(f"no such failure: {failure.kind}")
        return lambda: None

    def _runs(self, name: str) -> bool:
        with self._domain(name) as domain:
            return bool(domain.isActive())

    def _reset(self, name: str) -> bool:
        with self._domain(name) as domain:
            domain.reset()
        return True

    def _start_domain(self, guest: Guest) -> None:
        self._retry_until_state(guest.name, libvirt.VIR_DOMAIN_RUNNING, lambda domain: domain.create())
        retry_until(f"the pid of {guest.name}", lambda: guest.qemu_pid)
        self.sampler.add(guest.name, guest.qemu_pid)

    def _wait_booted(self, one: GuestWithProgram) -> None:
        """Waits until a restarted guest answers. Requests from before the restart are lost."""
        retry_until(f"the boot of {one.guest.name}", lambda: one.guest.runner.clock(2.0), BOOT_PATIENCE_S)
        one.start()

    def _unplug_channel(self, name: str, away_s: float) -> None:
        found: list[str] = []

        def channel(domain: libvirt.virDomain) -> list[str]:
            pieces = [f"<channel {piece}" for piece in domain.XMLDesc().split("<channel ")[1:]]
            return [piece.split("</channel>")[0] + "</channel>" for piece in pieces if AGENT_CHANNEL in piece]

        def away() -> bool:
            with self._domain(name) as domain:
                there = channel(domain)
                found.extend(there)
                if there:
                    domain.detachDeviceFlags(there[0], libvirt.VIR_DOMAIN_AFFECT_LIVE)
                return bool(found) and not channel(domain)

        def back() -> bool:
            with self._domain(name) as domain:
                if not channel(domain):
                    domain.attachDeviceFlags(found[0], libvirt.VIR_DOMAIN_AFFECT_LIVE)
                return bool(channel(domain))

        retry_until(f"the unplug of {name}'s channel", away)
        time.sleep(away_s)
        retry_until(f"the plug of {name}'s channel", back)


def run(image: Path, cache: Path, logs: Path, *, seed: int, seconds: float, policy: str = "max-speedup") -> Verdict:
    """A complete run in a lab of its own; `logs` gets its logs and events.jsonl. `policy`: the daemon's; the judge must
    report violations for "unmanaged".

    Raises LabError if the test itself could not go on.
    """
    pool = sorted(os.sched_getaffinity(0))[:2]
    names = COMPUTING + IDLE
    logs.mkdir(parents=True, exist_ok=True)
    with (
        (logs / "events.jsonl").open("w", encoding="utf-8") as log,
        PrivateLibvirt(logs=logs, cache=cache) as lab,
        contextlib.ExitStack() as stack,
    ):
        guests = {
            name: Guest(lab, name, image, vcpus=2, memory_mib=256, cpuset=",".join(map(str, pool)), persistent=True)
            for name in names
        }
        for guest in guests.values():
            stack.callback(guest.stop)
            guest.launch()
        for guest in guests.values():
            guest.wait_ready()
        programs = {
            name: GuestWithProgram(guest, PROGRAM if name in COMPUTING else None) for name, guest in guests.items()
        }
        daemon = DaemonProcess(lab, ",".join(map(str, pool)), {name: {} for name in names}, policy=policy, name="chaos")
        stack.enter_context(daemon)
        law = Law(frozenset(pool), dict.fromkeys(names, 1))
        storm = Storm(lab, daemon, programs, law, log)
        storm.log_event(what="seed", seed=seed, seconds=seconds)
        with storm.sampler:
            for running in programs.values():
                running.start()
            time.sleep(WARM_UP_S)
            bursts = []
            for number, failures in enumerate(schedule(seed, seconds, COMPUTING, IDLE), 1):
                bursts.append(storm.burst(number, failures))
                if storm.errors:
                    break
            storm.log_event(what="status", status=_status(daemon))
            for running in programs.values():
                try:
                    running.finish()
                except (LabError, TimeoutError) as error:
                    storm.errors.append(str(error))
        verdict = judge(
            storm.sampler.samples,
            law,
            bursts,
            {name: running.windows for name, running in programs.items() if running.program is not None},
            storm.outages,
        )
        verdict.violations = storm.errors + verdict.violations + _left_behind(daemon, guests, frozenset(pool))
        storm.log_event(what="verdict", violations=verdict.violations, recovery_s=verdict.recovery_s)
        return verdict


def _status(daemon: DaemonProcess) -> Any:
    try:
        return daemon.status()
    except LabError as error:
        return str(error)


def _left_behind(daemon: DaemonProcess, guests: Mapping[str, Guest], pool: frozenset[int]) -> list[str]:
    """Ends the daemon and returns what it did not put back."""
    left = [] if (status := daemon.stop()) == 0 else [f"the daemon ended with status {status}"]
    for name, guest in guests.items():
        try:
            threads = guest.vcpu_threads
        except LabError as error:
            left.append(str(error))
            continue
        for vcpu, thread in threads.items():
            if (where := frozenset(os.sched_getaffinity(thread))) != pool:
                left.append(f"{name}: vCPU {vcpu} was left on pCPUs {sorted(where)}")
    return left


def summary(verdict: Verdict, logs: Path) -> str:
    """The failures and the verdict, as text for people."""
    lines = []
    for line in (logs / "events.jsonl").read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        if fields["what"] in ("begin", "failed"):
            lines.append(
                f"  {fields['at_s']:7.2f} s  burst {fields['burst']:2}  {fields['part']}: {fields['kind']} "
                f"{fields.get('away_s', '')} {fields.get('error', '')}"
            )
        elif fields["what"] == "status" and verdict.violations:
            lines.append(f"  last status: {json.dumps(fields['status'])}")
    times = ", ".join(f"{seconds:.1f}" for seconds in verdict.recovery_s.values())
    lines.append(f"seconds until all was right after each burst (not judged): {times}")
    lines += [f"VIOLATION: {one}" for one in verdict.violations]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long failures happen (default: 300)")
    parser.add_argument("--seed", type=int, help="decides what happens and when (default: random, printed)")
    parser.add_argument("--policy", default="max-speedup", help="the daemon's policy (unmanaged: must give violations)")
    parser.add_argument("--image", type=Path, default=Path(os.environ.get("VSCAF_IMAGE", "build/image/current")))
    parser.add_argument("--cache", type=Path, default=Path("build/lab/cache"), help="what the lab keeps between runs")
    parser.add_argument("--output", type=Path, default=Path("build/chaos"), help="where the logs of the run go")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    options.output.mkdir(parents=True, exist_ok=True)
    logs = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=options.output))
    print(f"chaos: seed {seed}, {options.seconds:g} s, logs in {logs}", flush=True)
    verdict = run(
        options.image, options.cache.resolve(), logs, seed=seed, seconds=options.seconds, policy=options.policy
    )
    print(summary(verdict, logs))
    sys.exit(1 if verdict.violations else 0)


if __name__ == "__main__":
    main()
