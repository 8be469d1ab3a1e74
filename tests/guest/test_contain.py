"""Programs with their own number of threads in a real guest, under cgroup version 2: contained, and put back."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from vscaf.lab import Guest, PrivateLibvirt
from vscaf.lab.polling import HANG_S, until
from vscaf.lab.runner import Command

from .conftest import IMAGE, POOL_LIST, REPOSITORY, unique

ROOT = "/sys/fs/cgroup"
PROGRAM = Path(os.environ.get("VSCAF_BUILD", REPOSITORY / "build" / "meson")) / "guest-agent" / "rigid-program"


@pytest.fixture(scope="module")
def guest(shared_lab: PrivateLibvirt) -> Iterator[Guest]:
    with Guest(shared_lab, unique("contain"), IMAGE, vcpus=2, cpuset=POOL_LIST) as guest:
        # The agent looks for control groups once, when it starts.
        text = base64.b64encode(PROGRAM.read_bytes()).decode()
        for at in range(0, len(text), 16384):
            guest.run(f"echo {text[at : at + 16384]} >> /tmp/rigid-program.base64")
        guest.run("base64 -d /tmp/rigid-program.base64 > /tmp/rigid-program && chmod +x /tmp/rigid-program")
        guest.run(f"mountpoint -q {ROOT} || mount -t cgroup2 cgroup {ROOT}; killall vscaf-agent")
        wait(guest, "vscaf-agent --status")  # vscaf-run leaves a program alone where no agent is
        yield guest


def wait(guest: Guest, test: str) -> None:
    """Waits until a shell test holds in the guest."""
    state = f"find {ROOT} -name 'vscaf*'; grep . /proc/[0-9]*/cgroup; ps; cat /run/vscaf/*.contained"
    until(lambda: guest.run(test).status == 0, lambda: f"{test}\n{guest.run(state).text}", poll_s=0.1)


def masks(pid: int) -> str:
    """A shell command that prints where the threads of a process may run, each set once."""
    return f"cat /proc/{pid}/task/*/status | grep Cpus_allowed_list | sort -u | cut -f2 | tr '\\n' ' '"


class Program:
    """A run of rigid-program until `end`, in its own group or in the root group."""

    def __init__(self, guest: Guest, name: str, group: str, kind: str, environment: str = "") -> None:
        self.guest, self.name = guest, name
        enter = f"mkdir -p {ROOT}/{group}; echo $$ > {ROOT}/{group}/cgroup.procs; " if group else ""
        self.command: Command = guest.start(
            f"rm -f /tmp/{name}.*; mkfifo /tmp/{name}.in; {enter}echo $$ > /tmp/{name}.pid; "
            f"OMP_NUM_THREADS=2 {environment} exec vscaf-run /tmp/rigid-program {kind} <> /tmp/{name}.in"
        )
        # A malleable program that comes second has a team of one from the start.
        threads = 2 if kind == "set" or "rigid" in environment else 1
        wait(guest, f"[ -s /tmp/{name}.pid ] && [ $(ls /proc/$(cat /tmp/{name}.pid)/task | wc -l) -ge {threads} ]")
        self.pid = int(guest.run(f"cat /tmp/{name}.pid").text)

    def end(self) -> None:
        """Ends it. Every section must have been right."""
        self.guest.run(f"echo end > /tmp/{self.name}.in")
        status, output = self.command.wait(HANG_S)
        assert status == 0 and b"verified" in output, output


def on_one_cpu(program: Program) -> str:
    """A shell test: all its threads may run on the same CPU only."""
    return f"case $({masks(program.pid)}) in '0 '|'1 '|0|1) true;; *) false;; esac"


@pytest.mark.parametrize("group", ["", "slice/limited"], ids=["in the root group", "in a group"])
def test_contained_and_back(guest: Guest, group: str) -> None:
    rigid = Program(guest, "rigid", group, "set")
    before = guest.run(masks(rigid.pid)).text
    assert "0-1" in before, before
    other = Program(guest, "other", group, "plain", "VSCAF_MALLEABLE=full")
    wait(guest, on_one_cpu(rigid))
    assert guest.run(f"cat /proc/{rigid.pid}/cgroup").text.strip() == f"0::/{group}"
    other.end()
    wait(guest, f'[ "$({masks(rigid.pid)})" = "{before}" ]')
    rigid.end()


def test_bound_threads_stay(guest: Guest) -> None:
    rigid = Program(guest, "bound", "bound", "set", "OMP_PROC_BIND=true")
    before = guest.run(masks(rigid.pid)).text
    assert "0-1" not in before, before
    other = Program(guest, "other", "bound", "plain", "VSCAF_MALLEABLE=full")
    wait(guest, "vscaf-agent --status --json | grep -q '\"joined\": *2'")
    for _ in range(20):
        assert guest.run(f"sleep 0.1; {masks(rigid.pid)}").text == before
    other.end()
    rigid.end()


def test_agent_is_killed(guest: Guest) -> None:
    """The next agent finds the contained processes and puts them back."""
    rigid = Program(guest, "killed", "killed", "plain", "VSCAF_MALLEABLE=rigid")
    before = guest.run(masks(rigid.pid)).text
    other = Program(guest, "beside", "killed", "plain", "VSCAF_MALLEABLE=full")
    wait(guest, on_one_cpu(rigid))
    guest.run("touch /run/vscaf/agent.off; killall -9 vscaf-agent")
    assert guest.run(on_one_cpu(rigid)).status == 0
    other.end()
    guest.run("rm /run/vscaf/agent.off")
    wait(guest, f'[ "$({masks(rigid.pid)})" = "{before}" ]')
    rigid.end()
