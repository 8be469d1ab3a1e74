"""`make bench-scaled`: unequal splits on a scaled machine, one guest of six slow CPUs with a stand-alone agent.

Two programs run again and again in the guest. `scaled.vs_ARRANGEMENT` are ratios of sums of speedups in steady state,
under max-speedup, to the best split by hand (oracle), to equal shares by hand (equal), and to waiting asleep alone
(passive). `scaled.settled_s` is the time from the second program's start to 90% of the final sum. The gate is measured
first; if it fails, there are no figures. OUTPUT/scaled keeps each run: an interrupted bench goes on from there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from vscaf.bench.machine import build_identity
from vscaf.bench.places.no_vm import AGENT_POLICIES
from vscaf.bench.places.place import PlaceError
from vscaf.bench.samples import ALONE, RunKey
from vscaf.bench.session import Session, Timing
from vscaf.bench.workloads.shipped import shipped
from vscaf.errors import UsageError, VscafError
from vscaf.journal import BENCH_PATIENCE_S, Lock
from vscaf.lab.processes import no_child_left, signals_exit

from .bench_guest import PATHS
from .report import Report
from .scaled_figures import scaled_figures
from .scaled_gate import GateError, measure_gate
from .scaled_guest import CPUTUNE, VCPUS, scaled_guest
from .scaled_place import ScaledPlace
from .scaled_plan import ARRANGEMENTS, PAIRS, QUICK_ARRANGEMENTS, QUICK_PAIRS, REPEAT, pairs_named, plan
from .scaled_report import POLICY, fill, pair_table
from .scaled_state import State
from .scaled_timeline import timeline


@dataclass(frozen=True)
class Times:
    """How long the programs of a run compute together, in seconds: under the policy that learns, under another policy,
    and otherwise."""

    learning_s: float
    policy_s: float
    other_s: float

    def timing(self, key: RunKey) -> Timing:
        """That of a run."""
        if key.arrangement == ALONE:
            return Timing(self.other_s, (0.0,))
        policies = dict.fromkeys(AGENT_POLICIES, self.policy_s) | {POLICY: self.learning_s}
        return Timing(policies.get(key.arrangement, self.other_s), (0.0, DELAY_S))


ROUNDS = 3
SECONDS = Times(learning_s=80.0, policy_s=30.0, other_s=12.0)
QUICK_SECONDS = Times(learning_s=40.0, policy_s=20.0, other_s=8.0)
ATTEMPTS, ATTEMPTS_ALONE = 2, 3  # of a disturbed run; every figure needs that of the program alone
DELAY_S = 4.0  # after the first program's start, the second one's


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-scaled", description=__doc__.splitlines()[0])
    for option, (default, text) in PATHS.items():
        parser.add_argument(f"--{option}", type=Path, default=Path(default), help=text)
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="directory for scaled.json")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK") == "1", help="fewer runs")
    parser.add_argument("--only", action="append", metavar="PAIR", help="such as ep+is or ep.S+mg.S; may be repeated")
    parser.add_argument("--arrangements", metavar="NAME,...", help=f"{', '.join(ARRANGEMENTS)}, or a split like 5+1")
    parser.add_argument("--seconds", type=float, help="for which two programs compute together under a policy")
    parser.add_argument("--rounds", type=int, help=f"default: {ROUNDS}; with --quick or --only: 1")
    parser.add_argument("--restart", action="store_true", help="do not use runs that were measured before")
    parser.add_argument("--without-gate", action="store_true", help="for developers: only a table, and no scaled.json")
    return parser.parse_args()


@signals_exit()
@no_child_left()
def measure(given: argparse.Namespace, console: Console) -> int:
    """The bench; its exit status. Raises VscafError."""
    pairs = pairs_named(given.only) if given.only else list(QUICK_PAIRS if given.quick else PAIRS)
    chosen = given.arrangements.split(",") if given.arrangements else None
    arrangements = chosen or (QUICK_ARRANGEMENTS if given.quick else ARRANGEMENTS)
    times = QUICK_SECONDS if given.quick else SECONDS
    if given.seconds:
        times = replace(times, learning_s=given.seconds, policy_s=given.seconds)
    rounds = given.rounds or (1 if given.quick or given.only else ROUNDS)
    attempts = 1 if given.only else ATTEMPTS
    keys = plan(pairs, arrangements, VCPUS, rounds)
    names = sorted({name for key in keys for name in key.workloads})
    workloads = {
        one.name: replace(one, environment={"NPB_REPEAT": str(REPEAT.get(one.name, 1))}) for one in shipped(names)
    }
    settings = {
        "build": build_identity(given.image, no_vm=False),
        "vcpus": VCPUS,
        "cputune": CPUTUNE,
        "times": asdict(times),
        "delay_s": DELAY_S,
        "repeat": REPEAT,
    }
    directory = given.output / "scaled"
    directory.mkdir(parents=True, exist_ok=True)

    def print_line(text: str) -> None:
        console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {text}", highlight=False)

    with closing(Lock(directory / "lock", "bench", f"--output {given.output}", BENCH_PATIENCE_S)):
        state = State(directory, settings, restart=given.restart)
        print_line(f"each run is kept in {state.directory}")
        gate = None
        with scaled_guest(given.image, state.directory / "logs", given.cache) as (guest, pool):
            place = ScaledPlace(guest, pool)
            print_line(place.description)
            if not given.without_gate:
                gate = measure_gate(place)
                console.print(gate.text(), highlight=False)
                if gate.failures():
                    failed = "; ".join(gate.failures())
                    raise GateError(f"no figures, because the gate failed: {failed}: leave the machine alone meanwhile")

            session = Session(
                place,
                workloads,
                state.samples,
                times.timing,
                print_line,
                on_run=lambda sample, watched: state.keep(sample, watched, place.status),
                attempts=lambda key: ATTEMPTS_ALONE if key.arrangement == ALONE else attempts,
            )
            session.run(keys)
    found, cells = state.samples_of(keys), state.cells()
    console.print(pair_table(found, cells))
    if given.only:
        for sample in found:
            if sample.key.arrangement in AGENT_POLICIES:
                lines = timeline(sample, cells[sample.key, sample.attempt])
                console.print(f"{sample.key.name}: the split over time", *lines, sep="\n", highlight=False)
    status = 0
    if not scaled_figures(found, cells).verified:
        status = 1
        print("a program's verification failed: see above")
    if gate is None:
        return status
    report = Report("scaled", details={"gate": gate.as_json(), "settings": settings})
    fill(report, found, cells)
    print(report.table())
    if not any(one.ratio for one in report.results):
        print("there are no ratios, because no undisturbed run is there to compare: leave the machine alone meanwhile")
    print(f"written to {report.write(given.output)}")
    return status


def main() -> None:
    given = parsed()
    console = Console(width=shutil.get_terminal_size((120, 40)).columns)
    try:
        sys.exit(measure(given, console))
    except (GateError, PlaceError, UsageError, VscafError) as error:
        sys.exit(f"bench-scaled: {error}")


if __name__ == "__main__":
    main()
