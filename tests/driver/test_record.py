"""What a daemon on libvirt's test driver records, with stand-in agents, is decided again by `vscaf replay`."""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from vscaf.config import DomainConfig
from vscaf.control.client import get, post
from vscaf.control.server import ControlServer
from vscaf.core.decide.decision import Decision
from vscaf.daemon.loop import Daemon
from vscaf.daemon.operations import Operations
from vscaf.journal import Journal
from vscaf.record.files import read_lines, recorded_files
from vscaf.record.lines import Decided, State

from .node import write_node
from .stand_ins import Agent, BusyHost
from .test_daemon import configured, until

DOMAINS = {"a": (3, 3), "b": (3, 3), "c": (2, 3)}
DECISIONS = 240


class NotingDaemon(Daemon):
    """Keeps what it has decided, and which of it while it recorded."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.done: list[dict[str, int]] = []
        self.recorded: list[dict[str, int]] = []

    def _decided(self, decision: Decision) -> None:
        super()._decided(decision)
        self.done.append(dict(decision.allocations))
        if self.decisions.recorder.since is not None:
            self.recorded.append(self.done[-1])


def splits(done: list[dict[str, int]]) -> set[tuple[tuple[str, int], ...]]:
    """The different allocations."""
    return {tuple(sorted(one.items())) for one in done}


async def recorded(tmp_path: Path) -> list[dict[str, int]]:
    """Lets a daemon record while its guests change their demand. Returns what it decided while it recorded."""
    chance = random.Random(1)
    uri = write_node(tmp_path, 5, DOMAINS)
    config = configured(uri, tmp_path, "max-speedup-fitted", **dict.fromkeys(DOMAINS, DomainConfig()))
    config = msgspec.structs.replace(config, pool="0,2,4", record_most_mb=1)
    host = BusyHost(uri, 5.0, lambda: None, lambda key: None)
    agents = {name: Agent(tmp_path / f"{name}.sock", 3) for name in DOMAINS}
    host.agents = agents
    for agent in agents.values():
        await agent.start()
    await host.open()
    journal = Journal(Path(config.state_directory), "boot")
    daemon = NotingDaemon(config, host, await host.host_cpus(), journal)
    task = asyncio.create_task(daemon.run())
    operations = Operations(daemon)
    control = ControlServer(Path(config.control_socket), operations, daemon.events)
    await control.start()
    try:
        await until(lambda: len(daemon.done) > 5)
        assert (await get(control.path, "/v1/record"))["since"] is None
        answer = await post(control.path, "/v1/record", {"on": True})
        assert answer["since"] is not None and answer["directory"] == str(tmp_path / "state" / "record")
        while len(daemon.recorded) < DECISIONS or len(splits(daemon.recorded)) < 4:
            name, demand = chance.choice(sorted(DOMAINS)), chance.choice((0, 1, 2, 3, 3))
            agents[name].demand = demand
            host.be_busy(name, demand)
            if len(daemon.recorded) > DECISIONS // 2 and daemon.policy_name == "max-speedup-fitted":
                await operations.set_policy("max-speedup", {})
            target = len(daemon.done) + 4
            while len(daemon.done) < target:
                for agent in agents.values():
                    agent.report()
                await asyncio.sleep(0.01)
        (last, _changes) = msgspec.structs.astuple(operations.last_decision())
        assert last is not None and "a" in json.loads(last[1])["result"]["allocations"]
        after = len(daemon.done)
        assert (await post(control.path, "/v1/record", {"on": False}))["since"] is None
        await until(lambda: len(daemon.done) > after + 3)
        return daemon.recorded
    finally:
        await control.stop()
        daemon.stop()
        await task
        await daemon.close()
        await host.close()
        journal.close()
        for agent in agents.values():
            await agent.stop()


def replayed(files: list[str], *arguments: str, seed: str) -> str:
    """What `vscaf replay` prints, with Python's hashes seeded by *seed*."""
    command = [sys.executable, "-m", "vscaf", "replay", *files, *arguments]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_replay_agrees_with_what_the_daemon_did(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    done = loop_runner.run(recorded(tmp_path))
    paths = recorded_files(tmp_path / "state" / "record")
    lines = [line for path in paths for line in read_lines(path)]
    decided = [line.result.allocations for line in lines if isinstance(line, Decided)]
    assert isinstance(lines[0], State)
    assert decided == done and len(decided) >= DECISIONS
    files = [str(path) for path in paths]
    assert replayed(files, seed="1") == f"{len(decided)} decisions: all as recorded\n"
    compare = ("--policy", "equipartition", "--policy", "fair", "--option", "fair.alpha=2", "--json")
    table = replayed(files, *compare, seed="1")
    assert table == replayed(files, *compare, seed="2"), "it is not deterministic"
    recorded_row, equal, fair = json.loads(table)
    assert [recorded_row["policy"], equal["policy"], fair["policy"]] == ["as recorded", "equipartition", "fair"]
    assert equal["decisions"] == recorded_row["decisions"] == len(decided)
    assert equal["failed"] == 0 and equal["pcpus"].keys() == DOMAINS.keys()


@pytest.mark.parametrize("keep", [False, True])
def test_record_in_the_configuration(tmp_path: Path, loop_runner: asyncio.Runner, keep: bool) -> None:
    """It begins with the daemon, and a reload that turns the key off ends it."""
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})
    config = msgspec.structs.replace(configured(uri, tmp_path), record=True)

    async def work() -> None:
        host = BusyHost(uri, 5.0)
        await host.open()
        journal = Journal(Path(config.state_directory), "boot")
        daemon = NotingDaemon(config, host, await host.host_cpus(), journal)
        task = asyncio.create_task(daemon.run())
        await until(lambda: len(daemon.done) > 5)
        if not keep:
            daemon.configure(msgspec.structs.replace(config, record=False))
        counted = len(daemon.done)
        await until(lambda: len(daemon.done) > counted + 5)
        daemon.stop()
        await task
        await daemon.close()
        await host.close()
        journal.close()
        (path,) = recorded_files(tmp_path / "state" / "record")
        decided = [line for line in read_lines(path) if isinstance(line, Decided)]
        assert len(decided) == (len(daemon.done) if keep else counted)

    loop_runner.run(work())
