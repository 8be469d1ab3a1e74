"""`make bench-agent`: the cost of the guest agent, and how fast it serves a program that joins.

The agent runs on this machine, with its real sysfs and procfs, at 4 Hz. A socket replaces its port, and a host reads
the reports. "Without the agent" is the same machine with the agent stopped (SIGSTOP); the two alternate in one run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vscaf.bench.intervals import median_interval

from . import agent_model
from .report import Report, Result, run_benchmark

PROCESSES = 64
PERIODS_A_SECOND = 4
PATIENCE_S = 20.0
CPUS_GIVEN = 256  # in the simulated sysfs for latencies: more CPUs than programs, so that every team is above 1
PROCESSES_MOST = 192  # 256 can join, and 64 of them are reserved for other users


def cpu_seconds(pid: int) -> float:
    """CPU time of a process to the nanosecond: its scheduler clock (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def kib(pid: int, file: str, *fields: str) -> int:
    """The sum of some fields of /proc/PID/`file`."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.split(":")[0] in fields)


class Responder:
    """A program that answers each input line with a line of whole numbers."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.greeting = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args!r} ended with {self.process.wait()}")
        return line.strip()

    def query(self) -> list[int]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self._line().split()]

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Agent:
    pid: int
    socket: Path
    host: Responder | None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


class Bench:
    def __init__(self, meson: Path, directory: Path, quick: bool) -> None:
        self.agent_path = meson / "guest-agent" / "vscaf-agent"
        self.tools = meson / "guest-agent" / "bench"
        self.directory = directory
        self.quick = quick
        for path in (self.agent_path, self.tool("crowd"), self.tool("latency"), self.tool("machine")):
            if not path.exists():
                raise SystemExit(f"{path} is missing: build it with `make programs`")

    def tool(self, name: str) -> Path:
        return self.tools / f"bench-agent-{name}"

    @contextmanager
    def agent(self, *options: str, host: bool) -> Iterator[Agent]:
        """A new agent, with a host that reads or without a host."""
        socket, port = self.directory / "agent.sock", self.directory / "port"
        reader = Responder([str(self.tool("machine")), "host", str(port)]) if host else None
        command = [str(self.agent_path), "--socket", str(socket), *options]
        process = subprocess.Popen(
            [*command, *(["--port", str(port)] if host else ["--standalone"])],
            env={**os.environ, "CACHE_DIRECTORY": str(self.directory / "verdicts")},
        )
        try:
            end_s = time.monotonic() + PATIENCE_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > end_s:
                    raise SystemExit(f"the agent did not start: {' '.join(command)}")
                time.sleep(0.01)
            yield Agent(process.pid, socket, reader)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            status = process.wait(PATIENCE_S)
            if reader is not None:
                reader.close()
        if status != 0:
            raise SystemExit(f"the agent ended with {status}")

    @contextmanager
    def crowd(self, agent: Agent, processes: int, what: str) -> Iterator[Responder]:
        crowd = Responder([str(self.tool("crowd")), str(agent.socket), str(processes), what])
        try:
            yield crowd
        finally:
            crowd.close()


def own_share(agent: Agent, seconds: float) -> float:
    """CPU time of the agent in % of one core."""
    before, began_s = cpu_seconds(agent.pid), time.monotonic()
    time.sleep(seconds)
    return 100.0 * (cpu_seconds(agent.pid) - before) / (time.monotonic() - began_s)


def reports_flow(agent: Agent, seconds: float) -> None:
    """Checks that the measured agent works: its reports have come."""
    if agent.host is None:
        return
    before = agent.host.query()[0]
    time.sleep(seconds)
    came = agent.host.query()[0] - before
    if came < seconds / 2:  # without news it reports once a second
        raise SystemExit(f"{came} reports came in {seconds} s: this agent does not work, or the machine is too busy")


def has_reported(agent: Agent) -> None:
    """Checks that an agent works that has nothing to do, and so is quiet after its first reports."""
    if agent.host is not None and agent.host.query()[0] == 0:
        raise SystemExit("no report came: this agent does not work")


@dataclass
class Case:
    own: list[float]  # the agent's own time, % of one core
    machine: list[float]  # what the machine used in addition to the work, in the same unit, with the agent
    machine_without: list[float]
    work: list[float]  # work per second with the agent
    work_without: list[float]
    report_bytes: int


def beside(agent: Agent, turns: int, seconds: float, work: Responder, soaking: bool) -> Case:
    """Turns with and without the agent, in alternating order: the work that `work` reports, and its CPU time."""
    case = Case([], [], [], [], [], 0)
    cpus = len(os.sched_getaffinity(0))

    def run_turn(machine: list[float], done: list[float]) -> None:
        before, began_s = work.query(), time.monotonic()
        time.sleep(seconds)
        after, took_s = work.query(), time.monotonic() - began_s
        if soaking:
            machine.append(100.0 * (cpus - (after[0] - before[0]) / 1e9 / took_s))
        done.append((after[-1] - before[-1]) / took_s)

    def with_agent() -> None:
        own = cpu_seconds(agent.pid)
        began_s = time.monotonic()
        run_turn(case.machine, case.work)
        case.own.append(100.0 * (cpu_seconds(agent.pid) - own) / (time.monotonic() - began_s))

    def without() -> None:
        with agent.stopped():
            time.sleep(0.01)
            run_turn(case.machine_without, case.work_without)
        time.sleep(0.05)  # the agent makes up for one missed period, which is not measured

    for turn in range(turns):
        for measure in (with_agent, without) if turn % 2 == 0 else (without, with_agent):
            measure()
    if agent.host is not None:
        case.report_bytes = agent.host.query()[1]
    return case


def cpu(bench: Bench, report: Report) -> None:
    """CPU time at 4 Hz with 64 joined processes that sleep or start sections all the time."""
    turns, seconds = (2, 1.0) if bench.quick else (10, 2.0)
    results: list[Result] = []
    for host in (True, False):
        place = "host" if host else "standalone"
        for activity in ("idle", "sections"):
            with bench.agent(host=host) as agent, bench.crowd(agent, PROCESSES, activity) as crowd:
                reports_flow(agent, 2.0)
                quiet: list[float] = []
                if activity == "idle":
                    quiet = [own_share(agent, seconds) for _ in range(turns)]
                    soak = Responder([str(bench.tool("machine")), "soak"])
                    try:
                        case = beside(agent, turns, seconds, soak, soaking=True)
                    finally:
                        soak.close()
                else:
                    case = beside(agent, turns, seconds, crowd, soaking=False)
            # With work on every CPU its memory is not in the caches. That costs more, and it is what counts.
            value, low, high = median_interval(case.own)
            name = f"agent.cpu.64_processes.{activity}.{place}"
            lost = [100.0 * (1.0 - a / b) for a, b in zip(case.work, case.work_without, strict=True)]
            detail: dict[str, object] = {
                "own_percent_of_one_core": case.own,
                "own_percent_on_a_quiet_machine": quiet,
                "own_us_a_period": value * 1e4 / PERIODS_A_SECOND,
                "work_lost_percent_of_all_cpus": median_interval(lost),
                "report_bytes": case.report_bytes,
            }
            baseline, with_agent, without_agent = "sections/s without it", case.work, case.work_without
            if case.machine:
                added = [a - b for a, b in zip(case.machine, case.machine_without, strict=True)]
                detail["machine_added_percent_of_one_core"] = median_interval(added)
                baseline = "the machine without it, % of one core"
                with_agent, without_agent = case.machine, case.machine_without
            result = Result(
                name,
                "%",
                value,
                low,
                high,
                len(case.own),
                baseline,
                statistics.median(without_agent),
                statistics.median(a / b for a, b in zip(with_agent, without_agent, strict=True)),
            )
            report.details[name] = detail
            report.add(result)
            results.append(result)
            print("  ", name, {key: detail[key] for key in list(detail)[2:]}, flush=True)
    worst = max(results, key=lambda result: result.value)
    report.details["agent.cpu.64_processes"] = f"the worst of the four: {worst.name}"
    report.add(Result(**{**worst.__dict__, "name": "agent.cpu.64_processes", "bar": "< 0.1%"}))
    with bench.agent(host=True) as agent:
        values = [own_share(agent, seconds) for _ in range(turns)]
        report.add(Result("agent.cpu.nothing_joined", "%", *median_interval(values), len(values)))


def wakeups(agent: Agent) -> int:
    """How often the agent's threads have waited so far."""
    statuses = [path.read_text() for path in Path(f"/proc/{agent.pid}/task").glob("*/status")]
    return sum(int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for text in statuses)


def idle_proc(directory: Path) -> Path:
    """A simulated procfs of a guest in which nothing computes. This machine is not so idle while a benchmark runs."""
    proc = directory / "proc"
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text("cpu  1000 0 0 5000 0 0 0 0 0 0\nprocs_running 1\n")
    return proc


def idle(bench: Bench, report: Report) -> None:
    """Wake-ups in a minute of an agent that has nothing to do, with a host that knows `quiet` and stand-alone."""
    turns, seconds = (1 if bench.quick else 2), 30.0
    results: list[Result] = []
    for host in (True, False):
        with bench.agent("--proc", str(idle_proc(bench.directory)), host=host) as agent:
            time.sleep(2.0)  # its first periods
            has_reported(agent)
            minutes: list[float] = []
            for _ in range(turns):
                before, began_s = wakeups(agent), time.monotonic()
                time.sleep(seconds)
                minutes.append(60.0 * (wakeups(agent) - before) / (time.monotonic() - began_s))
        name = f"agent.idle.wakeups.{'host' if host else 'standalone'}"
        results.append(Result(name, "per minute", *median_interval(minutes), turns))
        report.add(results[-1])
    worst = max(results, key=lambda result: result.value)
    report.details["agent.idle.wakeups"] = f"the worse of the two: {worst.name}"
    report.add(Result(**{**worst.__dict__, "name": "agent.idle.wakeups", "bar": "<= 6"}))


def memory(bench: Bench, report: Report) -> None:
    """Resident memory after some seconds of work, with programs that have reported all that a shim can report."""
    seconds = 2.0 if bench.quick else 3.0
    for processes in (0, PROCESSES, PROCESSES_MOST):
        with bench.agent(host=True) as agent:
            if processes > 0:
                with bench.crowd(agent, processes, "published"):
                    reports_flow(agent, seconds)
                    sizes = memory_of(agent.pid)
            else:
                time.sleep(seconds)
                has_reported(agent)
                sizes = memory_of(agent.pid)
        report.details[f"agent.rss.{processes}_processes"] = sizes
        value = float(sizes["VmHWM"])
        if processes == PROCESSES:
            report.add(Result("agent.rss", "KiB", value, value, value, 1, bar="< 3000"))
        else:
            report.add(Result(f"agent.rss.{processes}_processes", "KiB", value, value, value, 1))


def memory_of(pid: int) -> dict[str, int]:
    """In KiB: the largest resident size (which counts), the present one, and the private and proportional sizes."""
    sizes = {name: kib(pid, "status", name) for name in ("VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem")}
    sizes["private"] = kib(pid, "smaps_rollup", "Private_Clean", "Private_Dirty")
    sizes["proportional"] = kib(pid, "smaps_rollup", "Pss")
    return sizes


def made_up_cpus(directory: Path) -> Path:
    """A simulated sysfs with so many CPUs that every program gets more than one."""
    cpus = directory / "sys" / "devices" / "system" / "cpu"
    shutil.rmtree(cpus, ignore_errors=True)
    cpus.mkdir(parents=True)
    for name in ("possible", "present", "online"):
        (cpus / name).write_text(f"0-{CPUS_GIVEN - 1}\n")
    return directory / "sys"


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that *percent* % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(percent) // 100) - 1)]


def percentile_interval(values: list[float], percent: float) -> tuple[float, float, float]:
    """A percentile and its 95% interval, by order statistics (the normal approximation of the binomial)."""
    ordered, n, share = sorted(values), len(values), percent / 100.0
    half = 1.96 * (n * share * (1.0 - share)) ** 0.5
    low = max(0, int(n * share - half) - 1)
    high = min(n - 1, int(n * share + half))
    return percentile(values, percent), ordered[low], ordered[high]


def pairs_of(command: list[str]) -> tuple[list[float], list[float]]:
    """Runs a command that prints two columns of ns; returns them in ms."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    return [int(row[0]) / 1e6 for row in rows], [int(row[1]) / 1e6 for row in rows]


def add_latency(
    report: Report, name: str, pairs: tuple[list[float], list[float]], baseline: str, bar: str = ""
) -> None:
    base_ms, measured_ms = pairs
    for percent in (50, 99):
        base = percentile(base_ms, percent)
        report.add(
            Result(
                f"{name}.p{percent}",
                "ms",
                *percentile_interval(measured_ms, percent),
                len(measured_ms),
                f"{baseline}, p{percent}",
                base,
                percentile(measured_ms, percent) / base,
                bar,
            )
        )
    spread = {f"p{percent}": percentile(measured_ms, percent) for percent in (0, 10, 50, 90, 99, 100)}
    report.details[name] = {"ms": spread, "baseline_ms": {f"p{p}": percentile(base_ms, p) for p in (0, 50, 99, 100)}}


def latency(bench: Bench, report: Report) -> None:
    """Time from connect() to the team size on the page, and from a program's end until its share is given to others."""
    count, exits = (400, 50) if bench.quick else (3000, 500)
    # By the real procfs no program may use more CPUs than this machine has. So no program's code is looked at either.
    guest = ("--sysfs", str(made_up_cpus(bench.directory)), "--proc", str(idle_proc(bench.directory)))
    tool = str(bench.tool("latency"))
    for crowd, name, bar in (
        ("", "agent.join_to_team.alone", ""),
        ("paced", "agent.join_to_team.64_computing", ""),
        ("idle", "agent.join_to_team", "< 100 ms"),
    ):
        with bench.agent(*guest, host=True) as agent:
            team = 0 if crowd == "paced" else CPUS_GIVEN  # 0: any above 1
            command = [tool, "join", str(agent.socket), str(count), str(team)]
            if crowd:
                with bench.crowd(agent, PROCESSES, crowd):
                    reports_flow(agent, 2.0)  # waits for the crowd's first periods, in which all count as running
                    pairs = pairs_of(command)
            else:
                pairs = pairs_of(command)
        add_latency(report, name, pairs, "bare round trip", bar)
    with bench.agent(*guest, host=True) as agent, bench.crowd(agent, PROCESSES, "idle"):
        reports_flow(agent, 2.0)
        pairs = pairs_of([tool, "exit", str(agent.socket), str(exits)])
    add_latency(report, "agent.exit_to_team", pairs, "bare end of file", "< 100 ms")


def model(bench: Bench, report: Report) -> None:
    """The agent's split of a guest against equal shares, for the simulator's curves."""
    agent_model.measure(bench.agent_path.parent / "split-lines", bench.quick, report)


PARTS = {"cpu": cpu, "idle": idle, "memory": memory, "latency": latency, "model": model}


@contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        yield Bench(options.meson.resolve(), Path(directory), options.quick)


def main() -> None:
    run_benchmark("agent", __doc__, {"meson": ("build/meson", "build directory of the C parts")}, prepared, PARTS)


if __name__ == "__main__":
    main()
