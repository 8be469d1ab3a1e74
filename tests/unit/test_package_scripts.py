"""The maintainer scripts of the package vscaf-host, with stand-ins for the programs that they call."""

import os
import subprocess
from pathlib import Path

import pytest
from vscaf.journal import FoundSettings, Journal, JournalEntry, host_boot_id

DEBIAN = Path(__file__).parents[2] / "debian"
HANDS_OVER = "systemctl kill --kill-whom=main --signal=SIGUSR1 vscaf.service"
STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >>"${0%/*}/../called"
[ ! -e "${0%/*}/../$1 fails" ]
"""


class System:
    """A root directory, in which the scripts find what they name by an absolute path."""

    def __init__(self, root: Path) -> None:
        self.root, self.programs = root, root / "programs"
        for path in ("programs", "run/systemd/system", "etc/vscaf", "var/lib/vscaf"):
            (root / path).mkdir(parents=True)
        (root / "etc/vscaf/vscaf.toml").touch()
        for name in ("vscaf", "systemctl", "getent", "groupdel"):
            (self.programs / name).write_text(STAND_IN, encoding="utf-8")
            (self.programs / name).chmod(0o755)

    def fail(self, command: str) -> None:
        """The stand-ins fail if this is their first argument."""
        (self.root / f"{command} fails").touch()

    def script(self, name: str, *arguments: str) -> str:
        """Runs a script. Returns what it writes to standard error. AssertionError if it fails."""
        text = (DEBIAN / f"vscaf-host.{name}").read_text(encoding="utf-8")
        for path in ("/run/systemd", "/etc/vscaf", "/var/lib/vscaf"):
            text = text.replace(path, f"{self.root}{path}")
        done = subprocess.run(
            ["sh", "-c", text, name, *arguments],
            env={"PATH": f"{self.programs}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    @property
    def called(self) -> list[str]:
        return (self.root / "called").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


def test_an_upgrade_hands_over(system: System) -> None:
    assert system.script("postinst", "configure", "0.1.0") == ""
    assert f"vscaf check-config {system.root}/etc/vscaf/vscaf.toml" in system.called and HANDS_OVER in system.called


def test_an_upgrade_that_refuses_the_configuration_leaves_the_old_daemon(system: System) -> None:
    system.fail("check-config")
    said = system.script("postinst", "configure", "0.1.0")
    assert "the daemon of version 0.1.0 still runs" in said and HANDS_OVER not in system.called


@pytest.mark.parametrize("command", ["--system", "kill"])
def test_an_upgrade_does_not_fail_if_the_daemon_has_ended_meanwhile(system: System, command: str) -> None:
    system.fail(command)
    system.script("postinst", "configure", "0.1.0")


def test_an_installation_hands_nothing_over(system: System) -> None:
    system.script("postinst", "configure", "")
    assert not (system.root / "called").exists()


@pytest.mark.parametrize("boot", [host_boot_id(), "an earlier boot"])
def test_a_purge_keeps_what_could_not_be_put_back_since_this_boot(system: System, boot: str) -> None:
    state = system.root / "var/lib/vscaf"
    journal = Journal(state, boot)
    found = FoundSettings(vcpus=1, vcpu_pins={0: [0]}, emulator_pin=[0], cpu_shares=None)
    entry = JournalEntry(name="a", uuid="1", run_id=1, found=found, partition=[0])
    journal.write({entry.key: entry})
    journal.close()
    system.fail("off")
    assert "keeps what is missing" in system.script("prerm", "remove")
    said = system.script("postrm", "purge")
    assert state.exists() == ("stays" in said) == (boot == host_boot_id())


def test_a_purge_removes_a_journal_without_domains(system: System) -> None:
    state = system.root / "var/lib/vscaf"
    journal = Journal(state, host_boot_id())
    found = FoundSettings(vcpus=1, vcpu_pins={0: [0]}, emulator_pin=[0], cpu_shares=None)
    journal.write({}, [JournalEntry(name="a", uuid="1", run_id=1, found=found, partition=[0])])
    journal.close()
    assert (state / "journal.json").exists()
    assert system.script("postrm", "purge") == "" and not state.exists()
