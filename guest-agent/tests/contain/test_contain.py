"""Programs with their own number of threads are kept to their share of the CPUs, and are put back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import PLAIN, ask
from rig import AGENT, DEADLINE_S, Program, Rig, wait_for_log, wait_until

RIGID = 2
ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(not {0, 1} <= ALL, reason="needs CPUs 0 and 1")


def cpus_of(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def allowed(pid: int) -> dict[int, frozenset[int]]:
    """The CPUs on which each thread of a process may run."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in (task / "status").read_text().splitlines():
                if line.startswith("Cpus_allowed_list:"):
                    found[int(task.name)] = cpus_of(line.split(":")[1])
    return found


def confined(pid: int, cpus: int = 1) -> bool:
    """Whether every thread may run on the same CPUs, and on that many."""
    sets = set(allowed(pid).values())
    return len(sets) == 1 and len(next(iter(sets))) == cpus


def rigid(rig: Rig, threads: int = 2) -> Program:
    """A program that has its own number of threads and keeps them busy."""
    program = join(rig)
    program.say(f"malleable {RIGID}")
    program.say(f"last {threads}")
    program.say(f"busy {threads}")
    return program


def complete(program: Program) -> dict[int, frozenset[int]]:
    """Where the threads of a rigid program may run: its two busy ones and its main thread, which reads commands."""
    wait_until(lambda: len(allowed(program.pid)) == 3, "its threads")
    return allowed(program.pid)


def join(rig: Rig) -> Program:
    program = rig.join()
    rig.show_threads(program)
    return program


def malleable(rig: Rig) -> Program:
    program = join(rig)
    program.say("busy 1")
    return program


def record(rig: Rig) -> Path:
    return Path(f"{rig.socket_path}.contained")


class Patient(Rig):
    """With long periods, so that even on a busy machine a program runs in each of them."""

    def start(self, *options: str, accept: bool = True) -> None:
        super().start("--period-ms", "250", *options, accept=accept)


@pytest.fixture
def pair() -> Iterator[Rig]:
    """An agent's environment with two CPUs, both real."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Patient(Path(directory), possible=2, present=2)
        (rig.proc / "self").symlink_to("/proc/self")
        try:
            yield rig
        finally:
            rig.close()


def test_while_others_run(pair: Rig) -> None:
    pair.start("--standalone", "--contain", "auto")
    program = rigid(pair)
    before = complete(program)
    other = malleable(pair)
    wait_until(lambda: confined(program.pid) and record(pair).exists(), "the rigid program on one CPU, and on record")
    assert set(allowed(other.pid).values()) == set(before.values()), "the agent does not touch a malleable program"
    other.kill()
    wait_until(lambda: set(allowed(program.pid).values()) == set(before.values()), "its CPUs again")
    wait_until(lambda: not record(pair).exists(), "nothing left on record")


def test_reported(pair: Rig) -> None:
    pair.start("--contain", "auto")
    program = rigid(pair)
    other = malleable(pair)

    def contained(pid: int, message: dict) -> bool:
        return any(p["pid"] == pid and p.get("contained") is True for p in message["processes"])

    pair.message("report", lambda message: contained(program.pid, message))
    report = pair.message("report", lambda message: not contained(other.pid, message))
    assert all("contained" not in p for p in report["processes"] if p["pid"] == other.pid)
    program.say("last 1")
    program.say("malleable 0")
    wait_until(lambda: set(allowed(program.pid).values()) == set(allowed(os.getpid()).values()), "malleable: released")
    pair.message("report", lambda message: not contained(program.pid, message))


def test_within_its_share_it_is_left_alone(pair: Rig) -> None:
    """One thread on a share of one CPU takes nothing from other programs."""
    pair.start("--contain", "auto")
    program = rigid(pair, threads=1)
    malleable(pair)
    pair.fresh()
    for _ in range(5):
        pair.message("report", lambda message: len(message["processes"]) == 2)
    assert not confined(program.pid)


def test_none(pair: Rig) -> None:
    pair.start("--contain", "none")
    program = rigid(pair)
    malleable(pair)
    pair.fresh()
    for _ in range(5):
        pair.message("report", lambda message: len(message["processes"]) == 2)
    assert not confined(program.pid)
    assert not record(pair).exists()


def test_wrong_word(pair: Rig) -> None:
    done = subprocess.run(
        [AGENT, "--contain", "cpuset"], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 2
    assert "--contain cpuset: give auto or none" in done.stderr


def bind(program: Program) -> dict[int, frozenset[int]]:
    """Binds each of its threads to one CPU, in turn, as OMP_PROC_BIND does."""
    for number, tid in enumerate(sorted(allowed(program.pid))):
        os.sched_setaffinity(tid, {number % 2})
    return allowed(program.pid)


def some_reports(rig: Rig, count: int = 5) -> None:
    rig.fresh()
    for _ in range(count):
        rig.message("report", lambda message: len(message["processes"]) == 2)


def test_bound_threads_stay(pair: Rig) -> None:
    """A program whose threads are bound is left alone. It has the number of threads that it chose."""
    pair.start("--contain", "auto")
    program = join(pair)
    program.say("busy 2")
    complete(program)
    before = bind(program)
    assert len(set(before.values())) == 2
    malleable(pair)
    wait_until(lambda: program.team() == 0, "the program decides")
    program.say(f"malleable {RIGID}")
    program.say("last 2")
    some_reports(pair)
    assert allowed(program.pid) == before


def test_threads_that_come_and_change(pair: Rig) -> None:
    """A new thread is contained too. A thread that sets its own mask meanwhile is left there, and keeps it."""
    pair.start("--standalone", "--contain", "auto")
    program = rigid(pair)
    other = malleable(pair)
    wait_until(lambda: len(allowed(program.pid)) == 3 and confined(program.pid), "on one CPU")
    earlier = set(allowed(program.pid))
    program.say("busy 1")
    wait_until(lambda: len(allowed(program.pid)) == 4 and confined(program.pid), "the new thread on one CPU, too")
    (tid,) = set(allowed(program.pid)) - earlier
    chosen = 1 - next(iter(allowed(program.pid)[tid]))
    os.sched_setaffinity(tid, {chosen})
    other.kill()
    wait_until(lambda: allowed(program.pid)[program.pid] >= {0, 1}, "released")
    assert allowed(program.pid)[tid] == {chosen}


def test_sections_of_their_own_number(pair: Rig) -> None:
    """A program that is told a team and does not keep to it is contained, until its sections keep to it for a while."""
    pair.start("--contain", "auto")
    program = join(pair)
    program.say("busy 2")
    program.say("last 2")
    before = complete(program)
    malleable(pair)
    wait_until(lambda: program.team() == 1, "a share of one")

    def a_section_later() -> bool:
        program.say("begin")
        program.say("end 1000")
        return confined(program.pid)

    some_reports(pair)
    assert allowed(program.pid) == before, "the last section may have begun with the old team"
    wait_until(a_section_later, "on one CPU")
    program.say("last 1")
    wait_until(lambda: not a_section_later(), "its sections fit: released")
    assert allowed(program.pid) == before


def test_agent_stops(pair: Rig) -> None:
    pair.start("--standalone", "--contain", "auto")
    program = rigid(pair)
    before = set(allowed(program.pid).values())
    malleable(pair)
    wait_until(lambda: confined(program.pid), "on one CPU")
    assert pair.stop() == 0
    assert set(allowed(program.pid).values()) == before
    assert not record(pair).exists()


def kill(rig: Rig) -> None:
    assert rig.process is not None
    rig.process.send_signal(signal.SIGKILL)
    rig.process.wait(DEADLINE_S)
    rig.process = None


def test_agent_is_killed(pair: Rig) -> None:
    """The next agent puts back each thread's own mask."""
    pair.start("--standalone", "--contain", "auto")
    program = rigid(pair)
    before = complete(program)
    malleable(pair)
    wait_until(lambda: confined(program.pid), "on one CPU")
    kill(pair)
    assert confined(program.pid)
    written = json.loads(record(pair).read_text())
    assert [entry["pid"] for entry in written["processes"]] == [program.pid]
    assert record(pair).stat().st_mode & 0o777 == 0o600
    pair.start("--standalone", "--contain", "none")
    wait_until(lambda: allowed(program.pid) == before, f"each thread as it was: {before}")
    wait_until(lambda: not record(pair).exists(), "nothing on record")
    wait_for_log(pair, "released 1 contained process")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"v":1,"processes":[]}',
        '{"v":2,"processes":[1,{},{"pid":-1,"start":0,"own":"0","free":false,"set":"0","next":""}]}',
        '{"v":2,"processes":[{"pid":1,"start":0,"own":"","free":false,"set":"x","next":""}]}',
    ],
)
def test_a_record_that_makes_no_sense(pair: Rig, text: str) -> None:
    record(pair).parent.mkdir()
    record(pair).write_text(text)
    record(pair).chmod(0o600)
    pair.start("--standalone")
    join(pair)


def test_a_record_of_others_is_not_believed(pair: Rig) -> None:
    record(pair).parent.mkdir()
    start = Path(f"/proc/{os.getpid()}/stat").read_text().rsplit(")", 1)[1].split()[19]
    everywhere = ",".join(map(str, sorted(ALL)))
    entry = {"pid": os.getpid(), "start": int(start), "own": "0", "free": False, "set": everywhere, "next": ""}
    record(pair).write_text(json.dumps({"v": 2, "processes": [entry]}))
    record(pair).chmod(0o666)
    (pair.proc / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    pair.start("--standalone")
    wait_until(lambda: "what an earlier agent contained is left as it is" in pair.log.read_text(), "the log message")
    join(pair)  # once it serves, it has handled the record
    assert os.sched_getaffinity(0) == ALL


def test_the_record_cannot_be_written(pair: Rig) -> None:
    """If the record cannot be written, nothing is contained. The agent logs that once."""
    (Path(f"{pair.socket_path}.contained.new")).mkdir(parents=True)
    pair.start("--contain", "auto")
    program = rigid(pair)
    malleable(pair)
    wait_until(lambda: "nothing is contained" in pair.log.read_text(), "the log message")
    pair.fresh()
    for _ in range(5):
        pair.message("report", lambda message: len(message["processes"]) == 2)
    assert not confined(program.pid)
    assert pair.log.read_text().count("nothing is contained") == 1


def test_a_cpu_goes_and_comes(pair: Rig) -> None:
    """If the rigid program's share is all CPUs that are left, it is not contained."""
    pair.start("--contain", "auto")
    program = rigid(pair)
    before = complete(program)
    malleable(pair)
    wait_until(lambda: confined(program.pid), "on one CPU")
    pair.ack(pair.allocate(1))
    wait_until(lambda: allowed(program.pid) == before, "released")
    pair.ack(pair.allocate(2))
    wait_until(lambda: confined(program.pid), "on one of two again")


def kept_to(program: Program) -> frozenset[int]:
    """The CPUs that all its threads are kept to. Empty if they differ."""
    sets = set(allowed(program.pid).values())
    return next(iter(sets)) if len(sets) == 1 else frozenset()


def test_each_on_its_own_and_stays(pair: Rig) -> None:
    """Two rigid programs share no CPU. When one ends, the other stays on its CPU."""
    pair.start("--contain", "auto")
    first, second = rigid(pair), rigid(pair)
    malleable(pair)
    wait_until(lambda: {kept_to(first), kept_to(second)} == {frozenset({0}), frozenset({1})}, "on one CPU each")
    pair.fresh()
    here = kept_to(second)
    first.kill()

    def all_ran() -> bool:
        """Whether all ran, by the reports up to now and the next one that comes without the program that ended.
        A program without a CPU for some periods passes for idle, and all are released."""
        found = [*pair.fresh(), pair.message("report", lambda message: len(message["processes"]) == 2)]
        return all(process["running"] for report in found for process in report["processes"])

    stayed, ran = 0, True
    while stayed < 4:
        ran = all_ran() and ran
        if kept_to(second) == here:
            stayed += 1
            continue
        assert not (all_ran() and ran), "it was moved"
        wait_until(lambda: confined(second.pid), "on one CPU again")
        here, stayed, ran = kept_to(second), 0, True


class Launched:
    """A real OpenMP program under vscaf-run, joined to the rig's agent."""

    def __init__(self, rig: Rig, kind: str, **environment: str) -> None:
        launcher = PLAIN / "guest-libgomp" / "vscaf-run"
        shim = PLAIN / "guest-libgomp" / "libvscaf-gomp.so"
        self.process = subprocess.Popen(
            [launcher, PLAIN / "guest-agent" / "rigid-program", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "VSCAF_SOCKET": str(rig.socket_path),
                "VSCAF_GOMP_LIBRARY": str(shim),
                "OMP_NUM_THREADS": "2",
                **environment,
            },
        )
        self.pid = self.process.pid  # vscaf-run becomes the program
        (rig.proc / str(self.pid)).symlink_to(f"/proc/{self.pid}")

    def end(self) -> str:
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        return output

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize(
    ("kind", "environment"), [("set", {}), ("plain", {"VSCAF_MALLEABLE": "rigid"}), ("long", {}), ("clause", {})]
)
def test_a_real_program(pair: Rig, kind: str, environment: dict[str, str]) -> None:
    """Two threads next to a malleable program on two CPUs: on one CPU, and on both when the malleable one has ended."""
    pair.start("--standalone")
    rigid_one = Launched(pair, kind, **environment)
    other = None
    try:
        wait_until(lambda: len(allowed(rigid_one.pid)) == 2, "its two threads")
        before = allowed(rigid_one.pid)
        other = Launched(pair, "plain", VSCAF_MALLEABLE="full")
        wait_until(lambda: confined(rigid_one.pid) and len(allowed(rigid_one.pid)) == 2, "two threads on one CPU")
        assert any(len(mask) > 1 for mask in allowed(other.pid).values())
        assert other.end().splitlines()[-1].startswith("verified ")
        wait_until(lambda: allowed(rigid_one.pid) == before, "on both again")
        assert rigid_one.end().splitlines()[-1].startswith("verified ")
        assert rigid_one.process.returncode == 0
    finally:
        rigid_one.kill()
        if other is not None:
            other.kill()


def test_a_real_program_that_pins_its_threads(pair: Rig) -> None:
    """It runs beside another one, and beside one whose agent has ended: its threads stay where they were put."""
    pair.start("--standalone")
    pinned, other = Launched(pair, "pinned"), None
    try:
        wait_until(lambda: set(allowed(pinned.pid).values()) == {frozenset({0}), frozenset({1})}, "its threads pinned")
        before = allowed(pinned.pid)
        other = Launched(pair, "plain")
        wait_until(lambda: len(allowed(other.pid)) >= 1, "another program")
        time.sleep(2)  # some periods in which it might be contained
        assert allowed(pinned.pid) == before
        assert pair.stop() == 0
        assert pinned.end().splitlines()[-1].startswith("verified ")
        assert other.end().splitlines()[-1].startswith("verified ")
    finally:
        pinned.kill()
        if other is not None:
            other.kill()


def test_after_the_agent_a_real_program_has_its_number_again(pair: Rig) -> None:
    pair.start("--standalone", "--no-background")
    first, second = Launched(pair, "plain"), Launched(pair, "plain")
    try:
        # The one that comes second has a team of one from the start. A team that was larger once keeps its threads.
        wait_until(lambda: ask(pair.socket_path)["joined"] == 2, "both have joined")
        assert pair.stop() == 0
        wait_until(lambda: len(allowed(first.pid)) == len(allowed(second.pid)) == 2, "two threads each")
        for program in (first, second):
            assert program.end().splitlines()[-1].startswith("verified ")
    finally:
        first.kill()
        second.kill()
