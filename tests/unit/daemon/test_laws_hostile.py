"""The laws of laws.py hold in the real daemon, with random hostile guests and failing calls next to honest domains."""

import asyncio
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from daemon_world import VCPUS, Trouble, World, in_world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import Laws
from vscaf.agentlink.messages import Allocate
from vscaf.config import DomainConfig
from vscaf.core.reconcile.steps import _Stepper
from vscaf.domains.containment import Containment
from vscaf.domains.registry import Registry
from vscaf.domains.release import Release
from vscaf.errors import DomainGone, HypervisorError, HypervisorUnreachable, NotSupported
from vscaf_policies import Options, PoolState, equipartition

HONEST = {"first": 3, "second": 4}
HOSTILE = {"evil": 4, "worse": VCPUS}
"""The most CPUs that they may have. Calls fail only for `evil`: what it then keeps leaves room for all minima."""

CALLS = (
    "settings",
    "pin_vcpus",
    "pin_emulator",
    "set_cpu_shares",
    "plug",
)
CALL_TIMEOUT_S = 5.0
ERRORS = (
    HypervisorError("no"),
    HypervisorUnreachable("no answer"),
    DomainGone("it has ended"),
    NotSupported("never"),
    ZeroDivisionError("nobody has thought of this"),
    ValueError("a pin to no pCPU"),
)

absurd = st.one_of(
    st.floats(0.0, 1e6),
    st.sampled_from([5e-324, 1e-300, 1e-9, 1e6, -1.0, 1e300, math.inf, math.nan]),
)
points = st.lists(st.tuples(st.integers(-1, 5000), absurd, absurd), max_size=5)


@dataclass(frozen=True)
class Says:
    """The agent reports these figures, whatever its program does."""

    demand: int
    points: list[Any] = field(default_factory=list)
    team: int = VCPUS
    quiet: bool = False

    def __call__(self, world: World, name: str) -> None:
        world.agents[name].says(self.demand, self.points, self.team, quiet=self.quiet)
        world.agents[name].news()


@dataclass(frozen=True)
class Computes:
    """Its vCPUs use this many CPUs, and its agent does not report it."""

    cpus: int

    def __call__(self, world: World, name: str) -> None:
        world.host.compute(world.keys[name], dict.fromkeys(range(self.cpus), 1.0))


@dataclass(frozen=True)
class Garbage:
    """A value that the wire's checks never let through, so that something unforeseen happens in the daemon."""

    attribute: str
    value: Any
    news: bool

    def __call__(self, world: World, name: str) -> None:
        setattr(world.agents[name], self.attribute, self.value)
        if self.news:
            world.agents[name].news()


@dataclass(frozen=True)
class Online:
    """The CPUs that its agent reports online."""

    cpus: tuple[int, ...]

    def __call__(self, world: World, name: str) -> None:
        world.agents[name].online = self.cpus
        world.agents[name].news()


@dataclass(frozen=True)
class Flaps:
    """Its demand comes and goes, each time with news. quiet: in between its agent says that it sends no more."""

    times: int
    quiet: bool = False

    def __call__(self, world: World, name: str) -> None:
        async def flap() -> None:
            for number in range(self.times):
                world.agents[name].says(VCPUS * (number % 2), quiet=self.quiet and number % 2 == 0)
                world.agents[name].news()
                await asyncio.sleep(0.03)

        world.tasks.append(asyncio.create_task(flap()))


@dataclass(frozen=True)
class Floods:
    """Calls news many times with nothing new. hellos: it also says hello each time."""

    times: int
    hellos: bool

    def __call__(self, world: World, name: str) -> None:
        for _ in range(self.times):
            if self.hellos:
                world.agents[name].hello()
            world.agents[name].news()


@dataclass(frozen=True)
class Acknowledges:
    """It acknowledges a number that it was sent once, or was never sent. which None: it acknowledges each message."""

    which: int | None

    def __call__(self, world: World, name: str) -> None:
        agent = world.agents[name]
        agent.acknowledges = self.which is None
        allocations = [one for one in agent.received if isinstance(one, Allocate)]
        if self.which is not None and allocations:
            agent.acknowledged = allocations[self.which % len(allocations)].sequence - self.which % 2
        agent.news()


@dataclass(frozen=True)
class FallsSilent:
    """Its last report is this old."""

    silent_s: float
    connected: bool

    def __call__(self, world: World, name: str) -> None:
        world.agents[name].silent_s, world.agents[name].connected = self.silent_s, self.connected
        world.agents[name].news()


@dataclass(frozen=True)
class CallsFail:
    """From now on these calls on it fail."""

    calls: frozenset[str]
    error: Exception
    hangs_s: float

    def __call__(self, world: World, name: str) -> None:
        world.host.trouble[world.keys[name]] = Trouble(self.calls, self.error, self.hangs_s)


@dataclass(frozen=True)
class CallsWork:
    """From now on all calls on it work."""

    def __call__(self, world: World, name: str) -> None:
        world.host.trouble.pop(world.keys[name], None)


broken = st.sampled_from(
    [None, 5, "x", SimpleNamespace(), SimpleNamespace(demand=None, busy=0.0, online=[], processes=[])]
)
acts = st.one_of(
    st.builds(Says, st.integers(0, 4096), points, st.integers(0, 4096)),
    st.builds(Says, st.just(VCPUS), points, quiet=st.booleans()),
    st.builds(Computes, st.integers(0, VCPUS)),
    st.builds(Garbage, st.sampled_from(["report", "online", "acknowledged", "generation"]), broken, st.booleans()),
    st.builds(Online, st.lists(st.integers(0, 20), max_size=8, unique=True).map(tuple)),
    st.builds(Flaps, st.integers(1, 30), st.booleans()),
    st.builds(Floods, st.integers(1, 100), st.booleans()),
    st.builds(Acknowledges, st.one_of(st.none(), st.integers(0, 50))),
    st.builds(FallsSilent, st.sampled_from([0.0, 0.7, 2.0, math.inf]), st.booleans()),
)
failing = st.builds(
    CallsFail,
    st.frozensets(st.sampled_from(CALLS)),
    st.sampled_from(ERRORS),
    st.sampled_from([0.0, 0.0, CALL_TIMEOUT_S]),
)
deeds = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 6), st.sampled_from(sorted(HOSTILE)), acts),
        st.tuples(st.integers(1, 6), st.just("evil"), st.one_of(failing, st.just(CallsWork()))),
    ),
    max_size=10,
)
phases = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(sorted(HONEST)), st.sampled_from([0, VCPUS])),
    min_size=1,
    max_size=4,
)


def run(policy: str, hostile: list[Any], honest: list[Any], early: Any = None) -> World:
    """Lists of (periods after the one before in its list, domain, act or CPUs). early: what is done to `evil` first."""

    def prepare(world: World) -> None:
        world.laws = Laws(world, sorted(HONEST), HONEST, equal=policy == "equipartition")
        if early is not None:
            early(world, "evil")

    async def work(world: World) -> None:
        plan: dict[int, list[Any]] = {}
        at = 4
        for after, name, act in hostile:
            at += after
            plan.setdefault(at, []).append(lambda act=act, name=name: act(world, name))
        wanting, at = dict.fromkeys(HONEST, 0), 4
        for after, name, cpus in honest:
            at += after

            def phase(name: str = name, cpus: int = cpus) -> None:
                wanting[name] = cpus
                world.computes(name, cpus, [(cpus, 0.8 * cpus, 0.1)] if cpus > 1 else ())

            plan.setdefault(at, []).append(phase)
        for name in HOSTILE:
            plan.setdefault(4, []).append(lambda name=name: world.computes(name))
        for period in range(max(plan) + 16):
            for act in plan.get(period, ()):
                act()
            await asyncio.sleep(world.daemon.config.period_ms / 1000 + 0.01)
            world.laws.period(wanting)
        for task in world.tasks:
            await task
        world.host.trouble.clear()

    rules = {name: DomainConfig(minimum=least) for name, least in HONEST.items()}
    rules |= {name: DomainConfig(maximum=most) for name, most in HOSTILE.items()}
    return in_world(work, *HOSTILE, *sorted(HONEST), prepare=prepare, rules=rules, policy=policy)


@pytest.mark.parametrize("policy", ["equipartition", "max-speedup", "max-speedup-fitted", "fair", "priority"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deeds, phases, st.one_of(st.none(), failing))
def test_whatever_others_do_the_laws_hold_for_honest_domains(policy, hostile, honest, early):
    run(policy, hostile, honest, early)


HARD: list[Any] = [
    (1, "worse", Acknowledges(0)),
    (3, "evil", Says(VCPUS, [(4, 5e-324, 0.0), (8, 8.0, 0.1)])),
    (1, "worse", Flaps(10)),
    (1, "evil", Garbage("report", 5, news=False)),
]
BUSY: list[Any] = [(2, "first", VCPUS), (14, "second", VCPUS)]
NEVER_PINNED = CallsFail(frozenset({"pin_vcpus"}), HypervisorError("no"), 0.0)


def test_the_laws_hold_in_the_run_in_which_they_are_broken_below():
    run("equipartition", HARD, BUSY, NEVER_PINNED)


def test_a_liar_that_says_quiet_gets_what_its_vcpus_show():
    async def work(world: World) -> None:
        assert await world.until(lambda: len(world.daemon.managed) == len(world.agents) == 2) >= 0
        world.computes("first", VCPUS)
        Says(VCPUS, [(8, 8.0, 0.1)], quiet=True)(world, "evil")
        for _ in range(16):
            await asyncio.sleep(world.daemon.config.period_ms / 1000)
            assert world.domain("evil").inferred.demand == 0 and not world.held("evil")
        Computes(VCPUS)(world, "evil")  # it says nothing new
        assert await world.until(lambda: bool(world.held("evil"))) >= 0
        Computes(0)(world, "evil")
        assert await world.until(lambda: not world.held("evil")) >= 0

    in_world(work, "evil", "first")


def no_barrier(self: Containment, domain: object, doing: str) -> AbstractContextManager[None]:
    return nullcontext()


async def nothing(*given: Any) -> bool:
    return True


async def never(*given: Any) -> None:
    await asyncio.get_running_loop().create_future()


def for_the_hostile(pool: PoolState, options: Options) -> dict[str, int]:
    return {one.name: one.maximum if one.name in HOSTILE else one.minimum for one in pool.domains}


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        pytest.param(_Stepper, "holders", lambda self, name, cpus: (), "runs on", id="separate: nobody is waited for"),
        pytest.param(
            _Stepper, "placement_overdue", lambda self, name: False, "is due", id="served: all are waited for"
        ),
        pytest.param(Containment, "around", no_barrier, "is due", id="served: a look ends for all"),
        pytest.param(equipartition, "equipartition", for_the_hostile, "is due 4", id="fair: the hostile get all"),
        pytest.param(Registry, "note", never, "no look", id="alive: a look waits for one domain"),
        pytest.param(Release, "_give_back_one", nothing, "pins", id="restored: nothing is"),
    ],
)
def test_each_law_fails_where_the_code_is_broken(monkeypatch, where, name, broken, law):
    monkeypatch.setattr(where, name, broken)
    with pytest.raises(AssertionError, match=law):
        run("equipartition", HARD, BUSY, NEVER_PINNED)
