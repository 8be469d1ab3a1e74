"""Made-up samples of a bench, whose figures are known."""

from collections.abc import Sequence

from vscaf.bench.report.context import ReportContext
from vscaf.bench.samples import ALONE, Execution, ProgramSample, RunKey, Sample

SECONDS = 10.0


def executions(rate: float, seconds: float = SECONDS, *, verified: bool = True) -> tuple[Execution, ...]:
    """Executions without a gap from 0 to *seconds* or later, *rate* of them a second."""
    count = int(seconds * rate) + 1
    return tuple(Execution(number / rate, (number + 1) / rate, verified) for number in range(count))


def run(
    number: int,
    workloads: Sequence[str],
    arrangement: str,
    rates: Sequence[float],
    *,
    threads: int = 0,
    allocations: tuple[int, ...] = (),
    attempt: int = 1,
    disturbed: bool = False,
    verified: bool = True,
    pace: float | None = None,
) -> Sample:
    """A run of round *number* in which each program does its work so many times a second. pace: of the CPUs, if it was
    measured: then so many steady seconds pass in a second."""
    programs = tuple(
        ProgramSample(name, member, executions(rate, verified=verified), None if pace is None else pace * SECONDS)
        for name, member, rate in zip(workloads, ("first", "second", "third"), rates, strict=False)
    )
    key = RunKey(number, tuple(workloads), arrangement, threads, allocations)
    at = f"2026-11-24T10:{number:02}:00+00:00"
    return Sample(key, attempt, at, (0.0, SECONDS), programs, 0, 0.2 if disturbed else 0.0, disturbed)


def alone(
    number: int, name: str, rate: float, speedup: float | None = None, *, disturbed: bool = False
) -> list[Sample]:
    """A program alone on one thread and, if a speedup is given, on all CPUs."""
    one = [run(number, [name], ALONE, [rate], threads=1, disturbed=disturbed)]
    return one if speedup is None else [*one, run(number, [name], ALONE, [rate * speedup], disturbed=disturbed)]


CONTEXT = ReportContext(
    command="vscaf bench pairs --workloads 'a<b'",
    place="2 guests of 2 vCPUs on 2 pCPUs, TCG",
    cpus=2,
    settings={"seconds": 10.0, "rounds": 3},
    baselines={"unmanaged": [], "static": ["virsh vcpupin first 0 0"]},
    machine={"cpu": "A processor & more", "cpus": 2, "kernel": "6.1", "system": "Debian", "load_at_start": 0.25},
    versions={"vscaf": "0.1.0", "libvirt": "9.0.0"},
)
