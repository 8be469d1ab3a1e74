"""How a session starts a workload: the variables that it needs, and those of the run."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from vscaf.bench.places.place import Ended
from vscaf.bench.samples import ALONE, RunKey, SampleFile
from vscaf.bench.session import Session, Timing
from vscaf.bench.workloads.workload import Workload


class Place:
    """A place in which every command ends at once, and which notes what was started."""

    members = ("first", "second")
    cpus = 2
    description = "nowhere"

    def __init__(self):
        self.started = []

    def start(self, member, command, environment):
        self.started.append((member, command, dict(environment)))
        return SimpleNamespace(wait=lambda timeout_s: Ended(0, ""), kill=lambda: None)

    def clock_ahead_s(self, member):
        return None

    @contextmanager
    def arrange(self, arrangement, allocations):
        launcher = "" if arrangement == "unmanaged" else "vscaf-run "
        yield SimpleNamespace(launcher=launcher, helpers=(), transitions=lambda: 0)

    @contextmanager
    def watch(self, helpers):
        load = SimpleNamespace(lost=0.0, disturbed=False)
        watched = SimpleNamespace(load=lambda *_: load, steady=lambda *_: None)
        yield SimpleNamespace(watched=lambda: watched)


@pytest.mark.parametrize(
    ("key", "command", "environment"),
    [
        (RunKey(1, ("cg.A",), ALONE, 1), "./cg.A.x", {"LD_LIBRARY_PATH": "lib", "OMP_NUM_THREADS": "1"}),
        (RunKey(1, ("cg.A",), ALONE), "./cg.A.x", {"LD_LIBRARY_PATH": "lib"}),
        (RunKey(1, ("cg.A",), "max-speedup"), "vscaf-run ./cg.A.x", {"LD_LIBRARY_PATH": "lib"}),
    ],
)
def test_a_workload_has_its_variables_in_each_arrangement(tmp_path, key, command, environment):
    place = Place()
    workload = Workload("cg.A", "./cg.A.x", environment={"LD_LIBRARY_PATH": "lib"})
    session = Session(
        place, {"cg.A": workload}, SampleFile(tmp_path / "samples", {}), Timing(0.0, 0.0), lambda line: None
    )
    session.run([key])
    assert place.started[0] == ("first", command, environment)
