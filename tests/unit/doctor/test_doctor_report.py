"""What `vscaf doctor` prints, its exit status, and its page."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from doctor_facts import CPUS, DOMAIN, domain, host, status
from vscaf.cli.main import main
from vscaf.config import load_config
from vscaf.doctor import checks_domain, checks_host, checks_rivals, examination
from vscaf.doctor.commands import remove_kernel_option, set_key, write_config
from vscaf.doctor.examination import examine
from vscaf.doctor.facts import HostFacts, NoLibvirt, Process
from vscaf.doctor.facts_host import read_system
from vscaf.doctor.finding import Check, Finding, Severity, Unknown
from vscaf.doctor.report import report, summary

ROOT = Path(__file__).parents[3]
HOST_CHECKS = (*checks_host.CHECKS, *checks_rivals.CHECKS)
NO_CHANNEL = DOMAIN.replace("org.vscaf.agent.0", "none")


def text(facts: HostFacts, **options: Any) -> str:
    return click.unstyle(report(examine(facts), **options))


def test_a_good_host_is_a_few_lines_and_a_summary() -> None:
    lines = text(host()).splitlines()
    assert lines[0] == f"host ({len(HOST_CHECKS)} of {len(HOST_CHECKS)} checks ready)"
    count = len(checks_domain.CHECKS)
    assert lines[1] == f"domain cfd ({count} of {count} checks ready)"
    assert lines[2:] == ["no problems, 0 notes, 0 unknown: 1 of 1 domains without a problem"]


def test_problems_come_first_each_with_its_fix() -> None:
    lines = text(host(domain(xml=NO_CHANNEL), system={"pacemaker": ("vm",)})).splitlines()
    assert lines[1].startswith("  problem  pacemaker: vm: ") and lines[2].startswith("             fix: crm_resource ")
    assert lines[3].startswith("domain cfd (")
    assert lines[4].startswith("  problem  channel: no channel") and lines[5].endswith("vscaf prepare cfd")
    assert lines[-1].startswith("2 problems, ") and lines[-1].endswith(": 0 of 1 domains without a problem")


def test_many_domains_fit_a_screen() -> None:
    names = [f"vm{number}" for number in range(30)]
    no_pmu = DOMAIN.replace("state='on'", "state='off'")
    domains = [domain(name, no_pmu) for name in names]
    here = host(*domains, domain("bad", NO_CHANNEL), settings={"pool": "1-7"}, status=None)
    lines = text(here).splitlines()
    assert len(lines) < 24 and lines[-1].endswith("30 of 31 domains without a problem")
    (heading,) = [line for line in lines if line.startswith("domain vm0")]
    assert heading.startswith("domain vm0, vm1, vm2, vm3, vm4, vm5 and 24 more (")
    at = lines.index("several domains")
    assert lines[at + 1].startswith("  note     pmu: ") and lines[at + 1].endswith("vm5 and 24 more")
    assert "edit vm0  # and so on" in lines[at + 2]
    assert [line for line in lines if "vscaf prepare bad" in line], "a problem is always shown at its domain"


def test_verbose_shows_what_is_ready_too() -> None:
    assert "9.0.0 at qemu:///system" not in text(host())
    assert "9.0.0 at qemu:///system" in text(host(), verbose=True)


def test_control_characters_stay_out_of_the_terminal() -> None:
    odd = Finding("domain \x1b[1m", "channel", Severity.PROBLEM, "a\nb\x07", "c\x1b")
    assert not {"\x1b", "\x07"} & set(click.unstyle(report([odd])))
    assert summary([odd]) == "1 problem, 0 notes, 0 unknown: 0 of 1 domains without a problem"


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[HostFacts]:
    """The facts that the command gets instead of this machine's."""
    given = [host()]

    async def gather(*_arguments: object) -> HostFacts:
        return given[0]

    monkeypatch.setattr(examination, "gather", gather)
    return given


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "vscaf.toml"
    path.write_text('pool = "2-7"\n', encoding="utf-8")
    return path


def test_exit_status_and_json(facts: list[HostFacts], config: Path) -> None:
    def run(*options: str) -> Any:
        return CliRunner().invoke(main, ["doctor", "--config", str(config), *options])

    assert run().exit_code == run("--strict").exit_code == 0
    done = run("--json")
    findings = json.loads(done.stdout)
    assert done.exit_code == 0 and {one["severity"] for one in findings} == {"ready"}
    assert set(findings[0]) == {"subject", "check", "severity", "text", "fix"} and findings[0]["subject"] == "host"
    facts[0] = host(system={"pacemaker": ("vm",)})
    assert run().exit_code == run("--json").exit_code == 1
    facts[0] = host(status=None, system={"irqs": Unknown("may not be read")})
    assert (run().exit_code, run("--strict").exit_code) == (0, 1)


def test_a_configuration_that_was_asked_for_has_to_be_good(config: Path, tmp_path: Path) -> None:
    config.write_text("colour = 1\n", encoding="utf-8")
    for options in (["--config", str(config)], ["--config", f"{tmp_path}/absent"], ["--colour"]):
        done = CliRunner().invoke(main, ["doctor", *options])
        assert (done.exit_code, done.stdout) == (2, "")


# What the printed commands do.


def shell(command: str) -> None:
    subprocess.run(["sh", "-c", command], check=True)


def test_commands_for_the_configuration_make_it_good(config: Path) -> None:
    here = host(config_file=str(config), status=None)
    shell(set_key(here, "pool", "4-5", present=True))
    shell(set_key(here, "reserve", "1", present=False))
    assert (load_config(config).pool, load_config(config).reserve) == ("4-5", "1")
    config.unlink()
    shell(write_config(here, frozenset({1, 2})).partition(" && ")[2])
    assert load_config(config).pool == "1-2"
    assert set_key(host(), "pool", "1", present=True).endswith(" && vscaf reload")


def remove_option(directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command up to update-grub, on the files of this directory instead of /etc/default."""
    command, _, rest = remove_kernel_option("isolcpus").partition(" && ")
    assert rest == "update-grub && reboot"
    command = command.replace("/etc/default", str(directory))
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("quote", ['"', "'", ""])
@pytest.mark.parametrize("value", ["2-3,5", "managed_irq,domain,0-31:2/4"])
@pytest.mark.parametrize("name", ["grub", "grub.d/50-cloudimg.cfg"])
def test_the_command_for_a_kernel_option_removes_only_that(tmp_path: Path, quote: str, value: str, name: str) -> None:
    (tmp_path / "grub.d").mkdir()
    (tmp_path / "grub").touch()
    others = {"quiet ": " nohz_full=2", "": ""} if quote else {"": ""}
    for before, after in others.items():
        (tmp_path / name).write_text(f"GRUB_CMDLINE_LINUX={quote}{before}isolcpus={value}{after}{quote}\n")
        assert remove_option(tmp_path).returncode == 0
        assert (tmp_path / name).read_text() == f"GRUB_CMDLINE_LINUX={quote}{before.strip()}{after}{quote}\n"


def test_the_command_for_a_kernel_option_that_is_elsewhere_fails(tmp_path: Path) -> None:
    (tmp_path / "grub").write_text('# isolcpus=1\nGRUB_CMDLINE_LINUX="quiet"\n')
    done = remove_option(tmp_path)
    assert done.returncode != 0 and "no input files" in done.stderr


@pytest.mark.parametrize(
    ("before", "after", "check"),
    [
        ("machine='pc-q35-7.2'", "machine='q35'", "machine"),
        ("type='kvm'", "type='qemu'", "accelerator"),
        ("state='on'", "state='off'", "pmu"),
        ("<pmu state='on'/>", "", "pmu"),
        ("'static'", "'auto'", "pins"),
        ("<acpi/>", "", "machine"),
        ("<features><acpi/><pmu state='on'/></features>", "", "machine"),
        ("cores='4' threads='1'", "cores='2' threads='2'", "topology"),
    ],
)
def test_commands_that_edit_a_domain_make_it_good(before: str, after: str, check: str, tmp_path: Path) -> None:
    """A stand-in for virsh edits a file, by a shell as virsh does."""
    broken = DOMAIN.replace(before, "machine='pc-q35-2.4'" if "q35" in after else after)
    broken = broken if "pmu" in broken else broken.replace("host-passthrough", "custom")
    (finding,) = [one for one in examine(host(domain(xml=broken, running=False))) if one.check == check and one.fix]
    assert finding.fix is not None
    file = tmp_path / "cfd.xml"
    file.write_text(broken, encoding="utf-8")
    (tmp_path / "virsh").write_text(f'#!/bin/sh\nexec sh -c "$VISUAL {file}"\n', encoding="utf-8")
    (tmp_path / "virsh").chmod(0o755)
    subprocess.run(["sh", "-c", finding.fix], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    mended = examine(host(domain(xml=file.read_text(encoding="utf-8"), running=False)))
    assert [one.severity for one in mended if one.check == check] == [Severity.READY]


def fix_of(facts: HostFacts, check: str) -> str:
    (finding,) = [one for one in examine(facts) if one.check == check]
    assert finding.fix is not None
    return finding.fix


def test_the_command_for_a_hook_makes_libvirt_leave_it_alone(tmp_path: Path) -> None:
    hook = tmp_path / "etc/libvirt/hooks/qemu"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\ntaskset -cp 3 $$\n", encoding="utf-8")
    hook.chmod(0o755)
    found = read_system(tmp_path).pinning_hooks
    assert found == ("/etc/libvirt/hooks/qemu",)
    shell(
        fix_of(host(system={"pinning_hooks": found}), "hooks").partition(" && ")[0].replace("/etc", f"{tmp_path}/etc")
    )
    assert read_system(tmp_path).pinning_hooks == ()


def test_the_command_for_hugepages_makes_as_many_as_are_needed(tmp_path: Path) -> None:
    pages = tmp_path / "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    pages.parent.mkdir(parents=True)
    pages.write_text("100\n", encoding="utf-8")

    def facts() -> HostFacts:
        backed = DOMAIN.replace("<os>", "<memoryBacking><hugepages/></memoryBacking><os>")
        return host(domain(xml=backed), system={"hugepages": read_system(tmp_path).hugepages})

    shell(fix_of(facts(), "hugepages").replace(" /sys", f" {tmp_path}/sys"))
    assert pages.read_text(encoding="utf-8") == "2048\n"
    assert [one.severity for one in examine(facts()) if one.check == "hugepages"] == [Severity.READY]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a CPU to move a process to")
def test_the_command_for_a_service_on_the_pool_moves_it() -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    cpus = replace(CPUS, online=frozenset({first, second}), cores=(frozenset({first}), frozenset({second})))
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            os.sched_setaffinity(process.pid, {second})
            found = (Process(process.pid, "sleep", frozenset(os.sched_getaffinity(process.pid))),)
            shell(
                fix_of(
                    host(settings={"pool": str(second)}, virt={"cpus": cpus}, system={"processes": found}), "services"
                )
            )
            assert os.sched_getaffinity(process.pid) == {first}
        finally:
            process.kill()


# The page.


def table(checks: tuple[Check[Any], ...]) -> str:
    rows = [f"| `{one.name}` | {one.looks_at} | {one.problem} |" for one in checks]
    return "\n".join(["| check | looks at | a problem if |", "|---|---|---|", *rows])


def test_the_page_has_every_check_as_the_code_says() -> None:
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    for checks in (HOST_CHECKS, checks_domain.CHECKS):
        assert table(checks) in page, table(checks)
    named = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    every = (*HOST_CHECKS, *checks_domain.CHECKS)
    assert sorted(named) == sorted(one.name for one in every), "the page has a check that is gone"


def test_the_daemon_that_does_not_answer_is_not_taken_for_none() -> None:
    findings = examine(host(status=Unknown("no answer in 5 s"), virt=NoLibvirt("refused")))
    (finding,) = [one for one in findings if one.check == "daemon"]
    assert (finding.severity, finding.text) == (Severity.UNKNOWN, "no answer in 5 s")
    assert status()["violations"] == []
