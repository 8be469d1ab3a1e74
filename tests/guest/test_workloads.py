"""Each shipped workload, built by gcc and by clang, is right in a guest: on 1 to 4 threads, and in changing teams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from vscaf.bench.places.lab import WORKLOADS, image_with
from vscaf.bench.workloads.programs import needed_libraries
from vscaf.bench.workloads.shipped import shipped
from vscaf.bench.workloads.workload import Workload
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import HANG_S
from vscaf.lab.runner import CommandResult
from vscaf_lab.agent_host import AgentHost, Message

from .conftest import HANGS_S, IMAGE, POOL_LIST, REPOSITORY, unique

pytestmark = [pytest.mark.guest, pytest.mark.long, pytest.mark.timeout(2 * HANGS_S)]

DIRECTORY = "/usr/local/libexec/vscaf/npb"
REPEATS = (2, 20, 200, 2000)  # more, until a program runs long enough to see its team change
CLANG = REPOSITORY / "build" / "clang" / "images" / "npb"
NPB = {"bt.S", "cg.S", "ep.S", "ft.S", "is.S", "lu.S", "lu-hp.S", "mg.S", "sp.S"}
NAMES = NPB | {"uts-geometric.S", "uts-binomial.S", "barrier.S", "serial-half.S"}


@dataclass(frozen=True)
class Built:
    """A guest, and the workloads there that one compiler has built."""

    guest: Guest
    directory: str
    names: list[str]

    def environment(self, **more: str) -> str:
        """The shell command that sets variables for a workload."""
        settings = {"OMP_WAIT_POLICY": "passive", "LD_LIBRARY_PATH": f"{self.directory}/lib", **more}
        return "export " + " ".join(f"{name}={value}" for name, value in settings.items())


@pytest.fixture
def from_clang(shared_lab: PrivateLibvirt) -> Iterator[Guest]:
    """A guest that also has the workloads from clang, with its OpenMP library."""
    if not CLANG.exists():
        pytest.skip("nothing is built with clang: tests/build-c build/clang clang plain")
    programs = {path.name: path for path in CLANG.glob("*.S")}
    libraries = {
        f"lib/{name}": path for program in programs.values() for name, path in needed_libraries(program).items()
    }
    image = image_with(IMAGE, [Workload("clang", "", {**programs, **libraries})], shared_lab.directory / "image-clang")
    with Guest(shared_lab, unique("clang"), image, vcpus=2, cpuset=POOL_LIST) as guest:
        yield guest


@pytest.fixture(params=["gcc", "clang"])
def built(request: pytest.FixtureRequest) -> Built:
    if request.param == "clang":
        guest, directory = request.getfixturevalue("from_clang"), WORKLOADS
    else:
        guest, directory = request.getfixturevalue("pair")[0], DIRECTORY
    names = guest.run(f"cd {directory} && ls *.S").text.split()
    assert set(names) >= NAMES
    return Built(guest, directory, names)


def run_in_a_changing_team(built: Built, host: AgentHost, name: str, repeat: int) -> tuple[CommandResult, int]:
    """Runs a program whose team changes. Returns its end, and how many allocations were acknowledged between the
    first report that names its process and its end."""
    environment = built.environment(NPB_REPEAT=str(repeat))
    command = built.guest.start(f"echo $$; {environment}; exec vscaf-run {built.directory}/{name}")

    def joined(report: Message) -> bool:
        pid = command.output().partition(b"\n")[0].decode()
        return (pid, name) in [(str(one["pid"]), one["name"]) for one in report["processes"]]

    host.wait("report", lambda report: joined(report) or command.done())
    acknowledged = 0
    while True:
        host.allocate(1 + acknowledged % 2, 2)
        if command.done():
            return command.wait(0.0), acknowledged
        acknowledged += 1


def test_every_workload_verifies_on_any_number_of_threads(built: Built) -> None:
    wrong = []
    for name, threads in itertools.product(built.names, (1, 2, 3, 4)):
        # Passive: more threads than CPUs must not spin for each other.
        command = f"{built.environment(OMP_NUM_THREADS=str(threads))}; {built.directory}/{name}"
        done = built.guest.run(command, 5 * HANG_S)  # lu.S spins: it takes long if the guest gets little CPU time
        if not shipped([name])[0].verified(done.status, done.text):
            wrong.append(f"{name} on {threads} threads: status {done.status}: {done.text[-300:]}")
    assert not wrong, wrong


def test_every_workload_verifies_while_its_team_changes(built: Built) -> None:
    wrong = []
    with AgentHost(built.guest.agent_socket) as host:
        for name in built.names:
            for repeat in REPEATS:
                done, acknowledged = run_in_a_changing_team(built, host, name, repeat)
                if not shipped([name])[0].verified(done.status, done.text):
                    wrong.append(f"{name}: status {done.status}: {done.text[-300:]}")
                if acknowledged >= 2:
                    break
            else:
                wrong.append(f"{name}: its team did not change twice while it ran: {done.text[-300:]}")
    assert not wrong, wrong
