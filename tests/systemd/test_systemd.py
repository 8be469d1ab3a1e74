"""The agent as a service of a real systemd in a real guest (`make test-systemd`)."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt_qemu
import pytest
from image import SystemdGuest, build
from vscaf.lab import PrivateLibvirt
from vscaf.lab.polling import until

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VSCAF_BUILD", REPOSITORY / "build" / "meson"))
KERNEL = REPOSITORY / "build" / "image" / "kernel" / "current"
PATHS = "export PATH=/usr/local/sbin:/usr/local/bin:/usr/local/libexec/vscaf/npb:/usr/sbin:/usr/bin:/sbin:/bin; "
DEADLINE_S = 300.0
UNIT = "/usr/local/lib/systemd/system/vscaf-agent.service"


class Machine:
    """The guest, its agent's service, and the host's end of the agent's port."""

    def __init__(self, guest: SystemdGuest) -> None:
        self.guest = guest
        self.agent_socket = guest.agent_socket
        self.host: socket.socket | None = None
        self.received = b""
        self.sequence = 0

    def run(self, command: str, status: int | None = 0) -> str:
        """The command's output. AssertionError if its exit status is not `status` (None: any)."""
        result = self.guest.run(PATHS + command, DEADLINE_S)
        assert status in (None, result.status), f"`{command}` ended with {result.status}: {result.text}"
        return result.text.strip()

    def show(self, name: str) -> str:
        """A property of the service."""
        return self.run(f"systemctl show --value -p {name} vscaf-agent")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Polls until the condition holds."""
        until(condition, lambda: f"{what}; {self.journal()}", DEADLINE_S, poll_s=0.3)

    def journal(self) -> str:
        """The last 60 lines of the service's log."""
        return self.run("journalctl -u vscaf-agent -o cat --no-pager | tail -n 60")

    def connect(self) -> None:
        """Connects the host's end."""
        self.disconnect()
        self.host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.host.settimeout(DEADLINE_S)
        self.host.connect(str(self.agent_socket))
        self.received = b""

    def disconnect(self) -> None:
        """Closes the host's end."""
        if self.host is not None:
            self.host.close()
            self.host = None

    def message(self, kind: str, where: Callable[[dict[str, Any]], object] = lambda _: True) -> dict[str, Any]:
        """The agent's next message of this type for which `where` holds."""
        assert self.host is not None
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            while b"\n" not in self.received:
                data = self.host.recv(65536)
                assert data, "QEMU closed the channel"
                self.received += data
            line, self.received = self.received.split(b"\n", 1)
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # the rest of a line to an earlier host
            if found["type"] == kind and where(found):
                return found
        raise AssertionError(f"no such {kind} within {DEADLINE_S} s")

    def allocate(self, cpus: int) -> dict[str, Any]:
        """Announces an allocation. Returns the acknowledgement."""
        assert self.host is not None
        self.sequence += 1
        order = {"v": 1, "type": "allocate", "sequence": self.sequence, "cpus": cpus, "limit": 2, "competition": False}
        self.host.sendall(json.dumps({**order, "deadline_ms": 400}).encode() + b"\n")
        return self.message("ack", lambda message: message["sequence"] == self.sequence)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    image = build(REPOSITORY / "build" / "systemd", BUILD, KERNEL)
    logs = tmp_path_factory.mktemp("logs")
    with PrivateLibvirt(logs=logs, cache=REPOSITORY / "build" / "lab" / "cache") as lab:
        guest = SystemdGuest(lab, "service", image)
        try:
            guest.launch()
            guest.wait_ready(300)
            machine = Machine(guest)
            machine.until(lambda: machine.show("ActiveState") == "active", "the service is active")
            yield machine
        finally:
            guest.stop()


@pytest.fixture(autouse=True)
def no_host_stays(machine: Machine) -> Iterator[None]:
    yield
    machine.disconnect()


def test_it_is_active_when_it_says_so(machine: Machine) -> None:
    assert (machine.show("SubState"), machine.show("Type"), machine.show("NRestarts")) == ("running", "notify", "0")
    machine.until(lambda: machine.show("StatusText") == "no host yet; 2 of 2 CPUs for 0 programs", "the status line")
    assert machine.run("vscaf-agent --check").splitlines()[-1] == "Everything that is needed is there."
    assert machine.run(f"systemd-analyze verify --man=no {UNIT} 2>&1") == ""


def test_the_host_commands_and_programs_join(machine: Machine) -> None:
    machine.connect()
    assert machine.message("hello")["capabilities"] == ["offline", "quiet", "sparse"]
    program = machine.guest.start(PATHS + "while OMP_NUM_THREADS=2 vscaf-run cg.S > /dev/null; do :; done")
    try:
        report = machine.message("report", lambda message: message["processes"])
        assert report["processes"][0]["name"] == "cg.S"
        assert machine.allocate(1)["online"] == [0]
        assert machine.run("cat /sys/devices/system/cpu/online") == "0"
        assert machine.allocate(2)["online"] == [0, 1]
        assert machine.run("cat /sys/devices/system/cpu/online") == "0-1"
    finally:
        program.kill()
    machine.until(
        lambda: "allocation 2: 1 -> 2 CPUs, online 0 -> 0-1" in machine.journal(), "the change in the journal"
    )
    priorities = machine.run("journalctl -u vscaf-agent -p notice --no-pager -o cat")
    assert "the host is connected" in priorities and "allocation" not in priorities


def test_the_sandbox_leaves_what_it_needs_and_nothing_else(machine: Machine) -> None:
    probe = (Path(__file__).parent / "probe.sh").read_text()
    other = machine.run("setpriv --reuid 65534 --regid 65534 --clear-groups sleep 600 > /dev/null 2>&1 & echo $!")
    assert "'PROBE'" not in probe
    machine.run(f"cat > /run/probe.sh <<'PROBE'\n{probe}\nPROBE")
    machine.run(
        "sed -E -e 's/^Type=.*/Type=oneshot/; /^(WatchdogSec|Timeout|Restart|NotifyAccess|RuntimeDirectory)/d' "
        "-e 's/^ProtectSystem=strict/&\\nReadWritePaths=\\/run\\/vscaf/' "
        f"-e 's|^ExecStart=.*|ExecStart=/bin/bash /run/probe.sh {other}|' {UNIT} > /run/systemd/system/probe.service"
    )
    machine.run("systemctl daemon-reload; systemctl start probe")
    output = machine.run(f"kill {other}; journalctl -u probe -o cat --no-pager")
    may, must_not = output.split("must not:")
    refused = [line for line in may.split("may:")[1].splitlines() if line and not line.startswith("yes ")]
    allowed = [line for line in must_not.splitlines() if line.startswith("yes ")]
    assert not refused and not allowed, output
    assert may.count("yes ") == 13 and must_not.count("no ") >= 11, output


def test_a_port_on_a_new_controller_is_found(machine: Machine) -> None:
    """Its device number did not exist when the service started."""
    domain, path = machine.guest.domain, machine.guest.lab.socket_path("late.agent")
    domain.detachDevice(
        f"<channel type='unix'><source mode='bind' path='{machine.guest.agent_socket}'/>"
        "<target type='virtio' name='org.vscaf.agent.0'/></channel>"
    )
    machine.until(lambda: machine.run("ls /dev/virtio-ports") == "org.vscaf.lab.0", "the port is gone")
    machine.run("systemctl restart vscaf-agent")
    machine.until(lambda: "give the domain a channel named" in machine.journal(), "the agent misses its port")

    def tell_qemu(execute: str, **arguments: object) -> None:
        # libvirt cannot plug this controller into a running guest, so QEMU is told directly.
        answer = json.loads(
            libvirt_qemu.qemuMonitorCommand(domain, json.dumps({"execute": execute, "arguments": arguments}), 0)
        )
        assert "error" not in answer, answer

    address = {"type": "unix", "data": {"path": str(path)}}
    backend = {"type": "socket", "data": {"addr": address, "server": True, "wait": False}}
    tell_qemu("chardev-add", id="late", backend=backend)
    tell_qemu("device_add", driver="virtio-serial-pci", id="latebus")
    port = {"driver": "virtserialport", "bus": "latebus.0", "chardev": "late", "name": "org.vscaf.agent.0"}
    tell_qemu("device_add", id="lateport", **port)
    machine.agent_socket = path
    machine.connect()
    assert machine.message("hello")["agent"].startswith("vscaf-agent ")
    assert "vport0" not in machine.run("readlink /dev/virtio-ports/org.vscaf.agent.0")


def test_killed_it_comes_back_and_the_directory_stays(machine: Machine) -> None:
    before, pid = machine.run("stat -c %i /run/vscaf"), machine.show("MainPID")
    restarts = int(machine.show("NRestarts"))
    machine.run(f"kill -9 {pid}")
    machine.until(lambda: int(machine.show("NRestarts")) > restarts, "a restart")
    machine.until(lambda: machine.show("ActiveState") == "active", "the service is back")
    assert machine.show("MainPID") != pid and machine.run("stat -c %i /run/vscaf") == before
    machine.run("systemctl stop vscaf-agent; test ! -e /run/vscaf/agent.sock; systemctl start vscaf-agent")
    assert machine.run("stat -c %i /run/vscaf") == before


def test_one_that_hangs_is_started_again(machine: Machine) -> None:
    pid = machine.show("MainPID")
    machine.run(f"kill -STOP {pid}")
    machine.until(lambda: machine.show("MainPID") not in (pid, "0"), "another agent")
    machine.until(lambda: machine.show("ActiveState") == "active", "the service is back")
    assert "Watchdog timeout" in machine.journal()


def test_a_long_period_is_no_hang(machine: Machine) -> None:
    machine.run("mkdir -p /etc/default; echo 'VSCAF_AGENT_OPTIONS=--period-ms 60000' > /etc/default/vscaf-agent")
    machine.run("systemctl restart vscaf-agent")
    pid = machine.show("MainPID")

    def heard() -> int:
        """When systemd has last heard from the agent, in microseconds of the guest's clock."""
        return int(machine.show("WatchdogTimestampMonotonic"))

    first = heard()
    machine.until(lambda: heard() > first + 25_000_000, "messages for longer than WatchdogSec")
    assert machine.show("MainPID") == pid
    machine.run("rm /etc/default/vscaf-agent; systemctl restart vscaf-agent")


def test_wrong_options_are_no_loop(machine: Machine) -> None:
    machine.run("echo VSCAF_AGENT_OPTIONS=--wrong > /etc/default/vscaf-agent; systemctl restart vscaf-agent", status=1)
    assert (machine.show("ActiveState"), machine.show("ExecMainStatus")) == ("failed", "2")
    assert "--wrong: no such option: see --help" in machine.journal()
    machine.run("rm /etc/default/vscaf-agent; systemctl start vscaf-agent")
