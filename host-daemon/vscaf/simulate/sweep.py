"""Many runs at the same time, each in one of several processes; the outcomes are in the order of the jobs."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_double
from dataclasses import dataclass
from multiprocessing import connection
from typing import Protocol

from vscaf.simulate.engine.result import Run
from vscaf.simulate.engine.run import simulate
from vscaf.simulate.policies import find_policy, options_for
from vscaf.simulate.scenarios.scenario import Scenario

POLL_S = 0.2
"""How often the progress of the runs is read."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make. policy: as `find_policy` takes it."""

    scenario: Scenario
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed, and why, in one line."""

    scenario: str
    policy: str
    seed: int
    why: str


Outcome = Run | Failure


class Shares(Protocol):
    """How much of each job is done, 0..1, by the job's number."""

    def __getitem__(self, number: int, /) -> float: ...
    def __setitem__(self, number: int, share: float, /) -> None: ...


_done_in_worker: Shares | None = None
"""The parent's shared memory, where this worker process writes its progress."""


def run_all(
    jobs: Sequence[Job], processes: int, on_progress: Callable[[float], None] | None = None
) -> tuple[Outcome, ...]:
    """The outcome of each job, in the order of *jobs* whatever the number of processes.

    on_progress is called from time to time with the sum of the shares that are done (len(jobs) at the end). A run that
    fails, or kills its process, is a Failure, and the others go on. On KeyboardInterrupt the workers are ended.
    """
    report_progress = on_progress or (lambda share: None)
    if processes <= 1 or len(jobs) <= 1:
        return tuple(_one_after_the_other(jobs, report_progress))
    outcomes: dict[int, Outcome] = {}
    # A process that dies breaks the pool, and the pool does not tell which run it was. So all runs that were not done
    # are tried once more, each in a pool of its own.
    for number in _in_one_pool(jobs, range(len(jobs)), min(processes, len(jobs)), outcomes, report_progress):
        _in_one_pool(jobs, [number], 1, outcomes, report_progress)
        outcomes.setdefault(number, _failure(jobs[number], "its process was killed: is there enough memory?"))
    report_progress(len(jobs))
    return tuple(outcomes[number] for number in range(len(jobs)))


def _one_after_the_other(jobs: Sequence[Job], report_progress: Callable[[float], None]) -> Iterator[Outcome]:
    for number, job in enumerate(jobs):
        yield run_one(job, lambda share, before=number: report_progress(before + share))  # type: ignore[misc]
        report_progress(number + 1)


def _in_one_pool(
    jobs: Sequence[Job],
    numbers: Sequence[int],
    processes: int,
    outcomes: dict[int, Outcome],
    report_progress: Callable[[float], None],
) -> list[int]:
    """Runs jobs by number and writes *outcomes*; returns the numbers of those that were lost because a process died."""
    # Not "fork": a progress bar draws in a thread of its own, and a fork during that may hang.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    shares = context.Array(c_double, len(jobs), lock=False)
    for number in outcomes:
        shares[number] = 1.0
    with _workers(ProcessPoolExecutor(processes, context, _start_worker, (shares,))) as pool:
        waiting: dict[Future[Outcome], int] = {}
        lost: list[int] = []
        for number in numbers:
            try:
                waiting[pool.submit(_in_worker, number, jobs[number])] = number
            except BrokenProcessPool:  # the process of an earlier job has died already
                lost.append(number)
        while waiting:
            done, _ = wait(waiting, POLL_S, FIRST_COMPLETED)
            for future in done:
                number = waiting.pop(future)
                shares[number] = 1.0
                try:
                    outcomes[number] = future.result()
                except BrokenProcessPool:
                    lost.append(number)
            report_progress(sum(shares[number] for number in range(len(jobs))))
    return sorted(lost)


@contextmanager
def _workers(pool: ProcessPoolExecutor) -> Iterator[ProcessPoolExecutor]:
    """The pool. Its processes have ended afterwards; if something was raised, they are ended at once."""
    before = set(multiprocessing.active_children())
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    pool.shutdown()


def _start_worker(shares: Shares) -> None:
    global _done_in_worker  # noqa: PLW0603  (the only way to give shared memory to a pool's functions)
    _done_in_worker = shares
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this worker when its parent has been killed: otherwise it would go on until its run is done."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _in_worker(number: int, job: Job) -> Outcome:
    shares = _done_in_worker
    assert shares is not None

    def report_progress(share: float) -> None:
        shares[number] = share

    return run_one(job, report_progress)


def run_one(job: Job, on_progress: Callable[[float], None] | None = None) -> Outcome:
    """Makes the run of *job* in this process. on_progress: called with the share that is done, 0..1."""
    try:
        return simulate(
            job.scenario,
            job.policy,
            seed=job.seed,
            options=options_for(job.policy, job.scenario.policy_options),
            on_progress=on_progress,
            policy_function=find_policy(job.policy),
        )
    except Exception as error:  # noqa: BLE001  (a plug-in may raise anything, and the other runs must go on)
        reason = " ".join(str(error).split()) or "no reason given"
        return _failure(
            job, reason if type(error).__module__.startswith("vscaf") else f"{type(error).__name__}: {reason}"
        )


def _failure(job: Job, why: str) -> Failure:
    return Failure(job.scenario.name, job.policy, job.seed, why)


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))
