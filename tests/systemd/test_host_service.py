"""The daemon as a service of a real systemd, in a guest, on libvirt's test driver (`make test-systemd`)."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest
from cockpit_guest import CONFIG, HANG_S, PASSWORD, status
from guests import DebianGuest
from vscaf.lab.polling import until

pytestmark = pytest.mark.timeout(4 * HANG_S)
CAPABILITIES = 0b11  # CAP_CHOWN and CAP_DAC_OVERRIDE


class Service:
    """The unit vscaf in the guest."""

    def __init__(self, guest: DebianGuest) -> None:
        self.guest = guest

    def run(self, command: str, *, fails: bool = False) -> str:
        """The output of a shell command of root. fails: whether it has to fail. AssertionError if it does otherwise."""
        done = self.guest.ssh(f"echo {shlex.quote(PASSWORD)} | sudo -S -p '' sh -c {shlex.quote(command)} 2>&1")
        assert (done.returncode != 0) == fails, f"`{command}` ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def show(self, name: str) -> str:
        """A property of the unit."""
        return self.run(f"systemctl show --value -p {name} vscaf")

    def log(self, pid: str) -> str:
        """What the daemon with this pid has logged."""
        return self.run(f"journalctl --no-pager -o cat _PID={pid}")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Polls until the condition holds."""
        until(condition, lambda: f"{what}: {self.run('journalctl --no-pager -u vscaf | tail -n 60')}", HANG_S, poll_s=1)

    def until_another(self, pid: str) -> None:
        """Waits for a daemon other than *pid* that manages the domain."""
        self.until(
            lambda: self.show("MainPID") not in (pid, "0") and self.show("ActiveState") == "active", "another one"
        )
        self.until(self.manages, "it manages the domain")

    def manages(self) -> bool:
        return [one["state"] for one in status(self.guest).get("domains", [])] == ["contained"]

    def configure(self, text: str) -> None:
        """Writes the daemon's configuration."""
        self.run(f"printf %s {shlex.quote(text)} > /etc/vscaf/vscaf.toml")


@pytest.fixture
def service(guest: DebianGuest) -> Service:
    """The service, just started with its first configuration. It manages the domain."""
    found = Service(guest)
    found.configure(CONFIG)
    found.run("systemctl reset-failed vscaf; systemctl restart vscaf; vscaf manage test")
    found.until(found.manages, "it manages the domain")
    return found


def test_killed_it_comes_back(service: Service) -> None:
    pid = service.show("MainPID")
    service.run(f"kill -9 {pid}")
    service.until_another(pid)
    assert int(service.show("NRestarts")) >= 1


def test_one_that_hangs_is_started_again(service: Service) -> None:
    pid = service.show("MainPID")
    service.run(f"kill -STOP {pid}")
    service.until_another(pid)
    assert "Watchdog timeout" in service.run("journalctl --no-pager -o cat -u vscaf")


def test_one_that_hands_over_puts_nothing_back_and_the_next_goes_on(service: Service) -> None:
    pid = service.show("MainPID")
    service.run("systemctl kill --kill-whom=main --signal=SIGUSR1 vscaf")
    service.until_another(pid)
    assert "given-back" not in service.log(pid)
    assert service.show("Result") == "success"


def test_stopped_it_puts_everything_back_and_leaves_no_process(service: Service) -> None:
    pid = service.show("MainPID")
    service.run("systemctl stop vscaf")
    assert (service.show("ActiveState"), service.show("Result")) == ("inactive", "success")
    assert "event=given-back" in service.log(pid)
    service.run("test ! -e /sys/fs/cgroup/system.slice/vscaf.service")


def test_a_reload_keeps_the_daemon_and_a_wrong_file_changes_nothing(service: Service) -> None:
    pid = service.show("MainPID")
    service.configure(CONFIG + '[policy]\nname = "equipartition"\n')
    service.run("systemctl reload vscaf")
    assert status(service.guest)["policy"] == "equipartition"
    service.configure(CONFIG + '[policy]\nname = "no such policy"\n')
    service.run("systemctl reload vscaf", fails=True)
    assert status(service.guest)["policy"] == "equipartition"
    assert service.show("MainPID") == pid and "given-back" not in service.log(pid)


def test_a_wrong_configuration_is_no_loop(service: Service) -> None:
    service.configure('pool = "none"\n')
    service.run("systemctl restart vscaf", fails=True)
    assert (service.show("ActiveState"), service.show("NRestarts")) == ("failed", "0")
    assert "pool" in service.run("journalctl --no-pager -o cat -u vscaf | tail -n 20")


def test_the_sandbox_holds(service: Service) -> None:
    pid = service.show("MainPID")
    words = dict(line.split(":\t", 1) for line in service.run(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    assert int(words["CapBnd"], 16) == CAPABILITIES and int(words["NoNewPrivs"]) == 1 and int(words["Seccomp"]) == 2
    inside = f"nsenter --target {pid} --mount "
    assert "Read-only" in service.run(inside + "touch /etc/vscaf/new", fails=True)
    assert service.run(inside + "ls /home") == ""
    service.run(inside + "touch /var/lib/vscaf/new && rm /var/lib/vscaf/new")
