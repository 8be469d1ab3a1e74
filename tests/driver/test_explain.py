"""`vscaf explain` and `vscaf record` as an operator calls them, with a daemon on libvirt's test driver."""

import asyncio
import json
import sys
from pathlib import Path

from vscaf.config import DomainConfig
from vscaf.control.server import ControlServer
from vscaf.daemon.operations import Operations
from vscaf.hypervisor.libvirt.host import LibvirtHost

from .node import write_node
from .test_daemon import configured, on_host, partitions, running, until


async def vscaf(*arguments: str, socket: str) -> tuple[int, str, str]:
    command = (sys.executable, "-m", "vscaf", *arguments, "--socket", socket)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


def test_explain_and_record(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    uri = write_node(tmp_path, 4, {"a": (2, 2), "b": (2, 2)})

    async def work(host: LibvirtHost) -> None:
        domains = {"a": DomainConfig(), "b": DomainConfig(), "off": DomainConfig()}
        config = configured(uri, tmp_path, **domains)
        socket = config.control_socket
        async with running(config, host) as daemon:
            control = ControlServer(Path(socket), Operations(daemon), daemon.events)
            await control.start()
            try:
                await until(lambda: set(partitions(daemon).values()) == {"0", "2", None})
                status, out, error = await vscaf("explain", "a", socket=socket)
                assert (status, error) == (0, "")
                assert out.startswith("a: what it has\n  It has 1 of the 2 pCPUs of the pool: ")
                for sentence in (
                    "Its last change was at ",
                    "It could use 2 pCPUs now: the host measured so, as its agent is silent (no channel).",
                    "Policy equipartition: its share is 1 of 2 in all, which is 1.00 of 2 CPUs.",
                    "It competes with b (1).",
                    "Without demand of b it would have 2, not 1, and b 0 (now 1).",
                ):
                    assert sentence in out
                made = json.loads((await vscaf("explain", "b", "--json", socket=socket))[1])
                assert made["domain"] == "b"
                assert {key: made["what_if"][-1][key] for key in ("question", "cpus", "others")} == {
                    "question": "without demand of a",
                    "cpus": 2,
                    "others": {"a": [1, 0]},
                }
                assert "It is not running." in (await vscaf("explain", "off", socket=socket))[1]
                status, out, error = await vscaf("explain", "nobody", socket=socket)
                assert (status, out) == (2, "") and error.count("\n") == 1 and "a, b, off" in error
                assert (await vscaf("record", "show", socket=socket))[1].startswith("records nothing\n")
                assert (await vscaf("record", "start", socket=socket))[1].startswith("records since ")
                assert "records since" in (await vscaf("record", "show", socket=socket))[1]
                shown = json.loads((await vscaf("record", "show", "--json", socket=socket))[1])
                assert shown["directory"] == str(tmp_path / "state" / "record")
                assert (await vscaf("record", "stop", socket=socket))[1].startswith("records nothing\n")
            finally:
                await control.stop()

    on_host(uri, loop_runner, work)
