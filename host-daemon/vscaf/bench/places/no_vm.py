"""Programs on this machine itself, without guests. It needs no root, except for `quota`.

`pinned` binds the threads of OpenMP programs one to a CPU. Policies are those of a stand-alone agent.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from vscaf.bench.c_programs import workload_directory
from vscaf.bench.observe.watch import Watch
from vscaf.bench.places.baselines import QUOTA_PERIOD_US, Setting, assignments, setting
from vscaf.bench.places.output import Output
from vscaf.bench.places.own_pool import own_pool
from vscaf.bench.places.place import BASELINES, Arranged, Ended, PlaceError, WithoutDaemon
from vscaf.bench.places.quota_group import group_commands, quota_group
from vscaf.bench.places.steal_governor import STEAL_GOVERNOR
from vscaf.bench.workloads.workload import Workload
from vscaf.cpulist import format_cpu_list
from vscaf.lab.polling import until
from vscaf.lab.private_libvirt import accepts
from vscaf.lab.processes import end_child, tree_threads

AGENT_POLICIES = ("max-speedup", "equipartition")
END_PATIENCE_S = 5.0
# Variables of this process that would change the measured programs.
_REMOVED = ("OMP_", "GOMP_", "KMP_", "VSCAF_MALL", "VSCAF_SOCKET")
_ENTER = 'echo $$ > "$0" && exec "$@"'  # arguments: a cgroup.procs, a command


class NoVmStarted:
    """A process and all that it starts. `on_end`: called with its pid and their CPU time in seconds, once."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        on_end: Callable[[int, float], None],
    ) -> None:
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ended: Ended | None = None
        self._process = subprocess.Popen(
            arguments,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = Output(self._process.stdout, str(self.pid))
        self._pidfd = os.pidfd_open(self.pid)

    @property
    def pid(self) -> int:
        """The pid of its first process."""
        return self._process.pid

    def wait(self, timeout_s: float) -> Ended:
        """Its end: that of its first process. What it has left behind is killed."""
        with self._lock:
            if self._ended is not None:
                return self._ended
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            raise TimeoutError(f"it has not ended after {timeout_s:g} s; so far it said: {self._output.text()[-500:]}")
        with self._lock:
            return self._ended or self._take_end()

    def _take_end(self) -> Ended:
        os.killpg(self.pid, signal.SIGKILL)  # its number is not used again before wait4
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self._pidfd)
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        self._output.finish()
        status = code if code >= 0 else 128 - code
        self._ended = Ended(status, self._output.text(), self._output.pieces())
        self._on_end(self.pid, usage.ru_utime + usage.ru_stime)
        return self._ended

    def kill(self) -> None:
        with self._lock:
            if self._ended is None:
                os.killpg(self.pid, signal.SIGKILL)


class Agent:
    """Context manager: a stand-alone agent that splits some CPUs. Raises PlaceError if it does not start."""

    def __init__(self, program: str, policy: str, cpus: Sequence[int], path: Path, log: Path) -> None:
        self._command = ["taskset", "-c", format_cpu_list(cpus)]
        self._command += [program, "--standalone", "--policy", policy, "--socket", str(path)]
        self._path = path
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stderr=log, env=_environment(), start_new_session=True
            )
        with ExitStack() as stack:
            stack.callback(end_child, process, END_PATIENCE_S)
            with suppress(TimeoutError):
                until(lambda: self._accepts() or process.poll() is not None, "the agent has no socket")
            if process.poll() is not None or not self._accepts():
                raise PlaceError(f"the agent did not start: see {self._log}")
            stack.pop_all()
        self._process = process
        return process

    def _accepts(self) -> bool:
        return accepts(self._path, socket.SOCK_SEQPACKET)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end_child(self._process, END_PATIENCE_S)
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Way:
    """How a member's programs are started."""

    cpus: str
    environment: Mapping[str, str] = field(default_factory=dict)
    group: Path | None = None

    def words(self) -> list[str]:
        """What comes before the words of a program's command."""
        enter = ["sh", "-c", _ENTER, str(self.group)] if self.group is not None else []
        return [*enter, "taskset", "-c", self.cpus]


class NoVmPlace:
    """Members that are processes of this machine. directory: for the workloads' files and sockets."""

    def __init__(self, members: Sequence[str], pool: Sequence[int], directory: Path, logs: Path, path: str) -> None:
        self._pool = pool
        self._directory = directory
        self._logs = logs
        self._path = path
        self._ways = [_Way(format_cpu_list(pool)) for _ in members]
        self._watch: Watch | None = None
        self._running: set[NoVmStarted] = set()
        self._agents = 0
        self.members = members
        self.cpus = len(pool)
        self.on_one_cpu = f"taskset -c {pool[0]} "
        self.files = directory / "files"
        self.files.mkdir()
        self.description = f"{len(members)} programs without guests on {self.cpus} CPUs of this machine"

    def start(self, member: str, command: str, environment: Mapping[str, str]) -> NoVmStarted:
        way = self._ways[self.members.index(member)]
        watch = self._watch

        def on_end(pid: int, cpu_s: float) -> None:
            self._running.discard(started)
            if watch is not None:
                watch.end(pid, cpu_s)

        started = NoVmStarted(
            [*way.words(), "sh", "-c", command],
            self.files,
            {**_environment(), "PATH": self._path, **way.environment, **environment},
            on_end,
        )
        self._running.add(started)
        if watch is not None:
            watch.add(member, started.pid)
        return started

    def clock_ahead_s(self, member: str) -> float | None:
        return 0.0  # a process has the host's clock

    @contextmanager
    def arrange(self, arrangement: str, allocations: Sequence[int]) -> Iterator[Arranged]:
        before = self._ways
        with ExitStack() as stack:
            stack.callback(setattr, self, "_ways", before)
            settings = [
                setting(arrangement, self._pool, self.cpus, allocations, number) for number in range(len(self.members))
            ]
            baseline = [one for one in settings if one is not None]
            if baseline:
                self._ways = [_way(arrangement, one, stack) for one in baseline]
                yield WithoutDaemon()
                return
            check_policy(arrangement)
            self._agents += 1
            name = f"agent-{arrangement}-{self._agents}"
            path = self._directory / f"{name}.sock"
            program = shutil.which("vscaf-agent", path=self._path)
            if program is None:
                raise PlaceError("there is no vscaf-agent: build it with `make programs`, or install vscaf")
            agent = Agent(program, arrangement, self._pool, path, self._logs / f"{name}.log")
            process = stack.enter_context(agent)
            self._ways = [_Way(format_cpu_list(self._pool), {"VSCAF_SOCKET": str(path)}) for _ in self.members]
            yield WithoutDaemon("vscaf-run ", (process.pid,))

    def commands(self, arrangement: str, allocations: Sequence[int]) -> list[str]:
        """PROGRAM stands for the command of a program."""
        found: list[str] = []
        if arrangement == "unmanaged" or arrangement not in BASELINES:
            return found
        for number, member in enumerate(self.members):
            one = setting(arrangement, self._pool, self.cpus, allocations, number)
            assert one is not None, "it is a baseline"
            group = None
            if one.quota_us is not None:
                lines, group = group_commands(f"vscaf-{member}", one.quota_us * len(one.pins), QUOTA_PERIOD_US)
                found += lines
            way = _Way(_cpus(one), _settings(arrangement, one), group)
            found.append(
                f"{assignments(way.environment)}{shlex.join([*way.words(), 'PROGRAM'])}  # the {member} program"
            )
        return found

    def watch(self, helpers: Sequence[int]) -> Watch:
        self._watch = Watch(self._pool, {}, helpers, threads_of=tree_threads)
        return self._watch

    def close(self) -> None:
        """Ends all that still runs."""
        for started in list(self._running):
            started.kill()
            started.wait(END_PATIENCE_S)


def _way(arrangement: str, one: Setting, stack: ExitStack) -> _Way:
    group = None
    if one.quota_us is not None:
        group = stack.enter_context(quota_group(one.quota_us * len(one.pins), QUOTA_PERIOD_US))
    return _Way(_cpus(one), _settings(arrangement, one), group)


def _cpus(one: Setting) -> str:
    return format_cpu_list(frozenset().union(*one.pins))


def _settings(arrangement: str, one: Setting) -> dict[str, str]:
    """The variables of OpenMP."""
    variables = dict(one.environment)
    if arrangement == "pinned":
        places = ",".join(f"{{{cpu}}}" for pins in one.pins for cpu in pins)
        variables |= {"OMP_PROC_BIND": "true", "OMP_PLACES": places}
    if one.online < len(one.pins):
        variables["OMP_NUM_THREADS"] = str(one.online)
    return variables


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_REMOVED)}


def check_policy(arrangement: str) -> None:
    """Raises PlaceError if a stand-alone agent does not know the policy."""
    if arrangement not in AGENT_POLICIES:
        raise PlaceError(
            f"{arrangement}: without guests a stand-alone agent decides, and it has only these policies: "
            f"{', '.join(AGENT_POLICIES)}: choose among them with --arrangements"
        )


@contextmanager
def no_vm_place(
    names: Sequence[str], workloads: Sequence[Workload], arrangements: Sequence[str], cpus: int, output: Path
) -> Iterator[NoVmPlace]:
    """A place on *cpus* CPUs of this process.

    Raises PlaceError if there are too few of them, if a program of vscaf is missing, or for an unknown arrangement.
    """
    pool = own_pool(cpus)
    if STEAL_GOVERNOR in arrangements:
        raise PlaceError(f"{STEAL_GOVERNOR} is a driver of a guest's kernel: leave it out of --arrangements")
    for arrangement in arrangements:
        if arrangement not in BASELINES:
            check_policy(arrangement)
    build = Path(os.environ.get("VSCAF_BUILD", "build/meson")).resolve()
    parts = [workload_directory().resolve(), build / "guest-libgomp", build / "guest-agent"]
    path = os.pathsep.join([*map(str, parts), os.environ.get("PATH", os.defpath)])
    for workload in workloads:
        if workload.npb and not workload.files and shutil.which(workload.command, path=path) is None:
            raise PlaceError(f"there is no program {workload.command} in {parts[0]}: build it with `make programs`")
    with tempfile.TemporaryDirectory(prefix="vscaf-bench-") as temporary:
        place = NoVmPlace(names, pool, Path(temporary), output / "logs", path)
        for workload in workloads:
            workload.copy_files(place.files)
        try:
            yield place
        finally:
            place.close()
