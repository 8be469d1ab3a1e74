"""Members that are processes of this machine: how they are arranged, ended and watched. All processes are real."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from bench_places import plain_place
from vscaf.bench.executions import Member, execute
from vscaf.bench.places import no_vm
from vscaf.bench.places.no_vm import AGENT_POLICIES, NoVmPlace, no_vm_place
from vscaf.bench.places.place import PlaceError
from vscaf.bench.workloads.workload import Workload
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.processes import start_time

CPUS = sorted(os.sched_getaffinity(0))
BUILD = Path(os.environ.get("VSCAF_BUILD", "build/meson")).resolve()
TELL = "echo $(taskset -pc $$ | sed 's/.*: //') $OMP_NUM_THREADS-$OMP_PROC_BIND-$OMP_PLACES $OMP_WAIT_POLICY"
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


@pytest.fixture
def place(tmp_path):
    with no_vm_place(("first", "second"), [], (), 2, tmp_path) as found:
        yield found


def tell(place, environment=None):
    """What each member's program sees: its CPUs, and the settings of OpenMP."""
    return [place.start(one, TELL, environment or {}).wait(HANG_S).output.strip() for one in place.members]


def both():
    return f"{CPUS[0]},{CPUS[1]}" if CPUS[1] != CPUS[0] + 1 else f"{CPUS[0]}-{CPUS[1]}", f"{CPUS[0]},{CPUS[1]}"


def test_programs_share_the_first_cpus_and_do_not_get_this_process_settings(place, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OMP_PLACES", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "VSCAF_SOCKET"):
        monkeypatch.setenv(name, "1")
    with place.arrange("unmanaged", (1, 1)) as arranged:
        assert (arranged.launcher, list(arranged.helpers), arranged.transitions()) == ("", [], 0)
        for line in tell(place):
            assert line.split()[0] in both() and line.split()[1] == "--"
        ended = place.start("first", "env", {"OMP_NUM_THREADS": "7"}).wait(HANG_S)
    assert "OMP_NUM_THREADS=7" in ended.output and "GOMP" not in ended.output and "VSCAF_SOCKET" not in ended.output


def test_pinned_is_a_thread_on_each_cpu(place):
    with place.arrange("pinned", (1, 1)):
        assert {line.split()[1] for line in tell(place)} == {f"-true-{{{CPUS[0]}}},{{{CPUS[1]}}}"}


def test_passive_is_threads_that_sleep_while_they_wait(place):
    before = tell(place)
    with place.arrange("passive", (1, 1)):
        assert tell(place) == [f"{line} passive" for line in before]
        assert tell(place, {"OMP_WAIT_POLICY": "active"}) == [f"{line} active" for line in before]
    assert tell(place) == before


def test_static_is_own_cpus_and_as_many_threads(place):
    with place.arrange("static", (1, 1)):
        assert tell(place) == [f"{CPUS[0]} 1--", f"{CPUS[1]} 1--"]
        assert tell(place, {"OMP_NUM_THREADS": "2"})[0].split()[1] == "2--"
    assert all(line.split()[1] == "--" for line in tell(place))


def test_the_arrangement_ends_also_after_an_error(place):
    before = tell(place)
    with pytest.raises(RuntimeError), place.arrange("static", (1, 1)):
        raise RuntimeError
    assert tell(place) == before


@pytest.mark.parametrize("arrangement", ["passive", "pinned", "static"])
def test_the_commands_of_a_baseline_do_what_the_place_does(place, arrangement):
    with place.arrange(arrangement, (1, 1)):
        seen = tell(place)
    commands = [line.replace("PROGRAM", f"sh -c {shlex.quote(TELL)}") for line in place.commands(arrangement, (1, 1))]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    assert [
        subprocess.run(["bash", "-c", line], check=True, capture_output=True, text=True, env=clean).stdout.strip()
        for line in commands
    ] == seen


def test_there_are_no_commands_for_unmanaged_and_policies(place):
    assert place.commands("unmanaged", (1, 1)) == place.commands("max-speedup", (1, 1)) == []


def test_the_commands_of_quota_make_a_group_for_each_program_or_the_error_says_why(place):
    try:
        lines = place.commands("quota", (1, 1))
    except PlaceError as error:
        assert "leave out" in str(error)
        return
    assert [line.split("/")[-1] for line in lines if line.startswith("mkdir ")] == ["vscaf-first", "vscaf-second"]
    assert sum("/vscaf-second/cgroup.procs taskset -c" in line for line in lines) == 1
    assert any("100000" in line and " > " in line for line in lines) and not any("virsh" in line for line in lines)


def test_quota_is_set_or_the_error_says_why(place):
    try:
        with place.arrange("quota", (1, 1)):
            seen = [place.start(one, "cat /proc/self/cgroup", {}).wait(HANG_S).output for one in place.members]
            assert all("/vscaf-bench-" in text for text in seen) and seen[0] != seen[1]
    except PlaceError as error:
        assert "quota" in str(error) and ("root" in str(error) or "leave out" in str(error))
        assert os.geteuid() != 0 or "leave out" in str(error) or "Read-only" in str(error)


def test_a_policy_that_only_the_daemon_has_is_refused_at_once(place, tmp_path):
    with pytest.raises(PlaceError, match=r"max-speedup-fitted.*max-speedup, equipartition"):
        place.arrange("max-speedup-fitted", (1, 1)).__enter__()
    with (
        pytest.raises(PlaceError, match=r"fair.*max-speedup, equipartition"),
        no_vm_place(("first", "second"), [], ("static", "fair"), 2, tmp_path),
    ):
        pass


def test_the_steal_governor_is_of_guests_alone(tmp_path):
    refused = pytest.raises(PlaceError, match="steal-governor is a driver of a guest's kernel")
    with refused, no_vm_place(("first",), [], ("unmanaged", "steal-governor"), 1, tmp_path):
        pass


def test_the_policies_are_those_of_the_agent():
    text = subprocess.run(
        [BUILD / "guest-agent" / "vscaf-agent", "--help"], check=True, capture_output=True, text=True
    ).stdout
    (line,) = [line for line in text.splitlines() if line.strip().startswith("--policy NAME")]
    assert line.split(";")[0].split(maxsplit=2)[2] == " or ".join(AGENT_POLICIES)


@pytest.mark.parametrize("policy", AGENT_POLICIES)
def test_under_a_policy_programs_join_an_agent(place, policy):
    with place.arrange(policy, (1, 1)) as arranged:
        (agent,) = arranged.helpers
        status = place.start("first", "vscaf-agent --status --json", {}).wait(HANG_S)
        assert f'"policy":"{policy}"' in status.output.replace(" ", "")
        done = place.start("second", f"{arranged.launcher}sh -c 'echo $LD_PRELOAD'", {}).wait(HANG_S)
        assert done.status == 0 and "vscaf-gomp" in done.output
    assert not Path(f"/proc/{agent}").exists()
    assert place.start("first", "echo [$VSCAF_SOCKET]", {}).wait(HANG_S).output == "[]\n"


def test_an_agent_that_does_not_start_is_said(place, tmp_path):
    other = tmp_path / "bin"
    other.mkdir()
    (other / "vscaf-agent").write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    (other / "vscaf-agent").chmod(0o755)
    (tmp_path / "more").mkdir()
    broken = NoVmPlace(("first",), CPUS[:1], tmp_path / "more", tmp_path / "logs", f"{other}:{os.environ['PATH']}")
    with pytest.raises(PlaceError, match="did not start"):
        broken.arrange("max-speedup", (1,)).__enter__()
    assert "out of order" in (tmp_path / "logs" / "agent-max-speedup-1.log").read_text()


def test_an_interruption_while_an_agent_starts_ends_it(tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    (tmp_path / "vscaf-agent").write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 1000\n")
    (tmp_path / "vscaf-agent").chmod(0o755)

    def interrupted(*_):
        until(lambda: pid.exists() and pid.read_text().strip())
        raise KeyboardInterrupt

    monkeypatch.setattr(no_vm, "until", interrupted)
    place = NoVmPlace(("first",), CPUS[:1], tmp_path, tmp_path / "logs", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KeyboardInterrupt):
        place.arrange("max-speedup", (1,)).__enter__()
    assert start_time(int(pid.read_text())) is None


def test_workloads_have_their_files(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho it ran\n")
    program.chmod(0o755)
    workload = Workload("it", "./bin/it", {"bin/it": program})
    with no_vm_place(("first",), [workload], (), 1, tmp_path) as place:
        assert place.start("first", workload.command, {}).wait(HANG_S).output == "it ran\n"


def test_a_shipped_workload_that_was_not_built_is_said(tmp_path):
    with (
        pytest.raises(PlaceError, match=r"xy.W.*make programs"),
        no_vm_place(("first",), [Workload("xy.W", "xy.W", npb=True)], (), 1, tmp_path),
    ):
        pass


def test_kill_ends_all_that_was_started(tmp_path):
    with plain_place(tmp_path) as place:
        started = place.start("first", "sleep 1000 & echo $! > child; wait", {})
        child = place.files / "child"
        until(lambda: child.exists() and child.read_text().strip())
        with pytest.raises(TimeoutError):
            started.wait(0.0)
        started.kill()
        assert started.wait(HANG_S).status == 128 + 9
        started.kill()  # once more: nothing happens
        until(lambda: start_time(int(child.read_text())) is None)


def test_what_a_program_leaves_behind_is_ended(tmp_path):
    with plain_place(tmp_path) as place:
        ended = place.start("first", "sleep 1000 & echo $!", {}).wait(HANG_S)
        assert ended.status == 0
        until(lambda: start_time(int(ended.output)) is None)


def test_output_and_errors_come_together_and_in_pieces(tmp_path):
    with plain_place(tmp_path) as place:
        started = place.start("first", "echo one >&2; until [ -e go ]; do sleep 0.01; done; echo two; exit 4", {})
        until(lambda: "one" in started._output.text())
        (place.files / "go").touch()
        ended = started.wait(HANG_S)
    assert (ended.status, ended.output) == (4, "one\ntwo\n")
    assert "".join(text for _, text in ended.pieces) == ended.output and len(ended.pieces) >= 2
    assert [at_s for at_s, _ in ended.pieces] == sorted(at_s for at_s, _ in ended.pieces)


def test_short_programs_of_the_loop_are_watched(place):
    """Their CPU time is that of the members and not that of others, although most end before they are ever read."""
    burn = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"
    cpu_s = []
    with place.arrange("unmanaged", (1, 1)), place.watch([]) as watch:
        end = watch.end
        watch.end = lambda pid, used_s: (cpu_s.append(used_s), end(pid, used_s))
        done = execute(place, [Member(one, Workload("it", burn), burn, {}, 0.0) for one in place.members], 0.5)
        meters = watch._pace.pids
    assert len(cpu_s) >= sum(len(one) for one in done) >= 2
    watched = watch.watched()
    first, last = watched.readings[0], watched.readings[-1]
    known_s = sum(cpu_s) - 1e-6  # the watch adds the same numbers in another order
    assert len(meters) == 2 and last.run_s - first.run_s >= known_s > 0
    assert last.bench_s - first.bench_s >= known_s
    both = (done[0][0].start_s, done[0][-1].end_s)
    assert watched.steady("first", *both, 1e6) > 0 and watched.load(*both).run_s > 0
