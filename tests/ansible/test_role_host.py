"""The role host on this machine, with its files in a temporary directory, and a real daemon that reloads."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, Played
from daemon import a_daemon
from fake_systemd import fake_systemd
from vscaf.config import load_config
from vscaf.lab.polling import until

Play = Callable[..., Played]
HOST = [{"name": "Host", "ansible.builtin.include_role": {"name": "vscaf.vscaf.host"}}]
UNINSTALL = [{"name": "Host", "ansible.builtin.include_role": {"name": "vscaf.vscaf.host", "tasks_from": "uninstall"}}]
CONFIGURED = ("Make the directory of the configuration", "Write the configuration, if the daemon would accept it")


def variables(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "vscaf_host_install": "none",
        "vscaf_host_service": "none",
        "vscaf_host_command": str(BIN / "vscaf"),
        "vscaf_host_config_file": str(directory / "etc/vscaf.toml"),
        "vscaf_host_pool": "0,2",
        "vscaf_host_policy": "equipartition",
        "vscaf_host_domains": {"test": {}},
        "vscaf_host_settings": {
            "uri": "test:///default",
            "state_directory": str(directory / "state"),
            "control_socket": str(directory / "control.sock"),
            "period_ms": 20,
            "deadline_ms": 50,
        },
        **more,
    }


def test_a_configuration_is_written_once(play: Play, tmp_path: Path) -> None:
    given = variables(tmp_path)
    config = Path(given["vscaf_host_config_file"])
    checked = play(HOST, "--check", variables=given)
    assert checked.status == 0, checked.output
    assert checked.changed == CONFIGURED[:1] and not config.parent.exists()
    first = play(HOST, variables=given)
    assert first.status == 0 and first.changed == CONFIGURED, first.output
    loaded = load_config(config)
    assert (loaded.pool, loaded.policy.name, list(loaded.domains)) == ("0,2", "equipartition", ["test"])
    assert config.stat().st_mode & 0o777 == 0o644
    assert play(HOST, variables=given).changed == () == play(HOST, "--check", variables=given).changed

    other = {**given, "vscaf_host_pool": "0-2"}
    checked = play(HOST, "--check", "--diff", variables=other)
    assert checked.changed == CONFIGURED[1:] and '+pool = "0-2"' in checked.output
    assert load_config(config).pool == "0,2"


def test_a_wrong_configuration_does_not_replace_the_old_one(play: Play, tmp_path: Path) -> None:
    given = variables(tmp_path)
    assert play(HOST, variables=given).status == 0
    before = Path(given["vscaf_host_config_file"]).read_text(encoding="utf-8")
    for key, value, said in (
        ("vscaf_host_policy", "best", "no policy is named"),
        ("vscaf_host_pool", "2-1", "rising range"),
        ("vscaf_host_pool", "all but few", "write a CPU list like"),
        ("vscaf_host_domains", {"test": {"colour": "red"}}, "colour"),
        ("vscaf_host_settings", {"period": 20}, "period"),
    ):
        done = play(HOST, variables={**given, key: value})
        assert done.status != 0 and said in done.output, done.output
        assert Path(given["vscaf_host_config_file"]).read_text(encoding="utf-8") == before


def test_a_daemon_that_runs_uses_the_new_configuration(play: Play, module: Any, tmp_path: Path) -> None:
    given = variables(tmp_path)
    config = Path(given["vscaf_host_config_file"])
    assert play(HOST, variables=given).status == 0
    with a_daemon(tmp_path, config) as control:
        assert play(HOST, variables=given).changed == ()
        changed = play(HOST, variables={**given, "vscaf_host_pool": "2"})
        assert changed.status == 0 and changed.changed == (*CONFIGURED[1:], "Reload vscaf"), changed.output
        assert module("vscaf_info", socket=str(control))["status"]["pool"] == "2"
        restart = {**given["vscaf_host_settings"], "call_timeout_ms": 4000}
        refused = play(HOST, variables={**given, "vscaf_host_settings": restart})
        assert refused.status != 0 and "call_timeout_ms" in refused.output and "restart" in refused.output


def test_a_configuration_of_somebody_else_stays(play: Play, tmp_path: Path) -> None:
    given = variables(tmp_path)
    config = Path(given["vscaf_host_config_file"])
    config.parent.mkdir()
    config.write_text('pool = "0"\n', encoding="utf-8")
    done = play(HOST, variables=given)
    assert done.status != 0 and "is not from this role" in done.output, done.output
    done = play(UNINSTALL, variables=given)
    assert done.status == 0, done.output
    assert config.read_text(encoding="utf-8") == 'pool = "0"\n'


def an_environment(archive: Path, directory: Path) -> Path:
    """What the role would make of this archive with pip, from the environment of the tests."""
    environment = directory / hashlib.sha1(archive.read_bytes()).hexdigest()[:12]
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_bytes((BIN.parent / "pyvenv.cfg").read_bytes())
    (environment / "lib").symlink_to(BIN.parent / "lib")
    (environment / "bin/python3").symlink_to(sys.executable)
    command = environment / "bin/vscaf"
    command.write_text(
        f"#!{environment}/bin/python3\nfrom vscaf.cli.main import main\nmain(prog_name='vscaf')\n", encoding="utf-8"
    )
    for file in (command, environment / "bin/pip"):
        file.touch()
        file.chmod(0o755)
    return environment


def in_use(environment: Path) -> bool:
    """Whether a process has been started from this environment."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{environment}/".encode() in file.read_bytes():
                return True
        except OSError:  # it has ended
            continue
    return False


def from_source(tmp_path: Path, archive: Path, directory: Path, drop_in: Path) -> dict[str, Any]:
    """Variables for a daemon from this archive as a service, with everything in tmp_path."""
    for name in ("src", "system"):
        (tmp_path / name).mkdir()
    own = os.environ.get("XDG_RUNTIME_DIR") or f"{tempfile.gettempdir()}/vscaf-{os.geteuid()}"
    return variables(
        tmp_path,
        vscaf_host_install="source",
        vscaf_host_service="systemd",
        vscaf_host_source=str(archive),
        vscaf_host_directory=str(directory),
        vscaf_host_command=str(tmp_path / "vscaf"),
        vscaf_host_archive_directory=str(tmp_path / "src"),
        vscaf_host_unit=str(tmp_path / "system/vscaf.service"),
        vscaf_host_drop_in=str(drop_in),
        vscaf_host_locks="/run/vscaf" if os.geteuid() == 0 else own,
        vscaf_packages_manage=False,
    )


@pytest.mark.timeout(1800)
def test_another_version_takes_over_and_uninstall_removes_only_what_the_role_made(
    play: Play, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = tmp_path / "another.tar.gz"
    subprocess.run(["git", "-C", ROOT, "archive", "--prefix=vscaf/", "--output", another, "HEAD"], check=True)
    directory, drop_in = tmp_path / "opt", tmp_path / "system/vscaf.service.d/10-ansible.conf"
    old, new = (an_environment(path, directory) for path in (archive, another))
    given = from_source(tmp_path, archive, directory, drop_in)
    with fake_systemd(tmp_path / "systemd", drop_in) as systemd:
        monkeypatch.setenv("PATH", f"{tmp_path}/systemd/bin:{os.environ['PATH']}")
        checked = play(HOST, "--check", variables=given)
        assert checked.status == 0 and "Install the unit" in checked.changed, checked.output
        assert systemd.pid == 0 and not drop_in.parent.exists()
        first = play(HOST, variables=given)
        assert first.status == 0 and "Start the daemon, also at boot" in first.changed, first.output
        assert systemd.state()["ActiveState"] == "active" and in_use(old)
        pid = systemd.pid
        # The other environment is there already. It is not in use, so it counts as an older version.
        assert set(first.changed) >= {"Remove older versions"} and not new.exists()
        an_environment(another, directory)
        assert play(HOST, variables=given | {"vscaf_host_policy": "best", "vscaf_host_source": str(another)}).status
        assert systemd.pid == pid and old.exists(), "this play has ended before the daemon was replaced"

        other = {**given, "vscaf_host_source": str(another)}
        moved = {**given["vscaf_host_settings"], "state_directory": str(tmp_path / "state2")}
        refused = play(HOST, variables=other | {"vscaf_host_settings": moved})
        assert refused.status and "would not know what to put back" in refused.output, refused.output
        assert systemd.pid == pid

        checked = play(HOST, "--check", variables=other)
        assert checked.status == 0 and systemd.pid == pid, checked.output
        # Another process of the old version, such as `vscaf top`.
        with subprocess.Popen([old / "bin/python3", "-c", "input()"], stdin=subprocess.PIPE) as user:
            after = play(HOST, variables=other)
            assert after.status == 0 and "Hand over" in after.changed, after.output
            assert systemd.state()["ActiveState"] == "active" and systemd.pid != pid and in_use(new)
            assert "given-back" not in systemd.log()
            assert user.poll() is None and old.exists()
            user.communicate(b"\n")
        until(lambda: not in_use(old), "the old daemon's guard has ended")
        again = play(HOST, variables=other)
        assert again.status == 0 and again.changed == ("Remove older versions",), again.output
        assert not old.exists()

        theirs = [directory / "bin", tmp_path / "state/theirs"]
        for path in theirs:
            path.mkdir()
        banned = tmp_path / "irqbalance.service.d/vscaf.conf"
        banned.parent.mkdir()
        banned.touch()
        assert "irqbalance" not in systemd.commands()
        removed = play(UNINSTALL, variables=other | {"vscaf_host_irqbalance_unit": str(banned)})
        assert removed.status == 0, removed.output
        assert "restart irqbalance" in systemd.commands() and not banned.parent.exists()
        until(lambda: systemd.pid == 0, "the daemon has ended")
        assert "given-back" in systemd.log()
        assert list(directory.iterdir()) == theirs[:1] and list((tmp_path / "state").iterdir()) == theirs[1:]
        assert not any((tmp_path / name).exists() for name in ("vscaf", "etc", "system/vscaf.service"))
        assert not drop_in.parent.exists() and list((tmp_path / "src").iterdir()) == []


def test_packages_do_not_come_over_an_installation_from_source(play: Play, tmp_path: Path) -> None:
    (tmp_path / "vscaf-host-0123456789ab.tar.gz").touch()
    given = variables(tmp_path, vscaf_host_install="packages", vscaf_host_archive_directory=str(tmp_path))
    for tasks in (HOST, UNINSTALL):
        done = play(tasks, variables=given)
        assert done.status != 0 and "vscaf is installed from source" in done.output, done.output


def test_all_but_the_first_core(play: Play, tmp_path: Path) -> None:
    given = variables(tmp_path, vscaf_host_pool="all but 1")
    done = play(HOST, variables=given)
    assert done.status == 0, done.output
    pool = tomllib.loads(Path(given["vscaf_host_config_file"]).read_text(encoding="utf-8"))["pool"]
    assert 0 not in load_config(Path(given["vscaf_host_config_file"])).pool_cpus and pool


def test_wrong_variables_are_refused(play: Play, tmp_path: Path) -> None:
    done = play(HOST, variables=variables(tmp_path, vscaf_host_install="pip"))
    assert done.status != 0 and "vscaf_host_install" in done.output
    done = play(HOST, variables=variables(tmp_path, vscaf_host_install="source", vscaf_host_source="/nowhere.tar.gz"))
    assert done.status != 0 and "git archive" in done.output


def test_site_without_a_list_of_domains(play: Play, tmp_path: Path) -> None:
    """As with domains that only vscaf_host_domains names. The roles are not played: only the last task is."""
    wait = "Wait until the daemon hears each agent"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    given = {"vscaf_host_settings": {"control_socket": str(tmp_path / "control.sock")}}
    hosts = {"vscaf_hosts": {"hosts": {"here": here}}, "vscaf_guests": {"hosts": {}}}
    done = play("site.yml", "--start-at-task", wait, variables=given, inventory=hosts)
    assert done.status == 0 and f"TASK [{wait}]" in done.output, done.output


def test_uninstall_ends_the_daemon_and_leaves_nothing(play: Play, tmp_path: Path) -> None:
    given = variables(tmp_path)
    assert play(HOST, variables=given).status == 0
    there = {path.name for path in tmp_path.iterdir()}
    with a_daemon(tmp_path, Path(given["vscaf_host_config_file"])):
        checked = play(UNINSTALL, "--check", variables=given)
        assert checked.status == 0 and checked.counts["changed"] > 0, checked.output
        assert (tmp_path / "control.sock").exists() and (tmp_path / "etc/vscaf.toml").exists()
        done = play(UNINSTALL, variables=given)
        assert done.status == 0 and "Give all domains back as they were found, and end the daemon" in done.changed
    assert {path.name for path in tmp_path.iterdir()} == (there - {"etc"}) | {"log"}
    assert play(UNINSTALL, variables=given).changed == ()


def commands(unit: str, name: str, where: Path) -> list[str]:
    """A command of a unit, with another directory instead of /proc/irq and /run."""
    found = re.search(rf"(?s)^{name}=/bin/sh -c '(.*?)'$", unit.replace("\\\n", ""), re.MULTILINE)
    assert found is not None, unit
    text = found.group(1).replace("$$", "$").replace("/proc/irq", str(where)).replace("%t", str(where))
    return ["/bin/sh", "-c", text]


def test_interrupts_and_kernel_options_when_asked(play: Play, tmp_path: Path) -> None:
    """Only in check mode, because they would change this machine."""
    there = tmp_path / "system"
    there.mkdir()
    there.chmod(0o755)
    given = variables(
        tmp_path,
        vscaf_host_pool="all but 1",
        vscaf_host_irq_cpus="0-1",
        vscaf_host_kernel_options=["nohz_full=2-7", "rcu_nocbs=2-7"],
        vscaf_host_irq_unit=str(there / "irq.service"),
        vscaf_host_irqbalance_unit=str(there / "irqbalance.conf"),
        vscaf_host_grub_file=str(there / "grub.cfg"),
    )
    # The tag alone: the pool is not read for the configuration.
    imported = [{"name": "Host", "ansible.builtin.import_role": {"name": "vscaf.vscaf.host"}}]
    checked = play(imported, "--check", "--diff", "--tags", "vscaf_tuning", variables=given)
    assert checked.status == 0, checked.output
    assert "+Environment=IRQBALANCE_BANNED_CPULIST=" in checked.output
    assert '+GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=2-7 rcu_nocbs=2-7"' in checked.output
    assert list(there.iterdir()) == []

    unit = "\n".join(line[1:] for line in checked.output.splitlines() if line.startswith("+"))
    interrupts = {"default_smp_affinity": "ff\n", "7/smp_affinity": "f0\n", "7/smp_affinity_list": "4-7\n"}
    for directory in ("7", "vscaf-irq-affinity"):
        (tmp_path / directory).mkdir()
    for name, text in interrupts.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    subprocess.run(commands(unit, "ExecStart", tmp_path), check=True)
    now = {name: (tmp_path / name).read_text(encoding="ascii") for name in interrupts}
    assert now == {**interrupts, "default_smp_affinity": "3\n", "7/smp_affinity_list": "0-1\n"}
    (tmp_path / "7/smp_affinity").write_text("3\n", encoding="ascii")  # the kernel's other view of the list
    subprocess.run(commands(unit, "ExecStop", tmp_path), check=True)
    for name in ("default_smp_affinity", "7/smp_affinity"):
        assert (tmp_path / name).read_text(encoding="ascii") == interrupts[name]
