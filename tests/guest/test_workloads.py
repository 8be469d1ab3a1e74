"""Every shipped workload is right in a guest: on 1 to 4 threads, and under the shim while its team changes."""

from __future__ import annotations

import itertools

import pytest
from vscaf.bench.workloads.shipped import shipped
from vscaf.lab import Guest
from vscaf.lab.runner import CommandResult
from vscaf_lab.agent_host import AgentHost, Message

from .conftest import Pair

pytestmark = [pytest.mark.guest, pytest.mark.long]

DIRECTORY = "/usr/local/libexec/vscaf/npb"
REPEATS = (2, 20, 200, 2000)  # more, until a program runs long enough to see its team change


def small_workloads(guest: Guest) -> list[str]:
    """The names of all workloads of class S that the image has."""
    names = guest.run(f"cd {DIRECTORY} && ls *.S").text.split()
    npb = {"bt.S", "cg.S", "ep.S", "ft.S", "is.S", "lu.S", "lu-hp.S", "mg.S", "sp.S"}
    assert npb | {"uts-geometric.S", "uts-binomial.S", "barrier.S"} <= set(names)
    return names


def run_in_a_changing_team(guest: Guest, host: AgentHost, name: str, repeat: int) -> tuple[CommandResult, int]:
    """Runs a program whose team changes. Returns its end, and how many allocations were acknowledged between the
    first report that names its process and its end."""
    command = guest.start(f"echo $$; export OMP_WAIT_POLICY=passive NPB_REPEAT={repeat}; exec vscaf-run {name}")

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


def test_every_workload_verifies_on_any_number_of_threads(pair: Pair) -> None:
    guest, _ = pair
    wrong = []
    for name, threads in itertools.product(small_workloads(guest), (1, 2, 3, 4)):
        # Passive: more threads than CPUs must not spin for each other.
        done = guest.run(f"OMP_WAIT_POLICY=passive OMP_NUM_THREADS={threads} {name}")
        if not shipped([name])[0].verified(done.status, done.text):
            wrong.append(f"{name} on {threads} threads: status {done.status}: {done.text[-300:]}")
    assert not wrong, wrong


def test_every_workload_verifies_while_its_team_changes(pair: Pair) -> None:
    guest, _ = pair
    wrong = []
    with AgentHost(guest.agent_socket) as host:
        for name in small_workloads(guest):
            for repeat in REPEATS:
                done, acknowledged = run_in_a_changing_team(guest, host, name, repeat)
                if not shipped([name])[0].verified(done.status, done.text):
                    wrong.append(f"{name}: status {done.status}: {done.text[-300:]}")
                if acknowledged >= 2:
                    break
            else:
                wrong.append(f"{name}: its team did not change twice while it ran: {done.text[-300:]}")
    assert not wrong, wrong
