"""`vscaf bench --existing` on libvirt's test driver: the domains and their pins are real, and each call may be made to
fail. The driver has no guests, so a guest's commands run in a shell of this machine, with files for its CPUs."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import libvirt
import msgspec
import pytest
from vscaf.bench.executions import Member, execute
from vscaf.bench.places import domains
from vscaf.bench.places.domains import Managed, not_settled, switch_lines
from vscaf.bench.places.existing import (
    FoundFile,
    Site,
    check_agent,
    guest_agent_channel,
    guests_of,
    pool_of,
)
from vscaf.bench.places.guest_agent import GuestAgent
from vscaf.bench.places.place import PlaceError
from vscaf.bench.places.ssh import Ssh
from vscaf.bench.workloads.workload import Workload
from vscaf.errors import UsageError, VscafError
from vscaf.lab.daemon import DaemonProcess
from vscaf.lab.processes import start_time

from .bench_guests import FOUND, IN_GUEST, LIVE, Bench, ShellGuest
from .hosts import ONLINE


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    assert found.as_found()
    return found


@pytest.mark.parametrize(
    ("arrangement", "pins", "online"),
    [
        ("unmanaged", {"a": [{0, 2}] * 2, "b": [{0, 2}] * 3}, IN_GUEST),
        ("pinned", {"a": [{0}, {2}], "b": [{0}, {2}, {0}]}, IN_GUEST),
        ("static", {"a": [{0}] * 2, "b": [{2}] * 3}, {"a": {0}, "b": {0}}),
    ],
)
def test_a_baseline_is_set_and_all_is_put_back(
    bench: Bench, arrangement: str, pins: dict[str, list[set[int]]], online: dict[str, set[int]]
) -> None:
    with bench.place() as place:
        with place.arrange(arrangement, (1, 1)) as arranged:
            assert (arranged.launcher, arranged.transitions()) == ("", 0)
            assert {name: bench.pins(name) for name in FOUND} == pins
            assert {name: guest.now_online() for name, guest in bench.guests.items()} == online
        assert bench.pins("a") == [{0, 2}] * 2 and bench.guests["a"].now_online() == IN_GUEST["a"]
    assert bench.as_found()
    assert not (bench.output / "found.json").exists()
    assert all(guest.closed for guest in bench.guests.values())


def test_under_passive_the_programs_of_each_guest_wait_passively_and_those_of_other_arrangements_do_not(
    bench: Bench,
) -> None:
    def policies(**environment: str) -> list[str]:
        some = (place.start(name, "echo $OMP_WAIT_POLICY", environment) for name in ("a", "b"))
        return [one.wait(10).output.strip() for one in some]

    with bench.place() as place:
        with place.arrange("passive", (1, 1)):
            assert {name: bench.pins(name) for name in FOUND} == {"a": [{0, 2}] * 2, "b": [{0, 2}] * 3}
            assert policies() == ["passive", "passive"]
            assert policies(OMP_WAIT_POLICY="active") == ["active", "active"]
        for arrangement in ("unmanaged", "static"):
            with place.arrange(arrangement, (1, 1)):
                assert policies() == ["", ""]
        with suppress(ZeroDivisionError), place.arrange("passive", (1, 1)):
            raise ZeroDivisionError
        assert policies() == ["", ""]


def test_the_commands_of_baselines_are_for_the_pool_and_the_vcpus_of_each_guest(bench: Bench) -> None:
    with bench.place() as place:
        assert place.commands("unmanaged", (1, 1)) == place.commands("equipartition", (1, 1)) == []
        assert place.commands("passive", (1, 1)) == [f"OMP_WAIT_POLICY=passive PROGRAM  # in {name}" for name in "ab"]
        assert place.commands("pinned", (1, 1)) == [
            *("virsh vcpupin a 0 0", "virsh vcpupin a 1 2"),
            *("virsh vcpupin b 0 0", "virsh vcpupin b 1 2", "virsh vcpupin b 2 0"),
        ]
        assert place.commands("static", (1, 1))[:3] == [
            "virsh setvcpus a 1 --guest",
            "virsh vcpupin a 0 0",
            "virsh vcpupin a 1 0",
        ]
        assert "vcpu_quota=33333" in place.commands("quota", (1, 1))[1]


def test_what_is_changed_is_on_disk_before_the_first_change(bench: Bench) -> None:
    seen = []

    def before_the_pin(*arguments: Any) -> tuple[Any, ...]:
        seen.append(msgspec.json.decode((bench.output / "found.json").read_bytes(), type=FoundFile))
        return arguments

    bench.faults.inject("pinVcpu", times=1, arguments=before_the_pin)
    with bench.place():
        pass
    (kept,) = seen
    assert sorted(found.pins[0] for found in kept.domains.values()) == ["0,2,4", "2"]
    assert {found.online for found in kept.domains.values()} == {"0-1"}


def test_all_is_put_back_after_an_error_in_the_bench(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match="in the bench"), bench.place() as place, place.arrange("static", (1, 1)):
        raise RuntimeError("in the bench")
    assert bench.as_found()


def run_through(bench: Bench) -> str:
    """A bench with two arrangements. Returns its error, if there is one."""
    try:
        with bench.place() as place:
            for arrangement in ("static", "pinned"):
                with place.arrange(arrangement, (1, 1)):
                    pass
    except VscafError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("pinVcpu", libvirt.VIR_ERR_OPERATION_FAILED),
        ("pinVcpu", libvirt.VIR_ERR_OPERATION_INVALID),
        ("pinVcpu", libvirt.VIR_ERR_RPC),
        ("getCPUMap", libvirt.VIR_ERR_RPC),
        ("XMLDesc", libvirt.VIR_ERR_INTERNAL_ERROR),
        ("vcpuPinInfo", libvirt.VIR_ERR_RPC),
        ("vcpusFlags", libvirt.VIR_ERR_OPERATION_INVALID),
        ("schedulerParametersFlags", libvirt.VIR_ERR_RPC),
        ("isActive", libvirt.VIR_ERR_RPC),
        ("lookupByName", libvirt.VIR_ERR_NO_DOMAIN),
    ],
)
def test_whichever_call_fails_all_is_put_back_or_the_error_says_what_is_not(
    tmp_path: Path, method: str, code: int
) -> None:
    reached = 0
    while True:
        (tmp_path / str(reached)).mkdir()
        bench = Bench(tmp_path / str(reached))
        fault = bench.faults.inject(method, skip=reached, error=code, message="made up")
        error = run_through(bench)
        if fault.hits == 0:
            break
        assert error
        bench.faults.clear()
        if "not everything could be put back" in error:
            assert "found.json keeps" in error and (bench.output / "found.json").exists()
            assert run_through(bench) == ""  # the next bench puts it back
        assert bench.as_found(), f"after call {reached} of {method} failed: {error}"
        assert not (bench.output / "found.json").exists()
        reached += 1
    assert reached > 0


def leave_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bench that puts nothing back, as one that is killed."""
    with monkeypatch.context() as killed:
        killed.setattr("vscaf.bench.places.existing.put_back", lambda *_: None)
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        assert run_through(bench) == ""
    assert not bench.as_found() and (bench.output / "found.json").exists()


def test_what_a_killed_bench_found_is_put_back_by_the_next(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_behind(bench, monkeypatch)
    assert run_through(bench) == ""
    assert bench.as_found() and not (bench.output / "found.json").exists()


def test_after_a_bench_that_was_killed_the_pool_is_that_of_what_it_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pool(output: Path | None) -> list[int]:
        return pool_of(bench.uri, ("a", "b"), None, bench.faults.open, output=output)

    leave_behind(bench, monkeypatch)
    assert (pool(None), pool(bench.output)) == ([0, 2], [0, 2, 4])
    assert run_through(bench) == "" and bench.as_found()
    assert pool(bench.output) == [0, 2, 4]


def test_samples_belong_to_guests_as_they_are(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def guests() -> list[str]:
        return guests_of(bench.uri, bench.channels(), bench.faults.open, output=bench.output)

    assert guests() == ["2 vCPUs, test, no vscaf-agent", "3 vCPUs, test, no vscaf-agent"]
    bench.guests["a"].install("vscaf-agent", 'echo "vscaf-agent 7 $1"')
    leave_behind(bench, monkeypatch)
    bench.faults.real.lookupByName("b").setVcpusFlags(2, LIVE)  # as the daemon of a bench that was killed
    assert guests() == ["2 vCPUs, test, vscaf-agent 7 --version", "3 vCPUs, test, no vscaf-agent"]
    assert all(guest.closed for guest in bench.guests.values())
    (bench.output / "found.json").unlink()
    assert guests()[1] == "2 vCPUs, test, no vscaf-agent"


def test_an_agent_that_a_killed_bench_has_stopped_is_started_for_policies(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest, status=f"[ -e {guest.directory / 'agent'} ]")
        as_a_service(guest)
    leave_behind(bench, monkeypatch)
    for guest in bench.guests.values():
        (guest.directory / "agent").unlink()
    with bench.place(("unmanaged", "equipartition")):
        assert all((guest.directory / "agent").exists() for guest in bench.guests.values())
    assert bench.as_found() and not (bench.output / "found.json").exists()


def test_what_was_found_of_other_domains_is_kept_for_their_next_bench(bench: Bench) -> None:
    path = bench.output / "found.json"
    with bench.place():
        seen = msgspec.json.decode(path.read_bytes(), type=FoundFile)
    other = next(iter(seen.domains.values()))
    earlier_run = f"{bench.faults.real.lookupByName('a').UUIDString()} 0"  # of a, and so over
    domains = {"00000000-0000-0000-0000-000000000000 7": other, earlier_run: other}
    path.write_bytes(msgspec.json.encode(FoundFile(seen.boot_id, domains)))
    assert run_through(bench) == "" and bench.as_found()
    left = msgspec.json.decode(path.read_bytes(), type=FoundFile)
    assert left == FoundFile(seen.boot_id, {"00000000-0000-0000-0000-000000000000 7": other})


def test_what_was_found_before_the_host_was_booted_is_over(bench: Bench) -> None:
    path = bench.output / "found.json"
    with bench.place():
        seen = msgspec.json.decode(path.read_bytes(), type=FoundFile)
    wrong = {key: msgspec.structs.replace(one, pins={0: "0", 1: "0"}) for key, one in seen.domains.items()}
    path.write_bytes(msgspec.json.encode(FoundFile("another", wrong)))
    assert run_through(bench) == "" and bench.as_found()


def test_what_was_found_before_a_domain_started_again_is_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_behind(bench, monkeypatch)
    domain = bench.faults.real.lookupByName("a")
    domain.destroy()
    domain.create()
    started_with = bench.pins("a")
    assert started_with != FOUND["a"]
    assert run_through(bench) == ""
    assert (bench.pins("a"), bench.pins("b")) == (started_with, FOUND["b"])


def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_changed(bench: Bench) -> None:
    bench.output.mkdir()
    (bench.output / "found.json").write_text("{")
    with pytest.raises(PlaceError, match=r"found.json cannot be read.*by hand"), bench.place():
        pass
    assert bench.as_found() and bench.faults.called["pinVcpu"] == 0


def test_quota_is_refused_where_libvirt_has_none(bench: Bench) -> None:
    with bench.place() as place, pytest.raises(PlaceError, match=r"guest a: its hypervisor has no CPU quota"):
        place.arrange("quota", (1, 1)).__enter__()
    assert bench.as_found()


def test_a_guest_that_may_not_switch_its_cpus_is_said(bench: Bench) -> None:
    with bench.place() as place:
        (bench.guests["b"].directory / "cpu1" / "online").unlink()
        (bench.guests["b"].directory / "cpu1" / "online").mkdir()
        with pytest.raises(PlaceError, match=r"guest b: its CPUs could not be switched.*as root"):
            place.arrange("static", (1, 1)).__enter__()
        (bench.guests["b"].directory / "cpu1" / "online").rmdir()
        (bench.guests["b"].directory / "cpu1" / "online").write_text("1\n")
    assert bench.as_found()


def test_cpus_that_are_as_wanted_are_not_switched(tmp_path: Path) -> None:
    guest = ShellGuest(tmp_path / "guest", 3, {0, 1})
    for cpu in (1, 2):
        (guest.directory / f"cpu{cpu}" / "online").chmod(0o400)
    assert guest.start(switch_lines((0, 1, 2), {0, 1})).wait(60).status == 0
    assert "cpu0/" not in guest.commands[-1]
    if os.geteuid() != 0:
        assert guest.start(switch_lines((0, 1, 2), {0})).wait(60).status == 1


# Programs and their files


def test_programs_run_in_their_guest_and_find_their_files(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho it ran on $OMP_NUM_THREADS\n")
    program.chmod(0o755)
    workload = Workload("it", "it && ./more/it", {"it": program, "more/it": program})
    with bench.place(workloads=(workload,)) as place:
        ended = place.start("b", workload.command, {"OMP_NUM_THREADS": "1 or 2"}).wait(60)
        assert (ended.status, ended.output) == (0, "it ran on 1 or 2\n" * 2)
        directory = place.start("b", "pwd", {}).wait(60).output.strip()
        members = [Member(name, workload, workload.command, {}, 0.0) for name in place.members]
        with place.arrange("static", (1, 1)):
            assert [len(one) for one in execute(place, members, 0.0)] == [1, 1]
    assert directory.startswith("/var/tmp/vscaf-bench-") and not Path(directory).exists()


def test_a_shipped_workload_is_copied_if_the_guest_has_it_not(bench: Bench) -> None:
    workload = Workload("cg.S", "cg.S", npb=True)
    with pytest.raises(PlaceError, match=r"guest a has no cg.S.*make programs"), bench.place(workloads=(workload,)):
        pass
    programs = bench.output / "no-programs"
    programs.mkdir(parents=True)
    (programs / "cg.S").write_text("#!/bin/sh\necho from the host\n")
    (programs / "cg.S").chmod(0o755)
    bench.guests["b"].install("cg.S", "echo from the guest")
    with bench.place(workloads=(workload,)) as place:
        outputs = [place.start(name, "cg.S", {}).wait(60).output for name in place.members]
    assert outputs == ["from the host\n", "from the guest\n"]


def test_progress_by_time_needs_a_channel_that_shows_output(bench: Bench) -> None:
    bench.guests["b"].shows_output = False
    timed = Workload("timed", "true", progress=re.compile(r"(\d+) (\d+)"), timed=True)
    with bench.place(workloads=(Workload("none", "true"), timed)):
        pass
    for guest in bench.guests.values():
        guest.commands.clear()
    bench.faults.called.clear()
    workload = Workload("it", "true", progress=re.compile(r"(\d+)"))
    with (
        pytest.raises(UsageError, match=r"it in guest b: progress needs output .*: give --ssh b=USER@HOST"),
        bench.place(workloads=(workload,)),
    ):
        pass
    assert not any(guest.commands for guest in bench.guests.values()) and bench.faults.called["pinVcpu"] == 0


def test_a_guest_agent_shows_no_output_while_a_command_runs() -> None:
    assert (GuestAgent.shows_output, Ssh.shows_output) == (False, True)


# Policies


def test_a_misspelled_policy_is_refused_before_anything_is_done(bench: Bench) -> None:
    with (
        pytest.raises(UsageError, match=r"'max-sppedup': choose .*equipartition.*max-speedup"),
        bench.place(("unmanaged", "max-sppedup")),
    ):
        pass
    assert not bench.faults.called and not any(guest.commands for guest in bench.guests.values())


def with_an_agent(guest: ShellGuest, check: str = "exit 0", status: str = "exit 0") -> None:
    guest.install("vscaf-run", 'exec "$@"')
    guest.install("vscaf-agent", f'case "$1" in --check) {check} ;; --status) {status} ;; esac')


def test_under_a_policy_a_daemon_of_its_own_runs(bench: Bench) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest)
    with bench.place(("unmanaged", "equipartition")) as place:
        with place.arrange("equipartition", (1, 1)) as arranged:
            (pid,) = arranged.helpers
            assert arranged.launcher == "vscaf-run " and arranged.transitions() >= 0
            assert b"daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert (bench.output / "state" / "lock").exists()
            assert bench.pins("a") == [{0, 2}] * 2  # this process's driver is not the daemon's
        assert start_time(pid) is None
        assert list((bench.output / "logs").glob("vscaf-equipartition-1.log"))
    assert bench.as_found()


def test_programs_start_when_the_daemon_has_carried_out_its_first_decision(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest)
    looked: list[Mapping[str, Any]] = []  # at the status, before programs may start
    monkeypatch.setattr(
        domains, "not_settled", lambda status, names: looked.append(status) or not_settled(status, names)
    )
    with bench.place(("equipartition",)) as place, place.arrange("equipartition", (1, 1)) as arranged:
        assert isinstance(arranged, Managed)
        status = looked[-1]
        assert status["managing"] is True and status["transitions"] >= 1
        # A domain whose CPU time the daemon does not know yet rests after the first decision.
        states = {one["name"]: one["state"] for one in status["domains"]}
        assert states.keys() == FOUND.keys() and set(states.values()) <= {"contained", "resting"}
        # The driver's domains look busy and have no agent. So each gets a partition, and its vCPUs float there.
        given = ("contained", 1)
        arranged.daemon.wait(lambda now: all((now[one]["state"], now[one]["allocation"]) == given for one in FOUND))


def as_a_service(guest: ShellGuest) -> None:
    """Gives the guest a systemctl whose only service is the agent; the file `agent` is there while it runs."""
    agent = guest.directory / "agent"
    agent.touch()
    guest.install(
        "systemctl",
        f'case "$*" in *is-active*) [ -e {agent} ] ;; "stop vscaf-agent") rm {agent} ;; '
        f'"start vscaf-agent") touch {agent} ;; *) exit 4 ;; esac',
    )


def test_an_agent_that_is_a_service_is_stopped_while_cpus_are_offline_by_hand(bench: Bench) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest)
        as_a_service(guest)

    def running() -> set[bool]:
        return {(guest.directory / "agent").exists() for guest in bench.guests.values()}

    with bench.place(("unmanaged", "static")) as place:
        with place.arrange("unmanaged", (1, 1)):
            assert running() == {True}
        with place.arrange("static", (1, 1)):
            assert running() == {False}
        with place.arrange("pinned", (1, 1)):
            assert running() == {True}
        with place.arrange("static", (1, 1)):
            pass
    assert running() == {True} and bench.as_found()


def test_static_is_refused_beside_an_agent_that_cannot_be_stopped(bench: Bench) -> None:
    with_an_agent(bench.guests["b"])
    with bench.place(("unmanaged", "pinned")):
        pass
    refused = pytest.raises(PlaceError, match=r"guest b: its vscaf agent would put CPUs online.*leave static out")
    with refused, bench.place(("unmanaged", "static")):
        pass
    assert bench.as_found()


def with_a_steal_governor(guest: ShellGuest, *, possible: bool = True) -> Path:
    """Gives the guest a kernel with the governor as a module. Returns what exists while that is loaded."""
    loaded = guest.directory / "module" / "steal_governor"
    loaded.parent.mkdir()
    guest.install(
        "modprobe",
        f'case "$*" in "--dry-run steal_governor") exit {int(not possible)} ;; "--remove steal_governor") '
        f"rmdir {loaded} ;; steal_governor) mkdir {loaded} ;; *) exit 9 ;; esac",
    )
    return loaded


def test_the_steal_governor_is_on_in_its_arrangement_alone(bench: Bench) -> None:
    loaded = [with_a_steal_governor(guest) for guest in bench.guests.values()]
    with bench.place(("unmanaged", "steal-governor")) as place:
        with place.arrange("steal-governor", (1, 1)):
            assert all(path.exists() for path in loaded)
        with place.arrange("unmanaged", (1, 1)):
            assert not any(path.exists() for path in loaded)
        with suppress(ZeroDivisionError), place.arrange("steal-governor", (1, 1)):
            raise ZeroDivisionError
        assert not any(path.exists() for path in loaded)
        assert "modprobe steal_governor  # in a" in place.commands("steal-governor", (1, 1))
    assert bench.as_found()


def test_the_steal_governor_is_refused_where_it_cannot_be_switched(bench: Bench) -> None:
    first, second = bench.guests.values()
    on = with_a_steal_governor(first)
    with_a_steal_governor(second, possible=False)
    refused = pytest.raises(PlaceError, match=r"guest b: its kernel has no steal governor.*leave steal-governor out")
    with refused, bench.place(("unmanaged", "steal-governor")):
        pass
    on.mkdir()
    refused = pytest.raises(PlaceError, match=r"guest a: its steal governor is on already")
    with refused, bench.place(("unmanaged", "steal-governor")):
        pass
    with bench.place(("unmanaged",)):
        pass
    assert on.exists() and bench.as_found()


@pytest.mark.parametrize(
    ("check", "status", "message"),
    [
        (None, "exit 0", r"guest b has no vscaf agent that works.*org\.vscaf\.agent\.0"),
        (
            "echo 'ok all'; echo 'missing  port: no port'; exit 1",
            "exit 0",
            r"guest b .*: missing  port: no port: install",
        ),
        ("exit 0", "exit 1", r"guest b: its vscaf agent does not run: systemctl"),
    ],
)
def test_a_guest_without_an_agent_is_refused_for_policies_alone(
    bench: Bench, check: str | None, status: str, message: str
) -> None:
    with_an_agent(bench.guests["a"])
    if check is not None:
        with_an_agent(bench.guests["b"], check, status)
    with bench.place(("unmanaged", "pinned")):
        pass
    with pytest.raises(PlaceError, match=message), bench.place(("unmanaged", "equipartition")):
        pass
    assert bench.as_found()


@pytest.mark.parametrize(
    ("ends_by", "raised", "said"),
    [
        (None, PlaceError, "^the daemon ended"),
        (KeyboardInterrupt(), PlaceError, "^interrupted; the daemon ended"),
        (RuntimeError("its own"), RuntimeError, "its own"),
    ],
)
def test_a_daemon_that_does_not_put_everything_back_is_said(
    bench: Bench, ends_by: BaseException | None, raised: type[Exception], said: str
) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest)
    with bench.place(("equipartition",)) as place:
        with pytest.raises(raised, match=said) as caught, place.arrange("equipartition", (1, 1)) as arranged:
            os.kill(arranged.helpers[0], signal.SIGKILL)
            if ends_by is not None:
                raise ends_by
        text = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert re.search(r"status -9.*vscaf-equipartition-1\.log; .*/state/journal\.json keeps what was found", text)
    assert bench.as_found()


def test_an_interruption_stays_one_if_the_daemon_puts_everything_back(bench: Bench) -> None:
    for guest in bench.guests.values():
        with_an_agent(guest)
    interrupted = pytest.raises(KeyboardInterrupt)
    with bench.place(("equipartition",)) as place, interrupted, place.arrange("equipartition", (1, 1)):
        raise KeyboardInterrupt
    assert bench.as_found()


def test_it_is_refused_beside_a_daemon(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    site = Site(bench.uri, tmp_path / "d", tmp_path / "d")
    with (
        DaemonProcess(site, "0,2", {"a": {}, "b": {}}, policy="equipartition") as daemon,
        pytest.raises(PlaceError, match=r"a vscaf daemon answers.*stop it"),
        bench.place(control_socket=daemon.control_socket),
    ):
        pass
    assert not bench.faults.called
    with bench.place(control_socket=daemon.control_socket):
        pass


def test_it_is_refused_beside_a_daemon_with_another_socket(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    site = Site(bench.uri, tmp_path / "d", tmp_path / "d")
    with (
        DaemonProcess(site, "0,2", {"a": {}, "b": {}}, policy="equipartition"),
        pytest.raises(UsageError, match="another vscaf daemon uses it: stop that one first"),
        bench.place(),
    ):
        pass
    assert not bench.faults.called


def test_no_other_bench_and_no_daemon_uses_the_domains_meanwhile(bench: Bench, tmp_path: Path) -> None:
    config = tmp_path / "vscaf.toml"
    config.write_text(
        f'uri = "{bench.uri}"\npool = "0,2"\nstate_directory = "{tmp_path}/state"\ncontrol_socket = "{tmp_path}/s"\n'
        "[domains.a]\n"
    )
    for guest in bench.guests.values():
        with_an_agent(guest)
    with bench.place(("pinned", "equipartition")) as place:
        with place.arrange("pinned", (1, 1)):
            used = bench.faults.called.copy()
            with pytest.raises(UsageError, match=rf"{bench.uri}: another vscaf bench \(pid {os.getpid()}\) uses it"):
                bench.place(output=tmp_path / "another").__enter__()
            assert bench.faults.called == used
            # By a shell, because a daemon that the bench itself starts is not refused.
            command = ["sh", "-c", f'"{sys.executable}" -m vscaf daemon --config "$0"; exit $?', str(config)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 2 and "another vscaf bench" in done.stderr, done.stderr
        with place.arrange("equipartition", (1, 1)) as arranged:
            assert arranged.helpers
    with bench.place(("pinned",)):
        pass


# What is refused


def test_the_pool_is_where_the_vcpus_may_run_unless_it_is_given(bench: Bench) -> None:
    def pool(text: str | None, *names: str) -> list[int]:
        return pool_of(bench.uri, names or ("a", "b"), text, bench.faults.open)

    assert pool(None) == sorted(ONLINE)
    assert pool("0,2") == [0, 2]
    bench.faults.real.lookupByName("a").pinVcpu(0, (True,) + (False,) * 7)
    bench.faults.real.lookupByName("a").pinVcpu(1, (False, True, True) + (False,) * 5)
    assert pool(None, "a") == [0, 2]  # CPU 1 is offline
    for text, message in (("1,2", "CPU 1 is not online"), ("0", "1 CPUs and there are 2"), ("x", "write it like")):
        with pytest.raises(UsageError, match=message):
            pool(text)


def test_a_domain_that_does_not_run_is_said(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"domain nobody: there is no such domain.*virsh list"):
        pool_of(bench.uri, ("a", "nobody"), None, bench.faults.open)
    bench.faults.real.lookupByName("a").destroy()
    with pytest.raises(UsageError, match=r"domain a does not run.*virsh start a"):
        pool_of(bench.uri, ("a", "b"), None, bench.faults.open)


@pytest.mark.parametrize(
    ("code", "message"),
    [(libvirt.VIR_ERR_AUTH_FAILED, "run this as root, or in the group libvirt"), (libvirt.VIR_ERR_NO_CONNECT, "--uri")],
)
def test_a_libvirt_that_cannot_be_reached_is_said(bench: Bench, code: int, message: str) -> None:
    bench.faults.inject("open", error=code)
    with pytest.raises(PlaceError, match=message), bench.place():
        pass


def test_a_domain_without_a_guest_agent_is_told_what_to_do(bench: Bench) -> None:
    with pytest.raises(PlaceError, match=r"guest a: its guest agent could not do guest-ping:.*give --ssh"):
        guest_agent_channel(bench.faults.real.lookupByName("a"))


def test_a_qemu_on_another_machine_is_said(bench: Bench) -> None:
    with bench.place() as place, pytest.raises(PlaceError, match=r"guest a: its QEMU does not run on this machine"):
        place.watch([])


def test_all_guests_are_checked_by_the_same_rules(bench: Bench) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(bench.place())
        for guest in bench.guests.values():
            with_an_agent(guest)
        for member in place._guests:
            check_agent(member)
