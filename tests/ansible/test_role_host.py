"""The role host on this machine, with its files in a temporary directory, and a real daemon that reloads."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import BIN, Played
from daemon import a_daemon
from vscaf.config import load_config

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


def test_interrupts_and_kernel_options_when_asked(play: Play, tmp_path: Path) -> None:
    """Only in check mode, because they would change this machine."""
    there = tmp_path / "system"
    there.mkdir()
    there.chmod(0o755)
    given = variables(
        tmp_path,
        vscaf_host_irq_cpus="0-1",
        vscaf_host_kernel_options=["nohz_full=2-7", "rcu_nocbs=2-7"],
        vscaf_host_irq_unit=str(there / "irq.service"),
        vscaf_host_irqbalance_unit=str(there / "irqbalance.conf"),
        vscaf_host_grub_file=str(there / "grub.cfg"),
    )
    checked = play(HOST, "--check", "--diff", variables=given)
    assert checked.status == 0, checked.output
    assert "echo 3 > /proc/irq/default_smp_affinity" in checked.output
    assert 'do echo 0-1 > "$$one"' in checked.output
    assert "+Environment=IRQBALANCE_BANNED_CPULIST=0,2" in checked.output
    assert '+GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=2-7 rcu_nocbs=2-7"' in checked.output
    assert list(there.iterdir()) == []
