"""Problems are injected on a real libvirtd: doctor finds each and nothing else, and the command that it prints fixes
it. No guest runs, except in the last test. tests/driver/test_doctor_problems.py has more problems. docs/doctor.md lists
all."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_host import METADATA, DoctorHost, Injection, check_found_and_fixed, on_host
from vscaf.doctor.checks_host import suggested_pool
from vscaf.doctor.facts_domain import read_libvirt
from vscaf.doctor.finding import Finding, Severity
from vscaf.lab import PrivateLibvirt
from vscaf.lab.polling import until

from tests.driver.test_doctor_problems import PROBLEMS as ON_THE_TEST_DRIVER

from .conftest import CACHE, IMAGE, POOL_LIST, REPOSITORY
from .test_prepare import PlainGuest

pytestmark = pytest.mark.guest

NOTE, UNKNOWN = Severity.NOTE, Severity.UNKNOWN


def numatune(attributes: str) -> tuple[str, str]:
    return "<os>", f"<numatune><memory mode='strict' {attributes}/></numatune><os>"


def run_only_on_the_pool(host: DoctorHost) -> None:
    """A process of this machine that the made-up /proc shows."""
    process = subprocess.Popen(["sleep", "infinity"])
    host.processes.append(process)
    os.sched_setaffinity(process.pid, host.pool)
    (host.directory / "root/proc" / str(process.pid)).symlink_to(f"/proc/{process.pid}")


PROBLEMS = [
    on_host("services", run_only_on_the_pool),
    Injection("channel", lambda host: host.define(port="org.qemu.guest_agent.0")),
    Injection("managed", lambda host: host.define(metadata=METADATA.replace("/>", ' most="2"/>'))),
    Injection("machine", lambda host: host.define(acpi="")),
    Injection("topology", lambda host: host.define(threads=2 * host.threads)),
    Injection("numa", lambda host: host.define(numatune("nodeset='63'"))),
    Injection("pins", lambda host: host.define(("placement='static'", "placement='auto'"))),
]


@pytest.fixture(scope="module")
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateLibvirt]:
    """A libvirtd without the guests of other tests, which doctor would find."""
    with PrivateLibvirt(logs=tmp_path_factory.mktemp("logs"), cache=CACHE) as lab:
        yield lab


@pytest.fixture
def host(own_lab: PrivateLibvirt, tmp_path: Path) -> Iterator[DoctorHost]:
    """A good host with a domain that has never been started."""
    connection = own_lab.connection
    cpus = read_libvirt(connection).cpus
    pool = suggested_pool(cpus)
    threads = max(len(core & pool) for core in cpus.cores)
    machine = " arch='x86_64' machine='pc'"
    others = cpus.online - pool
    host = DoctorHost(tmp_path, own_lab.uri, connection, pool, others, "qemu", machine=machine, threads=threads)
    try:
        yield host
    finally:
        for process in host.processes:
            process.kill()
            process.wait()
        connection.lookupByName("cfd").undefine()


def test_a_good_host_has_no_problem(host: DoctorHost) -> None:
    """No daemon runs, and no agent. The domain is emulated."""
    cfd = "domain cfd"
    assert host.severities() == {
        ("host", "daemon"): NOTE,
        (cfd, "accelerator"): NOTE,
        (cfd, "pmu"): NOTE,
        (cfd, "agent"): UNKNOWN,
        (cfd, "steal-governor"): UNKNOWN,
    }


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.check)
def test_found_and_fixed(problem: Injection, host: DoctorHost) -> None:
    check_found_and_fixed(host, problem)


def test_the_page_lists_all_problems() -> None:
    table = (REPOSITORY / "docs/doctor.md").read_text(encoding="utf-8").partition("| what is injected |")[2]
    listed = re.findall(r"^\| .* \| `([\w-]+)` \| ", table.partition("\n\n")[0], re.MULTILINE)
    assert listed == [one.check for one in (*ON_THE_TEST_DRIVER, *PROBLEMS)]


@pytest.mark.long
def test_a_running_guest_is_restarted_to_run_as_it_is_defined(own_lab: PrivateLibvirt, host: DoctorHost) -> None:
    """The first command changes the next start, the second one is a restart. The lab's guest has nothing that obeys a
    shutdown, so it is told beforehand to switch itself off."""
    guest = PlainGuest(own_lab, "restarted", IMAGE, vcpus=1, memory_mib=256, persistent=True)
    place = f"domain {guest.name}", "vcpus", [guest.name]
    host.configure(pool=POOL_LIST)
    try:
        guest.launch()
        guest.wait_ready()
        prepare = host.printed_fix(*place)
        assert prepare.startswith(f"vscaf prepare {guest.name} ")
        host.run(prepare)
        assert guest.domain.maxVcpus() == 1
        restart = host.printed_fix(*place)
        assert " shutdown " in restart and " start " in restart
        assert guest.run("(sleep 30; poweroff -f) > /dev/null 2>&1 &").status == 0
        host.run(restart)
        assert guest.domain.maxVcpus() == 2
        guest.reconnect()
        guest.wait_ready()

        def problems() -> list[Finding]:
            found = host.findings([guest.name])
            return [one for one in found if (one.subject, one.severity) == (place[0], Severity.PROBLEM)]

        until(lambda: not problems(), lambda: str(problems()))  # the guest's agent opens its channel a little later
    finally:
        guest.stop()
