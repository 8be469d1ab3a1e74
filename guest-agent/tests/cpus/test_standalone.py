"""The agent without a host: the CPUs that it may hand out, and the policy that it uses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import NPB, SOMEBODY, SOMEBODY_ELSE, Machine, Status, ask, end, user_of
from rig import AGENT, DEADLINE_S, Program, Rig, listens, replace, wait_for_log, wait_until

ROOT = os.geteuid() == 0
LEARN = 1


@pytest.fixture
def machine(rig: Rig) -> Iterator[Machine]:
    """Used next to the rig, which then only provides its directory."""
    if not (NPB / "cg.S").exists():
        pytest.skip(f"there is no {NPB}: build the C parts (make programs)")
    directory = rig.directory / "machine"
    directory.mkdir()
    rig.directory.chmod(0o755)
    machine = Machine(directory)
    try:
        yield machine
    finally:
        machine.close()


def two_busy(rig: Rig) -> tuple[Program, Program]:
    """Two programs: one speeds up by 3.5 on four CPUs, the other hardly at all."""
    first, second = rig.join(), rig.join()
    assert (first.greeting, second.greeting) == ("joined", "joined")
    for program, speedup in ((first, 3_500_000), (second, 1_050_000)):
        program.say("busy 1")
        program.say(f"estimate 0 4 {speedup} 20000 30")
    return first, second


def teams(first: Program, second: Program) -> tuple[int, int]:
    return first.team(), second.team()


def confine(rig: Rig, cpus: str) -> None:
    """Writes what the kernel would report of the agent's affinity and cpuset."""
    directory = rig.proc / "self"
    directory.mkdir(exist_ok=True)
    replace(directory / "status", f"Name:\tvscaf-agent\nCpus_allowed:\tf\nCpus_allowed_list:\t{cpus}\n")


def test_hands_out_the_cpus_it_may_run_on(rig: Rig) -> None:
    confine(rig, "1-2")
    rig.start("--standalone")
    program = rig.join()
    program.say("busy 1")
    wait_until(lambda: (program.team(), program.team_limit()) == (2, 2), "two of four CPUs")
    confine(rig, "0-63")
    wait_until(lambda: (program.team(), program.team_limit()) == (4, 4), "all, when the cpuset has grown")


def test_affinity_that_names_no_cpu_that_is_online_confines_nothing(rig: Rig) -> None:
    confine(rig, "70-71")
    rig.start("--standalone")
    program = rig.join()
    wait_until(lambda: program.team() == 4, "all CPUs")


def mount(rig: Rig, kind: str, options: str, group: str, root: str = "/") -> Path:
    """A cgroup file system, as the agent sees it. Returns its directory, which has a blank in its name."""
    point = rig.directory / "cg roup"
    point.mkdir()
    own = rig.proc / "self"
    own.mkdir(exist_ok=True)
    escaped = str(point).replace(" ", "\\040")
    (own / "mountinfo").write_text(
        "21 1 0:19 / /proc rw,nosuid - proc proc rw\n"
        f"30 21 0:26 {root} {escaped} rw,nosuid shared:4 master:1 - {kind} cgroup {options}\n"
    )
    controllers = "" if kind == "cgroup2" else "cpu,cpuacct"
    (own / "cgroup").write_text(f"12:cpuset:/elsewhere\n3:{controllers}:{group}\n")
    return point


@pytest.mark.parametrize(
    ("outer", "inner", "cpus"),
    [
        ("max 100000", "150000 100000", 1),
        ("max 100000", "250000 100000", 2),
        ("300000 100000", "max 100000", 3),
        ("200000 100000", "350000 100000", 2),
        ("max 100000", "1000 100000", 1),
        ("max 100000", "max 100000", 4),
        ("max 100000", "900000 100000", 4),
        ("max 100000", "-7 0", 4),
        ("max 100000", "", 4),
    ],
)
def test_quota_of_control_groups(rig: Rig, outer: str, inner: str, cpus: int) -> None:
    point = mount(rig, "cgroup2", "rw,nsdelegate", "/slice/box")
    (point / "slice" / "box").mkdir(parents=True)
    (point / "slice" / "cpu.max").write_text(outer + "\n")
    (point / "slice" / "box" / "cpu.max").write_text(inner + "\n")
    rig.start("--standalone")
    program = rig.join()
    wait_until(lambda: program.team() == cpus, f"{cpus} CPUs")
    assert program.team_limit() == cpus
    replace(point / "slice" / "box" / "cpu.max", "100000 100000\n")
    wait_until(lambda: program.team() == 1, "the new quota")


@pytest.mark.parametrize(("root", "group"), [("/", "/docker/1234"), ("/docker/1234", "/docker/1234"), ("/a", "/b")])
def test_quota_of_the_first_version(rig: Rig, root: str, group: str) -> None:
    """Mounted are: the complete hierarchy, only the container's part, or a part without the group."""
    point = mount(rig, "cgroup", "rw,cpu,cpuacct", group, root)
    inner = point / group.lstrip("/") if root == "/" else point
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "cpu.cfs_quota_us").write_text("200000\n")
    (inner / "cpu.cfs_period_us").write_text("100000\n")
    rig.start("--standalone")
    program = rig.join()
    program.say("busy 1")
    wait_until(lambda: program.team() == 2, "two CPUs")
    replace(inner / "cpu.cfs_quota_us", "-1\n")
    wait_until(lambda: program.team() == 4, "no quota")


def test_never_more_than_max_threads(rig: Rig) -> None:
    rig.start("--standalone", "--max-threads", "3")
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == (2, 1), "three together")
    assert first.team_limit() == 3
    second.kill()
    wait_until(lambda: first.team() == 3, "three for one")


def test_max_threads_holds_in_a_guest_too(rig: Rig) -> None:
    rig.start("--max-threads", "3")
    program = rig.join()
    program.say("busy 1")
    rig.ack(rig.allocate(4))
    wait_until(lambda: (program.team(), program.team_limit()) == (3, 3), "three of the four that the host gives")


def test_threads_of_the_environment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2,4")
    rig.start("--standalone")
    program = rig.join()
    wait_until(lambda: program.team() == 2, "as many as OMP_NUM_THREADS says")
    wait_for_log(rig, "OMP_NUM_THREADS")
    program.kill()
    rig.programs.clear()
    assert rig.stop() == 0
    rig.start("--standalone", "--max-threads", "3")
    program = rig.join()
    wait_until(lambda: program.team() == 3, "the number of the option, not of the environment")


def test_threads_of_the_environment_are_nothing_to_a_guest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    rig.start()
    program = rig.join()
    wait_until(lambda: program.team() == 4, "all CPUs")


def test_policies_and_the_signals_that_change_them(rig: Rig) -> None:
    rig.start("--standalone")
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == (3, 1), "the larger team for the program that speeds up")
    assert rig.process is not None
    rig.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: teams(first, second) == (2, 2), "equal shares after SIGUSR1")
    rig.process.send_signal(signal.SIGUSR1)
    wait_for_log(rig, "policy equipartition from now on")
    rig.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: teams(first, second) == (3, 1), "max-speedup after SIGUSR2")


def test_equipartition_learns_nothing_where_nobody_asks(rig: Rig) -> None:
    rig.start("--standalone", "--policy", "equipartition")
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == (2, 2), "equal shares")
    assert first.control()[0] & LEARN == 0
    assert rig.process is not None
    rig.process.send_signal(signal.SIGUSR2)
    wait_until(lambda: first.control()[0] & LEARN, "permission to learn with max-speedup")


def test_equipartition_in_a_guest_still_learns_for_the_host(rig: Rig) -> None:
    rig.start("--policy", "equipartition")
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == (2, 2), "equal shares")
    wait_until(lambda: first.control()[0] & LEARN, "permission to learn")


def siblings(rig: Rig, *groups: str) -> None:
    for group in groups:
        low, _, high = group.partition("-")
        for cpu in range(int(low), int(high or low) + 1):
            directory = rig.cpus / f"cpu{cpu}" / "topology"
            directory.mkdir()
            (directory / "thread_siblings_list").write_text(f"{group}\n")


@pytest.mark.parametrize(
    ("groups", "options", "expected"),
    [
        (("0-1", "2-3"), (), (2, 2)),
        (("0-1", "2-3"), ("--chunk", "1"), (3, 1)),
        (("0-1", "2", "3"), (), (3, 1)),
        (("0", "1", "2", "3"), ("--chunk", "2"), (2, 2)),
        (("0", "1", "2", "3"), (), (3, 1)),
        ((), (), (3, 1)),
    ],
)
def test_chunks(rig: Rig, groups: tuple[str, ...], options: tuple[str, ...], expected: tuple[int, int]) -> None:
    siblings(rig, *groups)
    rig.start("--standalone", *options)
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == expected, f"{expected} with the cores {groups}")
    beat = first.beat()
    # The agent looks at the cores once a second. A program that gets no CPU for a while passes for idle and lends CPUs.
    while expected == (2, 2) and first.beat() < beat + 30:
        assert all(team % 2 == 0 for team in teams(first, second))


def test_half_cores_are_no_chunks(rig: Rig) -> None:
    """A container that has one thread of each core: handing CPUs out in pairs gains nothing there."""
    siblings(rig, "0-1", "2-3")
    confine(rig, "0,2")
    rig.start("--standalone")
    first, second = two_busy(rig)
    wait_until(lambda: teams(first, second) == (1, 1), "one each")
    second.kill()
    wait_until(lambda: first.team() == 2, "both")
    confine(rig, "0,2-3")
    wait_until(lambda: rig.join().team_limit() == 3, "one core and a half")
    wait_until(lambda: status_of(rig)["chunk"] == 1 and status_of(rig)["cpus"]["mine"] == 3, "no chunks")


def status_of(rig: Rig) -> Status:
    return ask(rig.socket_path)


def keep_busy(rig: Rig, loads: dict[int, float]) -> None:
    """Writes /proc/stat as if these CPUs had always had these loads."""
    ticks = {cpu: int(loads.get(cpu, 0.0) * time.monotonic() * 100) for cpu in range(4)}
    rows = [f"cpu{cpu} {busy} 0 0 5000 0 0 0 0 0 0\n" for cpu, busy in ticks.items()]
    text = f"cpu  {sum(ticks.values())} 0 0 20000 0 0 0 0 0 0\n{''.join(rows)}procs_running 9\n"
    replace(rig.proc / "stat", text)


def test_background_load_is_that_of_the_agents_own_cpus(rig: Rig) -> None:
    confine(rig, "1-2")
    keep_busy(rig, {0: 1.0, 3: 1.0})
    rig.start("--standalone")

    def background(loads: dict[int, float]) -> float:
        keep_busy(rig, loads)
        return float(status_of(rig)["cpus"]["background"])

    observer = rig.join()  # idle: shows the agent's periods
    while observer.beat() < 40:
        assert background({0: 1.0, 3: 1.0}) < 0.3, "the load of CPUs that the agent may not use does not count"
    wait_until(lambda: background({0: 1.0, 1: 1.0}) > 0.7, "load on a CPU of its own")
    wait_until(lambda: background({0: 1.0, 1: 1.0}) > 0.7 and handed_out(rig) == 1, "one CPU left to it")


def handed_out(rig: Rig) -> int:
    return int(status_of(rig)["cpus"]["handed_out"])


def test_background_load_is_not_taken_from_the_bound(rig: Rig) -> None:
    keep_busy(rig, {0: 1.0, 1: 0.9})
    rig.start("--standalone", "--max-threads", "2")

    def handed_out_under_load() -> int:
        keep_busy(rig, {0: 1.0, 1: 0.9})
        status = status_of(rig)
        known = 1.7 < status["cpus"]["background"] < 2.2  # it varies when this test gets no CPU for a while
        return int(status["cpus"]["handed_out"]) if known else 0

    wait_until(lambda: handed_out_under_load() > 0, "the load of two CPUs")
    assert handed_out_under_load() in {0, 2}, "four CPUs less the load, not the bound of two less the load"
    rig.stop()
    keep_busy(rig, {0: 1.0, 1: 0.9})
    rig.start("--standalone", "--no-background")
    program = rig.join()
    program.say("busy 1")
    beat = program.beat()
    while program.beat() < beat + 40:
        keep_busy(rig, {0: 1.0, 1: 0.9})
        assert handed_out(rig) == 4
    wait_until(lambda: program.team() == 4, "all CPUs with --no-background")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "best"], ["--policy best", "equipartition"]),
        (["--chunk", "0"], ["--chunk 0", "auto"]),
        (["--chunk", "2.5"], ["--chunk 2.5", "auto"]),
        (["--max-threads", "none"], ["--max-threads none"]),
        (["--max-threads", "99999"], ["--max-threads 99999"]),
        (["--status", "0.01"], ["--status 0.01", "0.5"]),
        (["--status", "1", "2"], ["2: the agent takes no arguments"]),
        (["--json"], ["--json", "--status"]),
        (["--standalone", "--port", "/dev/x"], ["--port /dev/x", "--standalone"]),
    ],
)
def test_usage_errors(arguments: list[str], words: list[str]) -> None:
    result = subprocess.run([AGENT, *arguments], check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words)


# Real programs on this machine.


def finished(program: subprocess.Popen[str]) -> str:
    text, _ = program.communicate(timeout=10 * DEADLINE_S)
    assert program.returncode == 0 and "SUCCESSFUL" in text and "UNSUCCESSFUL" not in text, text
    return text


def shares(machine: Machine) -> dict[int, int]:
    return {one["pid"]: one["threads"] for one in machine.status()["processes"] if one["running"]}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_two_real_programs(machine: Machine) -> None:
    cpus = len(os.sched_getaffinity(0))
    agent = machine.start("--no-background")
    one = machine.run("cg.S", NPB_REPEAT="10000")
    wait_until(lambda: shares(machine) == {one.pid: cpus}, "all CPUs for one program")
    two = machine.run("cg.S", NPB_REPEAT="10000")
    seen: list[dict[int, int]] = []

    def both() -> bool:
        seen.append(shares(machine))
        return seen[-1].keys() == {one.pid, two.pid}

    wait_until(both, "both in the table")
    assert all(sum(row.values()) <= max(cpus, len(row)) for row in seen), seen
    agent.send_signal(signal.SIGUSR1)
    wait_until(
        lambda: both() and max(seen[-1].values()) - min(seen[-1].values()) <= cpus % 2, "equal shares after SIGUSR1"
    )
    status = machine.status()
    assert (status["policy"], status["mode"], status["joined"]) == ("equipartition", "standalone", 2)
    assert [row["name"] for row in status["processes"]] == ["cg.S", "cg.S"]
    one.kill()
    wait_until(lambda: both() or seen[-1] == {two.pid: cpus}, "all CPUs for the one that is left")


def test_real_programs_compute_right(machine: Machine) -> None:
    machine.start("--no-background")
    programs = [machine.run(name, NPB_REPEAT="20") for name in ("cg.S", "cg.S", "mg.S")]
    for program in programs:
        finished(program)
    wait_until(lambda: machine.status()["joined"] == 0, "the last program to leave")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_agent_that_is_confined_hands_out_one(machine: Machine) -> None:
    first = min(os.sched_getaffinity(0))
    machine.start("--no-background", prefix=("taskset", "-c", str(first)))
    program = machine.run("cg.S", NPB_REPEAT="10000")
    wait_until(lambda: shares(machine) == {program.pid: 1}, "its one CPU")
    assert machine.status()["cpus"]["mine"] == 1
    assert machine.process is not None
    os.sched_setaffinity(machine.process.pid, os.sched_getaffinity(0))
    wait_until(lambda: machine.status()["cpus"]["mine"] == len(os.sched_getaffinity(0)), "the CPUs that it may use now")
    # The first program was told one thread, so it keeps one.
    later = machine.run("cg.S", NPB_REPEAT="10000")
    wait_until(lambda: later.pid in shares(machine), "a second program")
    end(program)
    wait_until(lambda: shares(machine) == {later.pid: len(os.sched_getaffinity(0))}, "all CPUs for the second program")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_program_that_is_confined_gets_no_more_threads_than_cpus(machine: Machine) -> None:
    cpus = os.sched_getaffinity(0)
    machine.start("--no-background")
    program = machine.run("cg.S", prefix=("taskset", "-c", str(min(cpus))), NPB_REPEAT="10000")
    wait_until(lambda: shares(machine) == {program.pid: 1}, "one thread for one CPU")
    for thread in (int(entry.name) for entry in Path(f"/proc/{program.pid}/task").iterdir()):
        os.sched_setaffinity(thread, cpus)
    wait_until(lambda: shares(machine) == {program.pid: len(cpus)}, "all CPUs, now that it may use them")


@pytest.mark.skipif(not ROOT, reason="needs root, to run as other users")
def test_for_a_user_without_privileges(machine: Machine) -> None:
    """Agent, programs and status use the same default path without any option."""
    runtime = machine.directory / "runtime"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, SOMEBODY, SOMEBODY)
    place = {"XDG_RUNTIME_DIR": str(runtime)}
    machine.socket_path = None
    machine.start("--no-background", user=SOMEBODY, **place)
    wait_until(lambda: listens(runtime / "vscaf" / "agent.sock"), "the user's own socket")
    assert (runtime / "vscaf").stat().st_mode & 0o077 == 0
    program = machine.run("cg.S", user=SOMEBODY, NPB_REPEAT="10000", **place)
    wait_until(
        lambda: program.pid in [row["pid"] for row in machine.status(user=SOMEBODY, **place)["processes"]],
        "the program in the user's table",
    )
    cpus = len(os.sched_getaffinity(0))
    wait_until(
        lambda: [row["threads"] for row in machine.status(user=SOMEBODY, **place)["processes"]] == [cpus],
        "all CPUs",
    )


@pytest.mark.skipif(not ROOT, reason="needs root, to run as other users")
def test_a_place_that_is_not_the_users_alone_is_refused(machine: Machine) -> None:
    runtime = machine.directory / "runtime"
    runtime.mkdir()
    (runtime / "vscaf").mkdir(mode=0o700)  # root's
    runtime.chmod(0o777)
    result = subprocess.run(
        [machine.bin / "vscaf-agent", "--standalone"],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        **user_of(SOMEBODY),
    )
    assert result.returncode == 1 and "only this user can access" in result.stderr and "--socket" in result.stderr


@pytest.mark.skipif(not ROOT, reason="needs root, to run as other users")
def test_programs_do_not_join_somebody_elses_agent_at_the_users_place(machine: Machine) -> None:
    runtime = machine.directory / "runtime"
    runtime.mkdir()
    runtime.chmod(0o1777)
    place = {"XDG_RUNTIME_DIR": str(runtime)}
    agent = runtime / "vscaf" / "agent.sock"
    machine.socket_path = agent
    machine.start("--no-background", "--log-level", "debug", user=SOMEBODY_ELSE)
    machine.socket_path = None
    for user, joined in ((SOMEBODY_ELSE, 1), (SOMEBODY, 0)):
        # On a busy machine a second thread that spins would take very long. One thread looks for an agent as well.
        amount = {"NPB_REPEAT": "10000"} if joined else {"NPB_REPEAT": "100", "OMP_NUM_THREADS": "1"}
        program = machine.run("cg.S", user=user, **amount, **place)
        if joined:
            wait_until(lambda: ask(agent)["joined"] == 1, "the agent's own user to join")
            wait_until(lambda pid=program.pid: f"process {pid} " in machine.log.read_text(), "the join in the log")
        else:
            finished(program)  # it looks for an agent when it starts, and once a second
            assert f"process {program.pid} " not in machine.log.read_text(), "it has joined"
        end(program)
        wait_until(lambda: ask(agent)["joined"] == 0, "the program to leave")


def used_s(pid: int) -> float:
    """CPU time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speedup_known(machine: Machine, pid: int) -> bool:
    """Not counting a guess from one team size, which costs the program nothing."""
    rows = [row for row in machine.status()["processes"] if row["pid"] == pid]
    return any(row["speedup"]["measured"] for row in rows if "speedup" in row)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_words_of_scafs_programs(machine: Machine) -> None:
    """A program that runs alone learns only with SCAF_LAZY_EXPERIMENTS=0, and never with SCAF_DISABLE_EXPERIMENTS."""
    machine.start("--no-background", "--learn-budget", "20")
    eager = machine.run("cg.S", NPB_REPEAT="10000", SCAF_LAZY_EXPERIMENTS="0")
    wait_until(lambda: eager.pid in shares(machine), "the eager program")
    wait_until(lambda: speedup_known(machine, eager.pid), "speedup without competition")
    took_s = used_s(eager.pid)
    end(eager)
    for name, words in {
        "cg-disabled": {"SCAF_LAZY_EXPERIMENTS": "0", "SCAF_DISABLE_EXPERIMENTS": "1"},
        "cg-lazy": {},
    }.items():
        # Another program: the agent remembers the speedup of cg.S.
        shutil.copy(machine.bin / "cg.S", machine.bin / name)
        program = machine.run(name, NPB_REPEAT="10000", **words)
        wait_until(lambda program=program: program.pid in shares(machine), "a program that learns nothing")
        while used_s(program.pid) < took_s:  # as much CPU time as the eager program needed
            assert not speedup_known(machine, program.pid), words
            time.sleep(0.1)
        end(program)
