"""Problems are injected on libvirt's test driver: doctor finds each and nothing else, and the command that it prints
fixes it. tests/guest/test_doctor_problems.py does the same on a real libvirtd. docs/doctor.md lists all."""

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from doctor_host import CPUS, DoctorHost, Injection, check_found_and_fixed, on_host
from vscaf.cli.main import main
from vscaf.doctor.finding import Severity
from vscaf.prepare import apply

from .faults import Faults
from .hosts import ONLINE
from .node import write_node

POOL = frozenset({2, 4})
NOTE, UNKNOWN = Severity.NOTE, Severity.UNKNOWN


def isolate_a_part_of_the_reserve(host: DoctorHost) -> None:
    host.configure(pool="4")  # so the reserve is CPU 0 and 2
    host.write(f"{CPUS}/isolated", "2\n")


PROBLEMS = [
    on_host("pool", lambda host: host.configure(pool="2,4,6")),
    on_host("isolcpus", isolate_a_part_of_the_reserve),
    Injection("vcpus", lambda host: host.define(vcpus=1, maximum=1)),
    Injection("hotplug", lambda host: host.define(("id='1' enabled='yes' hotpluggable='yes'", "id='1' enabled='yes'"))),
]


@pytest.fixture
def host(tmp_path: Path) -> DoctorHost:
    """A good host. Its domain does not run, and exists in one connection only, as the test driver has it."""
    faults = Faults()
    uri = write_node(tmp_path, 4, {})
    faults.open(uri)
    return DoctorHost(tmp_path, uri, faults.real, POOL, ONLINE - POOL, "test", opener=faults.open)


def test_a_good_host_has_no_problem(host: DoctorHost) -> None:
    """The test driver is not QEMU, and its domains have no machine type. No daemon runs, and no agent."""
    cfd = "domain cfd"
    assert host.severities() == {
        ("host", "qemu"): NOTE,
        ("host", "daemon"): NOTE,
        (cfd, "pmu"): NOTE,
        (cfd, "machine"): UNKNOWN,
        (cfd, "agent"): UNKNOWN,
        (cfd, "steal-governor"): UNKNOWN,
    }


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.check)
def test_found_and_fixed(problem: Injection, host: DoctorHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: str) -> None:
        """vscaf runs in this process: another process would have another host."""
        if not command.startswith("vscaf "):
            host.run(command)
            return
        monkeypatch.setitem(apply.prepare.__kwdefaults__, "opener", host.opener)
        done = CliRunner().invoke(main, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output

    check_found_and_fixed(host, problem, run)
