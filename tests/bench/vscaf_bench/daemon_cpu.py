"""The daemon's cost: messages that it decodes per second, and its CPU time with a hundred guests.

The real daemon runs in a process of its own (`python -m vscaf_bench.daemon_cpu`), its guests in another one
(`simulated_guests`). The host is a simulated one, or libvirt's test driver in the daemon's process. CPU time is that of
the daemon's process, user and system. So it includes the simulated host, or libvirt's client library and the test
driver. The test driver always has three pCPUs online. With it the daemon observes all domains and reads the reports of
all guests, and its policy changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vscaf.agentlink import messages
from vscaf.agentlink.interface import Link
from vscaf.agentlink.link import CONNECTED, AgentLink
from vscaf.bench.intervals import median_interval
from vscaf.config import Config, DomainConfig, PolicyConfig
from vscaf.daemon.loop import Daemon
from vscaf.hypervisor.libvirt.host import LibvirtHost
from vscaf.journal import Journal
from vscaf.simulate.engine.host import SimulatedHost
from vscaf.values import HostCpus

from .agent import cpu_seconds
from .report import Report, Result
from .simulated_guests import VCPUS, report_line

GUESTS = 100
POOL = 300  # pCPUs, with 20 more as the reserve: half of the guests compute, and they get all that they want
HOSTILE = (1, 16)  # guests that alternate their reports
PATIENCE_S = 60.0
SETTLING_S = 5.0
SETTLINGS = 3
TEST_POOL = "0,2,4"  # the online pCPUs of libvirt's test driver, whatever its node has: too few for decisions

TEST_NODE = """<node>
  <cpu><mhz>2000</mhz><model>vscaf</model><active>{cpus}</active><nodes>1</nodes><sockets>1</sockets>
  <cores>{cpus}</cores><threads>1</threads></cpu><memory>800000000</memory>{domains}
</node>
"""
TEST_DOMAIN = """
  <domain type='test'><name>d{number}</name><memory unit='MiB'>64</memory>
    <vcpu placement='static' current='{vcpus}'>{vcpus}</vcpu><os><type>hvm</type></os>
    <devices><channel type='unix'><source mode='bind' path='{directory}/{number}.sock'/>
      <target type='virtio' name='org.vscaf.agent.0'/></channel></devices>
  </domain>"""


# The daemon's process.


def simulated_host(directory: Path, guests: int) -> SimulatedHost:
    numbers = frozenset(range(POOL + 20))
    cores = tuple(frozenset({cpu}) for cpu in sorted(numbers))
    host = SimulatedHost(HostCpus(numbers, cores, {cpu: cpu // 80 for cpu in numbers}))
    for number in range(guests):
        key = host.start(f"d{number}", VCPUS, agent_socket=str(directory / f"{number}.sock"))
        if number % 2 == 0:
            host.compute(key, dict.fromkeys(range(VCPUS), 0.95))
    return host


def test_driver(directory: Path, guests: int) -> LibvirtHost:
    domains = "".join(TEST_DOMAIN.format(number=number, vcpus=VCPUS, directory=directory) for number in range(guests))
    path = directory / "node.xml"
    path.write_text(TEST_NODE.format(cpus=POOL + 20, domains=domains), encoding="utf-8")
    return LibvirtHost(f"test://{path}", 5.0)


async def run_daemon(directory: Path, guests: int, host: LibvirtHost | SimulatedHost, profile: str) -> None:
    real = isinstance(host, LibvirtHost)
    config = Config(
        pool=TEST_POOL if real else f"0-{POOL - 1}",
        policy=PolicyConfig(name="unmanaged" if real else "max-speedup"),
        state_directory=str(directory / "state"),
        control_socket=str(directory / "control.sock"),
        domains={f"d{number}": DomainConfig() for number in range(guests)},
    )
    await host.open()
    journal = Journal(Path(config.state_directory), "bench")
    daemon = Daemon(config, host, await host.host_cpus(), journal)
    running = asyncio.create_task(daemon.run())
    links = [domain.link for domain in daemon.managed.values() if domain.link is not None]
    while sum(link.connected and link.report is not None for link in links) < guests and not running.done():
        await asyncio.sleep(0.1)
        links = [domain.link for domain in daemon.managed.values() if domain.link is not None]
    for _ in range(SETTLINGS):  # the cost of the start does not count
        transitions = daemon.transitions
        await asyncio.sleep(SETTLING_S)
        if transitions == daemon.transitions:
            break
    transitions = daemon.transitions
    if profile:
        import cProfile  # noqa: PLC0415  (slow, and rarely wanted)

        profiler = cProfile.Profile()
        profiler.enable()
        await asyncio.sleep(10.0)
        profiler.disable()
        profiler.dump_stats(profile)
    print("ready", flush=True)
    await asyncio.wait([running, asyncio.create_task(stop_requested())], return_when=asyncio.FIRST_COMPLETED)
    if running.done():  # it ended by itself: result() raises the reason
        running.result()
        raise SystemExit("the daemon ended by itself")
    state = {**state_of(links), "transitions": daemon.transitions - transitions, "violations": daemon.violations}
    print(json.dumps(state), flush=True)
    # The cost of the end is not measured.
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await daemon.close()
    await host.close()
    journal.close()


async def run_links(directory: Path, guests: int) -> None:
    """The channels alone, without a daemon behind them."""
    links = [AgentLink(f"d{number}", directory / f"{number}.sock", lambda: None) for number in range(guests)]
    for link in links:
        link.start()
    print("ready", flush=True)
    await stop_requested()
    print(json.dumps(state_of(links)), flush=True)
    for link in links:
        await link.stop()


async def stop_requested() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def state_of(links: Sequence[Link]) -> dict[str, object]:
    return {
        "heard": sum(link.condition == CONNECTED for link in links),
        "acknowledged": sum(link.acknowledged is not None for link in links),
        "bad_lines": sum(link.bad_lines for link in links),
    }


# The benchmark's process.


@contextmanager
def child(*command: str, patience_s: float = PATIENCE_S) -> Iterator[subprocess.Popen[str]]:
    """A Python process that prints "ready" when it is ready, and ends when its input ends."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        word = process.stdout.readline().strip()
        if word != "ready":
            raise SystemExit(f"{' '.join(command)}: said {word!r} instead of ready")
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def share_of_a_core(
    host: str, guests: int, seconds: int, *, changes: int = 0, hostile: int = 0, older: int = 0
) -> tuple[list[float], dict[str, object]]:
    """The daemon's CPU time in each second, in % of a core, and its state at the end."""
    with tempfile.TemporaryDirectory(prefix="vscaf-") as name:
        directory = Path(name)
        with (
            child("vscaf_bench.simulated_guests", name, *map(str, (guests, changes, hostile, older))),
            child("vscaf_bench.daemon_cpu", host, name, str(guests)) as daemon,
        ):
            time.sleep(SETTLING_S if host == "none" else 0.0)
            shares = []
            for _ in range(seconds):
                before, began_s = cpu_seconds(daemon.pid), time.monotonic()
                time.sleep(1.0)
                shares.append(100.0 * (cpu_seconds(daemon.pid) - before) / (time.monotonic() - began_s))
            assert daemon.stdin is not None and daemon.stdout is not None
            daemon.stdin.close()
            state = json.loads(daemon.stdout.readline())
        del directory
    if state["heard"] < guests - hostile:
        raise SystemExit(f"{state}: this daemon does not hear its guests, or the machine is too busy")
    return shares, state


def measure_messages(report: Report, quick: bool) -> None:
    """Decoded reports of three programs per second, compared with plain json.loads, in turns on the same lines."""
    rng = random.Random(7)
    lines = [report_line(rng, 5, 4, computing=True)[:-1] for _ in range(200)]
    decoded, plain = [], []

    def rate(work: object) -> float:
        assert callable(work)
        began_s = time.perf_counter()
        for line in lines:
            work(line)
        return len(lines) / (time.perf_counter() - began_s)

    for _ in range(20 if quick else 200):
        decoded.append(rate(messages.decode_from_guest))
        plain.append(rate(json.loads))
    value, low, high = median_interval(decoded)
    base = median_interval(plain)[0]
    ratio = median_interval([one / other for one, other in zip(decoded, plain, strict=True)])[0]
    report.add(Result("messages.decoded", "1/s", value, low, high, len(decoded), "json.loads", base, ratio))
    report.details["messages.decoded"] = {"report_bytes": len(lines[0])}


def measure(quick: bool, report: Report) -> None:
    """messages.decoded; daemon.cpu.100_guests and, as details, the same on the test driver and with changes.

    daemon.cpu.100_older_guests: the same with agents that report four times a second, whatever has changed.
    daemon.cpu.hostile_1 and hostile_16: the same if 1 or 16 guests alternate their reports as fast as they are read.
    """
    measure_messages(report, quick)
    seconds = 5 if quick else 20
    name = f"daemon.cpu.{GUESTS}_guests"
    shares, state = share_of_a_core("simulated", GUESTS, seconds)
    base = median_interval(shares)[0]
    report.add(Result(name, "%", *median_interval(shares), len(shares), bar="<= 1% of a core"))
    details: dict[str, object] = {"state": state, "each_second": shares}
    others = [
        ("links_alone", "none", GUESTS, 0),
        ("libvirt_test_driver", "test-driver", GUESTS, 0),
        ("no_guest_but_two", "simulated", 2, 0),
        ("one_starts_or_stops_a_second", "simulated", GUESTS, 1),
    ]
    for other, host, guests, changes in others[: 2 if quick else None]:
        shares, state = share_of_a_core(host, guests, seconds, changes=changes)
        details[other] = {"percent": median_interval(shares), "state": state}
    report.details[name] = details

    def compare(other: str, *, hostile: int = 0, older: int = 0) -> None:
        shares, state = share_of_a_core("simulated", GUESTS, seconds, hostile=hostile, older=older)
        value, low, high = median_interval(shares)
        report.add(Result(other, "%", value, low, high, len(shares), name, base, value / base))
        report.details[other] = {"state": state, "each_second": shares}

    compare(f"daemon.cpu.{GUESTS}_older_guests", older=GUESTS)
    for hostile in HOSTILE:
        compare(f"daemon.cpu.hostile_{hostile}", hostile=hostile)


def main() -> None:
    parser = argparse.ArgumentParser(prog="vscaf_bench.daemon_cpu", description=__doc__)
    parser.add_argument("host", choices=["simulated", "test-driver", "none"])
    parser.add_argument("directory", type=Path, help="directory with the sockets of simulated_guests")
    parser.add_argument("guests", type=int)
    parser.add_argument("--profile", default="", help="write a profile of 10 s to this file first")
    options = parser.parse_args()
    if options.host == "none":
        asyncio.run(run_links(options.directory, options.guests))
        return
    make = simulated_host if options.host == "simulated" else test_driver
    host = make(options.directory, options.guests)
    asyncio.run(run_daemon(options.directory, options.guests, host, options.profile))


if __name__ == "__main__":
    main()
