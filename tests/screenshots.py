"""Makes the pictures of `vscaf top` and `vscaf plot` in the documentation: `make screenshots`.

The daemon is the real one. It runs on a simulated host in virtual time, so the pictures are the same each time. What it
said and what its domains used is then shown by the commands' own code.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from daemon_world import VCPUS, World
from rich.console import Console
from rich.text import Text
from vscaf.agentlink import messages
from vscaf.control.server import ControlServer, ControlTarget
from vscaf.daemon.status import status
from vscaf.events import EventLog
from vscaf.occupancy.sampler import Sample
from vscaf.occupancy.timeline import Track, track
from vscaf.plot.allocations import Change, from_event
from vscaf.plot.figure import occupancy_figure
from vscaf.plot.terminal import text, timeline
from vscaf.simulate.engine.virtual_time import run_virtual
from vscaf.top.app import TopApp
from vscaf.top.columns import Order
from vscaf.values import HostCpus

BEGIN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SAMPLE_S, BIN_S = 0.05, 0.25
SECONDS = 30.0
HOST = HostCpus(
    online=frozenset(range(20)),
    cores=tuple(frozenset({first, first + 1}) for first in range(0, 20, 2)),
    node_of={cpu: int(cpu >= 10) for cpu in range(20)},
)


@dataclass(frozen=True)
class Guest:
    """Its program, from when to when it computes, its S(p) = p / (1 + loss (p - 1)), and what its threads lose."""

    program: str
    spans_s: tuple[tuple[float, float], ...]
    loss: float
    inflation: float
    barrier: float
    steal: float = 0.01


GUESTS = {
    "cfd": Guest("cg.C.x", ((0.5, 99.0),), 0.06, 0.05, 0.11),
    "chemistry": Guest("lu.C.x", ((6.0, 99.0),), 0.14, 0.12, 0.24, 0.03),
    "genome": Guest("blast", ((12.0, 21.0),), 0.02, 0.01, 0.03),
    "weather": Guest("wrf.exe", ((17.0, 99.0),), 0.3, 0.08, 0.41, 0.06),
    "web": Guest("", (), 0.0, 0.0, 0.0),
}


@dataclass(frozen=True)
class Recorded:
    """What the daemon said, and where the domains ran."""

    status: dict[str, Any]
    events: EventLog
    track: Track
    changes: list[Change]


def report(guest: Guest, online: int) -> messages.Report:
    """What the guest's agent reports while its program computes."""
    points = [
        messages.ReportedPoint(p=p, speedup=p / (1 + guest.loss * (p - 1)), standard_error=0.02 * (p > 1), samples=40)
        for p in range(1, online + 1)
        if p in (1, 2, 4, 6, 8) or p == online
    ]
    useful = 1.0 - guest.inflation - guest.barrier - guest.steal
    parts = messages.Decomposition(
        useful=useful, inflation=guest.inflation, fork=0.0, dispatch=0.0, barrier=guest.barrier, steal=guest.steal,
        idle_rate=guest.barrier, section_ms=1.2,
    )  # fmt: skip
    program = messages.ReportedProcess(
        pid=412, name=guest.program, team=online, malleable="full", running=True, points=points, decomposition=parts
    )
    return messages.Report(sequence=0, online=list(range(online)), demand=VCPUS, busy=online, processes=[program])


async def compute(world: World, name: str) -> None:
    """The guest's program computes in its spans of time."""
    guest, agent = GUESTS[name], world.agents[name]
    loop = asyncio.get_running_loop()
    for begin_s, end_s in guest.spans_s:
        await asyncio.sleep(begin_s - loop.time())
        world.computes(name)
        computes = agent.on_received

        def received(computes: Callable[[], None] = computes) -> None:
            computes()
            agent.report = report(guest, len(agent.online or ()))

        agent.on_received = received
        received()
        await asyncio.sleep(end_s - loop.time())
        world.computes(name, 0)


async def sample(world: World, samples: list[Sample]) -> None:
    """Samples the simulated vCPUs, as vscaf.occupancy.sampler does with real ones."""
    loop = asyncio.get_running_loop()
    names = list(GUESTS)
    while True:
        for seen in await world.host.observe():
            for vcpu, pcpus in world.pins(seen.name).items():
                at_s, thread = loop.time(), 100 * names.index(seen.name) + vcpu
                cpu = sorted(pcpus)[vcpu % len(pcpus)]
                run_ns = int(seen.vcpu_time_s[vcpu] * 1e9)
                samples.append(Sample(at_s, at_s, seen.name, vcpu, thread, pcpus, cpu, run_ns, 0))
        await asyncio.sleep(SAMPLE_S)


async def recorded() -> Recorded:
    """Half a minute of five guests on ten cores."""
    loop = asyncio.get_running_loop()
    world = World(*GUESTS, machine=HOST, policy="max-speedup-fitted")
    events = world.daemon.events
    events._now = lambda: BEGIN + timedelta(seconds=loop.time())
    samples: list[Sample] = []
    world.begin()
    await asyncio.sleep(0.3)
    tasks = [asyncio.create_task(compute(world, name)) for name in GUESTS]
    tasks.append(asyncio.create_task(sample(world, samples)))
    await asyncio.sleep(SECONDS - loop.time())
    said = status(world.daemon)
    told = [from_event(_as_json(event), -BEGIN.timestamp()) for event in events.since(0)]
    kept = EventLog()
    kept._now = events._now
    kept._ring.extend(events.since(0))
    kept._last = events.last
    for task in tasks:
        task.cancel()
    await world.end()
    return Recorded(said, kept, track(samples, BIN_S), [one for one in told if one is not None])


def _as_json(event: Any) -> dict[str, Any]:
    return {"kind": event.kind, "domain": event.domain, "to": event.after, "time": event.time}


async def with_top(state: Recorded, keys: tuple[str, ...], order: Order) -> str:
    """The live view of this state as SVG, after these keys."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "control.sock"
        server = ControlServer(path, cast(ControlTarget, SimpleNamespace(status=lambda: state.status)), state.events)
        await server.start()
        try:
            app = TopApp(path, order, HOST)
            async with app.run_test(size=(120, 32)) as pilot:
                await _until(lambda: app.state is not None and bool(app._events))
                await pilot.pause(0.2)
                await pilot.press(*keys)
                await pilot.pause(0.2)
                return app.export_screenshot()
        finally:
            await server.stop()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  (the app has no event of it)
        await asyncio.sleep(0.02)


def terminal_svg(shown: Text, title: str, width: int) -> str:
    """Text as the picture of a terminal."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown)
    return console.export_svg(title=title)


def render(svg: Path, png: Path, chromium: str) -> None:
    """Renders an SVG, to be looked at."""
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1600,1000"]
    subprocess.run(
        [*command, f"--screenshot={png}", svg.resolve().as_uri()], check=True, capture_output=True, timeout=120
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/pictures"), help="directory for the pictures")
    parser.add_argument("--look", type=Path, default=Path("build/screenshots"), help="directory for PNG files")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    state = run_virtual(recorded())
    shots: dict[str, Callable[[], Awaitable[str]]] = {
        "top": lambda: with_top(state, (), Order()),
        "top-steal": lambda: with_top(state, ("down",), Order("steal")),
    }
    for name, shot in shots.items():
        (options.output / f"{name}.svg").write_text(asyncio.run(shot()), encoding="utf-8")  # type: ignore[arg-type]
    names = sorted({one.domain for one in state.changes if one.cpus})
    pool = sorted(HOST.online - {0, 1})
    figure = occupancy_figure(state.track, state.changes, names, pool)
    figure.savefig(options.output / "plot.png", dpi=100)  # smaller than as an SVG
    lines = text(timeline(state.track, state.changes, names, pool, 118))
    (options.output / "plot-terminal.svg").write_text(terminal_svg(lines, "vscaf plot", 120), encoding="utf-8")
    print(f"written to {options.output}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium: no PNG files to look at")
        return
    options.look.mkdir(parents=True, exist_ok=True)
    for svg in sorted(options.output.glob("*.svg")):
        render(svg, options.look / f"{svg.stem}.png", chromium)
    print(f"to look at: {options.look}")


if __name__ == "__main__":
    main()
