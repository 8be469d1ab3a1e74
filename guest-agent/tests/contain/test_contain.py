"""Rigid programs are kept to their share of the CPUs, by their threads' affinity or by cpusets, and are put back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import AGENT, BUILD, DEADLINE_S, Program, Rig, wait_for_log, wait_until

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


def test_by_affinity_while_others_run(pair: Rig) -> None:
    pair.start("--standalone", "--contain", "affinity")
    program = rigid(pair)
    before = complete(program)
    other = malleable(pair)
    wait_until(lambda: confined(program.pid) and record(pair).exists(), "the rigid program on one CPU, and on record")
    assert set(allowed(other.pid).values()) == set(before.values()), "the agent does not touch a malleable program"
    other.kill()
    wait_until(lambda: set(allowed(program.pid).values()) == set(before.values()), "its CPUs again")
    wait_until(lambda: not record(pair).exists(), "nothing left on record")


def test_reported(pair: Rig) -> None:
    pair.start("--contain", "affinity")
    program = rigid(pair)
    other = malleable(pair)

    def contained(pid: int, message: dict) -> bool:
        return any(p["pid"] == pid and p.get("contained") is True for p in message["processes"])

    pair.message("report", lambda message: contained(program.pid, message))
    report = pair.message("report", lambda message: not contained(other.pid, message))
    assert all("contained" not in p for p in report["processes"] if p["pid"] == other.pid)
    program.say("malleable 0")
    wait_until(lambda: set(allowed(program.pid).values()) == set(allowed(os.getpid()).values()), "malleable: released")
    pair.message("report", lambda message: not contained(program.pid, message))


def test_within_its_share_it_is_left_alone(pair: Rig) -> None:
    """One thread on a share of one CPU takes nothing from other programs."""
    pair.start("--contain", "affinity")
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
        [AGENT, "--contain", "cgroup"], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 2
    assert "--contain cgroup: give auto, cpuset, affinity or none" in done.stderr


def bind(program: Program) -> dict[int, frozenset[int]]:
    """Binds each of its threads to one CPU, in turn, as OMP_PROC_BIND does."""
    for number, tid in enumerate(sorted(allowed(program.pid))):
        os.sched_setaffinity(tid, {number % 2})
    return allowed(program.pid)


def test_bound_threads_by_affinity(pair: Rig) -> None:
    """Each thread gets its own mask back."""
    pair.start("--standalone", "--contain", "affinity")
    program = rigid(pair)
    complete(program)
    before = bind(program)
    assert len(set(before.values())) == 2
    other = malleable(pair)
    wait_until(lambda: confined(program.pid), "on one CPU")
    other.kill()
    wait_until(lambda: allowed(program.pid) == before, f"each thread as it was: {before}")


def test_threads_that_come_and_change(pair: Rig) -> None:
    """A thread that sets its own mask is contained too, and has that mask again in the end."""
    pair.start("--standalone", "--contain", "affinity")
    program = rigid(pair)
    other = malleable(pair)
    wait_until(lambda: len(allowed(program.pid)) == 3 and confined(program.pid), "on one CPU")
    earlier = set(allowed(program.pid))
    program.say("busy 1")
    wait_until(lambda: len(allowed(program.pid)) == 4 and confined(program.pid), "the new thread on one CPU, too")
    (tid,) = set(allowed(program.pid)) - earlier
    chosen = None

    def taken_down() -> int | None:
        """The CPU that the thread chose, as the agent recorded it. The thread chooses again until it is recorded."""
        if record(pair).exists() and (entries := json.loads(record(pair).read_text())["processes"]):
            for known, mask in entries[0]["threads"]:
                if known == tid:
                    return int(mask)
        (here, *more) = allowed(program.pid)[program.pid]
        if not more:
            os.sched_setaffinity(tid, {1 - here})
        return None

    def chosen_is_known() -> bool:
        nonlocal chosen
        chosen = taken_down()
        return chosen is not None

    wait_until(chosen_is_known, "the mask that it gave itself in the record")
    wait_until(lambda: confined(program.pid), "on one CPU again")
    other.kill()
    wait_until(lambda: allowed(program.pid)[program.pid] >= {0, 1}, "released")
    wait_until(lambda: allowed(program.pid)[tid] == {chosen}, "the mask that it gave itself")


def test_agent_stops(pair: Rig) -> None:
    pair.start("--standalone", "--contain", "affinity")
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
    pair.start("--standalone", "--contain", "affinity")
    program = rigid(pair)
    complete(program)
    before = bind(program)
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
        '{"v":1,"root":"","processes":[1,{},{"pid":-1,"start":0,"common":"0","free":false,"threads":[]}]}',
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
    entry = {"pid": os.getpid(), "start": int(start), "common": "0", "free": False, "threads": []}
    record(pair).write_text(json.dumps({"v": 1, "root": "", "processes": [entry]}))
    record(pair).chmod(0o666)
    (pair.proc / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    pair.start("--standalone")
    wait_until(lambda: "what an earlier agent contained is left as it is" in pair.log.read_text(), "the log message")
    join(pair)  # once it serves, it has handled the record
    assert os.sched_getaffinity(0) == ALL


def test_the_record_cannot_be_written(pair: Rig) -> None:
    """If the record cannot be written, nothing is contained. The agent logs that once."""
    (Path(f"{pair.socket_path}.contained.new")).mkdir(parents=True)
    pair.start("--contain", "affinity")
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
    pair.start("--contain", "affinity")
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
    pair.start("--contain", "affinity")
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


class Tree:
    """A group of the cpuset hierarchy for the programs of one test."""

    def __init__(self, root: Path, version: int, name: str) -> None:
        self.root, self.version = root, version
        self.group = root / name
        self.group.mkdir()
        if version == 1:
            for file in ("cpuset.cpus", "cpuset.mems"):
                (self.group / file).write_text((root / file).read_text())

    def add(self, program: Program) -> None:
        (self.group / "cgroup.procs").write_text(str(program.pid))

    def of(self, pid: int) -> Path:
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "cpuset" in controllers.split(",") if self.version == 1 else controllers == "":
                return self.root / path[1:]
        raise AssertionError(f"{pid} is in no such group")

    def children(self) -> list[Path]:
        return [path for path in self.group.iterdir() if path.is_dir()]

    def close(self) -> None:
        for path in [*self.children(), self.group]:
            wait_until(lambda path=path: gone(path), f"{path} empty")  # type: ignore[misc]


def gone(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def cpuset_tree() -> tuple[Path, int] | None:
    """The mount point and the version of the cpuset hierarchy on this machine."""
    found = None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        where, (kind, _, options) = Path(before.split()[4]), after.split()[:3]
        if kind == "cgroup" and "cpuset" in options.split(","):
            found = found or (where, 1)
        if kind == "cgroup2" and "cpuset" in (where / "cgroup.controllers").read_text().split():
            return where, 2
    return found


@pytest.fixture
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    found = cpuset_tree()
    if found is None or not os.access(found[0] / "cgroup.procs", os.W_OK):
        pytest.skip("no cpuset hierarchy that may be written to")
    tree = Tree(*found, f"vscaf-test-{os.getpid()}")
    try:
        yield tree
    finally:
        tree.close()


@pytest.fixture
def grouped(tree: Tree, pair: Rig) -> Rig:
    """Torn down before the tree, so that its programs leave the groups first."""
    return pair


def held(rig: Rig, tree: Tree) -> tuple[Program, Program]:
    """A rigid program of the tree that an agent holds to one CPU by a cpuset, and a malleable program next to it."""
    rig.start("--standalone")
    program = rigid(rig)
    tree.add(program)
    other = malleable(rig)
    tree.add(other)
    wait_until(lambda: confined(program.pid), "the rigid program on one CPU")
    return program, other


def test_by_cpuset(tree: Tree, grouped: Rig) -> None:
    rig = grouped
    program, other = held(rig, tree)
    wait_until(lambda: tree.of(program.pid) == tree.group / f"vscaf.{program.pid}", "in a group below its own")
    assert tree.of(other.pid) == tree.group
    free = set(allowed(other.pid).values())
    other.kill()
    wait_until(lambda: not tree.children(), "no group left")
    assert tree.of(program.pid) == tree.group
    assert set(allowed(program.pid).values()) == free
    wait_until(lambda: not record(rig).exists(), "nothing on record")


def test_bound_threads_by_cpuset(tree: Tree, grouped: Rig) -> None:
    rig = grouped
    rig.start("--standalone", "--contain", "cpuset")
    program = rigid(rig)
    tree.add(program)
    complete(program)
    before = bind(program)
    other = malleable(rig)
    wait_until(lambda: confined(program.pid), "on one CPU")
    other.kill()
    wait_until(lambda: allowed(program.pid) == before, f"each thread as it was: {before}")


def test_killed_with_cpusets(tree: Tree, grouped: Rig) -> None:
    rig = grouped
    program, _ = held(rig, tree)
    kill(rig)
    assert tree.children()
    rig.start("--standalone", "--contain", "none")
    wait_until(lambda: not tree.children() and tree.of(program.pid) == tree.group, "all put back by the next agent")
    assert not confined(program.pid)


def test_leaves_and_exits_with_cpusets(tree: Tree, grouped: Rig) -> None:
    """The group that an exited process leaves behind is removed. Its children go back to the group they came from."""
    rig = grouped
    program, _ = held(rig, tree)
    program.kill()
    wait_until(lambda: not tree.children(), "no group left")
    second = rigid(rig)
    tree.add(second)
    wait_until(lambda: confined(second.pid), "on one CPU")
    assert rig.stop() == 0
    assert not tree.children()
    assert not confined(second.pid)


def test_moved_by_other_hands(tree: Tree, grouped: Rig) -> None:
    """The user moves it to another group. From there it is contained again."""
    rig = grouped
    program, _ = held(rig, tree)
    second = Tree(tree.root, tree.version, f"vscaf-test-{os.getpid()}-second")
    try:
        second.add(program)
        wait_until(lambda: tree.of(program.pid) == second.group / f"vscaf.{program.pid}", "below the new one")
        wait_until(lambda: not tree.children(), "nothing left in the old one")
        wait_until(lambda: confined(program.pid), "on one CPU")
        assert rig.stop() == 0
        assert not second.children()
    finally:
        program.kill()
        second.close()


class Launched:
    """A real OpenMP program under vscaf-run, joined to the rig's agent."""

    def __init__(self, rig: Rig, kind: str, **environment: str) -> None:
        launcher = BUILD / "guest-libgomp" / "vscaf-run"
        shim = BUILD / "guest-libgomp" / "libvscaf-gomp.so"
        self.process = subprocess.Popen(
            [launcher, BUILD / "guest-agent" / "rigid-program", kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "VSCAF_SOCKET": str(rig.socket_path),
                "VSCAF_GOMP_LIBRARY": str(shim),
                "OMP_NUM_THREADS": "2",
                # For a build with a sanitizer: the shim is loaded before the sanitizer's runtime.
                "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0:detect_stack_use_after_return=0",
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


@pytest.mark.parametrize(("kind", "environment"), [("set", {}), ("plain", {"VSCAF_MALLEABLE": "rigid"}), ("long", {})])
@pytest.mark.parametrize("way", ["auto", "affinity"])
def test_a_real_program(pair: Rig, kind: str, environment: dict[str, str], way: str) -> None:
    """Two threads next to a malleable program on two CPUs: on one CPU, and on both when the malleable one has ended."""
    pair.start("--standalone", "--contain", way)
    rigid_one = Launched(pair, kind, **environment)
    other = None
    try:
        wait_until(lambda: len(allowed(rigid_one.pid)) == 2, "its two threads")
        before = allowed(rigid_one.pid)
        other = Launched(pair, "plain")
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
