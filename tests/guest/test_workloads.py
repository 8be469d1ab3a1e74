"""Every shipped workload is right in a guest: on 1 to 4 threads, and under the shim while its team changes."""

from __future__ import annotations

import itertools

from vscaf.bench.workloads.shipped import shipped
from vscaf.lab import Guest
from vscaf_lab.agent_host import AgentHost

from .conftest import Pair

DIRECTORY = "/usr/local/libexec/vscaf/npb"


def small_workloads(guest: Guest) -> list[str]:
    """The names of all workloads of class S that the image has."""
    names = guest.run(f"cd {DIRECTORY} && ls *.S").text.split()
    assert {"bt.S", "cg.S", "ep.S", "ft.S", "is.S", "lu.S", "lu-hp.S", "mg.S", "sp.S"} <= set(names)
    return names


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
            command = guest.start(f"OMP_WAIT_POLICY=passive NPB_REPEAT=2 vscaf-run {name}")
            for cpus in itertools.cycle((1, 2)):
                host.allocate(cpus, 2)
                if command.done():
                    break
            done = command.wait(0.0)
            if not shipped([name])[0].verified(done.status, done.text):
                wrong.append(f"{name}: status {done.status}: {done.text[-300:]}")
    assert not wrong, wrong
