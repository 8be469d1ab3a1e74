"""What one domain does or suffers affects only that domain. The real daemon runs on the simulated host."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest
from daemon_world import VCPUS, Trouble, World, in_world
from vscaf.config import DomainConfig, PolicyConfig
from vscaf.core.decide.decision import DecideMemory
from vscaf.core.fault_isolation import MOST_TRIES
from vscaf.daemon import loop
from vscaf.daemon.decider import Decider
from vscaf.daemon.operations import Operations
from vscaf.domains import registry
from vscaf.errors import HypervisorError
from vscaf.policy import loading as choice
from vscaf.simulate.engine.host import Latencies
from vscaf.values import MetadataRules, State
from vscaf_policies import DomainState, PoolState, SpeedupPoint
from vscaf_policies.equipartition import equipartition
from vscaf_policies.state import exploring

MINIMUM = {"good": DomainConfig(minimum=4)}
POISON = [(2, 2.0, 0.02), (4, 5e-324, 0.0), (8, 8.0, 0.02)]


async def good_wakes(world: World) -> None:
    """The resting domain `good` gets its pCPUs within a second, and its guest is told and answers."""
    world.computes("good")
    looks = await world.until(lambda: len(world.held("good")) >= 4 and world.domain("good").state == "cooperating", 8)
    assert looks >= 0, (world.domain("good").state, world.held("good"))
    if world.domain("evil").listed and world.domain("evil").transition.placed:  # else it may run anywhere
        assert world.held("good").isdisjoint(world.held("evil")) and world.reach("good") <= world.held("good")


@pytest.mark.parametrize("policy", ["max-speedup-fitted", "efficiency", "fair", "max-speedup", "priority"])
def test_an_impossible_speedup_stops_nobody(policy):
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil", points=POISON)
        for _ in range(14):
            await asyncio.sleep(0.25)
            world.agents["evil"].news()
        assert world.held("evil")
        await good_wakes(world)

    world = in_world(work, "evil", "good", policy=policy, rules=MINIMUM)
    assert not world.events("refused")


def raising_by_points_of(*names):
    @exploring
    def policy(pool, options):
        for one in pool.domains:
            if one.name in names and (one.points or one.scaf_weight is not None):
                raise ZeroDivisionError(f"curve of {one.name}")
        return equipartition(pool, options)

    return policy


def test_a_policy_that_raises_decides_again_without_the_points_that_make_it_raise():
    async def work(world):
        world.daemon.use_policy(PolicyConfig(name="theirs"), raising_by_points_of("evil"))
        await asyncio.sleep(0.5)
        for name in ("evil", "other"):
            world.computes(name, points=[(4, 3.0, 0.1), (8, 5.0, 0.1)])
        assert await world.until(lambda: bool(world.events("fault", "evil"))) >= 0
        await good_wakes(world)
        assert world.held("evil") and world.held("other")

    world = in_world(work, "evil", "good", "other", rules=MINIMUM)
    assert {one.domain for one in world.events("fault")} == {"evil"}
    assert len(world.events("fault")) == 1 and "curve of evil" in world.events("fault")[0].why


def test_a_policy_that_always_raises_is_replaced_by_equal_shares():
    def policy(pool, options):
        raise KeyError("whatever it is given")

    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        world.daemon.use_policy(PolicyConfig(name="theirs"), policy)
        await good_wakes(world)
        world.daemon.use_policy(PolicyConfig(name="equipartition"), equipartition)

    world = in_world(work, "evil", "good", rules=MINIMUM)
    (event,) = world.events("refused")
    assert event.domain is None and "theirs" in event.why and "equal shares" in event.why


def failing_for_evil(function, at=0):
    def wrapped(*args):
        if args[at].name == "evil":
            raise ZeroDivisionError("nobody has thought of this")
        return function(*args)

    return wrapped


def test_a_look_that_raises_for_one_domain_goes_on_for_the_others(monkeypatch):
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil", points=[(4, 3.0, 0.1), (8, 5.0, 0.1)])
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        monkeypatch.setattr(registry, "infer", failing_for_evil(registry.infer))
        assert await world.until(lambda: world.domain("evil").state == "contained", 4) >= 0
        await good_wakes(world)
        # It is contained: all its vCPUs float over its partition.
        assert set(world.pins("evil").values()) == {world.held("evil")}
        monkeypatch.undo()
        assert await world.until(lambda: world.domain("evil").state == "cooperating", 200) >= 0

    world = in_world(work, "evil", "good", rules=MINIMUM)
    (event,) = world.events("fault")
    assert event.domain == "evil" and "nobody has thought of this" in event.why
    assert [one.domain for one in world.events("recovered")] == ["evil"]


def test_a_guest_whose_words_raise_is_contained(monkeypatch):
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        world.agents["evil"].online = 5  # the wire's checks refuse this, but they cannot foresee everything
        world.agents["evil"].news()
        assert await world.until(lambda: world.domain("evil").state == "contained", 4) >= 0
        await good_wakes(world)

    world = in_world(work, "evil", "good", rules=MINIMUM)
    assert [one.domain for one in world.events("fault")] == ["evil"]


@pytest.mark.parametrize("broken", ["hear", "words"])
def test_steps_that_raise_for_one_domain_are_taken_for_the_others(monkeypatch, broken):
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        if broken == "hear":
            monkeypatch.setattr(world.domain("evil"), "process_reports", lambda: 1 / 0)
        else:
            world.agents["evil"].send = lambda message: 1 / 0
            world.computes("evil", 2)
        await good_wakes(world)
        monkeypatch.undo()
        world.agents["evil"].send = lambda message: True

    world = in_world(work, "evil", "good", rules=MINIMUM)
    assert [one.domain for one in world.events("fault")] == ["evil"]


def test_a_step_that_cannot_be_worked_out_for_one_domain_is_for_the_others(monkeypatch):
    real = loop.next_steps

    def next_steps(transitions, goals, *rest):
        if "evil" in transitions and not transitions["evil"].moving:
            raise ZeroDivisionError("nobody has thought of this")
        return real(transitions, goals, *rest)

    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        assert await world.until(lambda: world.domain("evil").state == "cooperating") >= 0
        monkeypatch.setattr(loop, "next_steps", next_steps)
        before = world.reach("evil")
        await good_wakes(world)
        assert world.reach("evil") == before and before.isdisjoint(world.held("good"))
        monkeypatch.undo()
        assert await world.until(lambda: len(world.events("recovered", "evil")) == 1, 200) >= 0

    world = in_world(work, "evil", "good", rules=MINIMUM)
    assert [one.domain for one in world.events("fault")] == ["evil"]


def test_whose_pins_could_not_be_read_for_a_moment_is_pinned_as_before():
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: world.domain("evil").state == "cooperating") >= 0
        before = world.pins("evil")
        world.on_pins = lambda: pinned.append(world.pins("evil"))
        world.host.trouble[world.keys["evil"]] = Trouble({"settings"}, HypervisorError("no"))
        world.daemon.tuned(world.keys["evil"])
        assert await world.until(lambda: world.domain("evil").state == "unknown") >= 0
        world.host.trouble.clear()
        assert await world.until(lambda: world.domain("evil").state == "cooperating") >= 0
        assert world.pins("evil") == before and not pinned
        world.on_pins = lambda: None

    pinned = []
    in_world(work, "evil", latencies=Latencies(call_s=0.06))


@pytest.mark.parametrize("broken", ["observe", "pool_state", "adopt", "place"])
def test_an_unforeseen_exception_of_a_look_is_said_and_the_daemon_goes_on(monkeypatch, broken):
    def fails(*args, **options):
        raise ZeroDivisionError("nobody has thought of this")

    async def work(world):
        await asyncio.sleep(0.5)
        if broken == "observe":
            world.host.fault = lambda call, key: fails() if call == "observe" else None
        elif broken == "adopt":
            monkeypatch.setattr(world.daemon.registry.adoption, "adopt", fails)
        elif broken == "place":
            monkeypatch.setattr(loop, "place", fails)
        else:
            monkeypatch.setattr(world.daemon, broken, fails)
        world.computes("evil")
        await asyncio.sleep(2.0)
        monkeypatch.undo()
        world.host.fault = lambda call, key: None
        await good_wakes(world)

    world = in_world(work, "evil", "good", rules=MINIMUM)
    events = [one for one in world.daemon.events.since(0) if "nobody has thought of this" in one.why]
    assert len(events) == 1


def test_a_call_that_raises_what_nobody_has_thought_of_is_its_domains_alone():
    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0

        def fault(call, key):
            if key == world.keys["evil"]:
                calls[call] += 1
                raise ZeroDivisionError("nobody has thought of this")

        world.host.fault = fault
        await good_wakes(world)
        world.computes("evil", 1)
        await asyncio.sleep(60.0)
        world.host.fault = lambda call, key: None

    calls = Counter()
    world = in_world(work, "evil", "good", rules=MINIMUM)
    assert calls.total() <= 20, "calls are not repeated later and later"
    assert {one.domain for one in world.events("fault")} == {"evil"}


def test_giving_a_domain_back_stands_in_no_looks_way():
    """The owner removes the domain's metadata while a plug of six seconds is under way."""

    def prepare(world):
        world.keys["evil"] = world.host.start("evil", 2, 8, rules=MetadataRules())
        world.found["evil"] = world.pins("evil")

    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(world.domain("evil").lock.locked, 60) >= 0
        await asyncio.sleep(0.3)
        world.host.domains[world.keys["evil"]].rules = None
        world.daemon.wake()
        await asyncio.sleep(0.3)
        assert world.domain("evil").found is not None
        await good_wakes(world)
        assert world.domain("evil").found is not None, "given back during the plug"
        assert await world.until(lambda: world.keys["evil"] not in world.daemon.managed, 60) >= 0

    in_world(work, "good", prepare=prepare, rules=MINIMUM, latencies=Latencies(plug_s=6.0))


def test_a_policy_that_leaves_all_alone_gives_back_beside_the_looks():
    async def work(world):
        await asyncio.sleep(0.5)
        for name in ("evil", "good"):
            world.computes(name)
        assert await world.until(lambda: all(world.held(name) for name in world.keys)) >= 0
        await world.domain("evil").lock.acquire()  # a call on it that hangs
        world.daemon.use_policy(PolicyConfig(name="unmanaged"), lambda pool, options: None)
        assert await world.until(lambda: world.domain("good").found is None, 8) >= 0
        looks = world.host.looks
        await asyncio.sleep(2.0)
        assert world.host.looks > looks
        world.domain("evil").lock.release()
        assert await world.until(lambda: world.domain("evil").found is None, 8) >= 0

    in_world(work, "evil", "good")


@pytest.mark.parametrize("error", [HypervisorError("no"), ZeroDivisionError("nobody has thought of this")])
def test_what_fails_again_and_again_is_tried_later_and_later(error):
    """A domain that cannot be read is not managed, and one that cannot be given back keeps its journal entry."""
    calls = Counter()

    def fault(call, key):
        if key is not None and call == "settings" and failing:
            calls[call] += 1
            raise error

    failing = True

    async def work(world):
        nonlocal failing
        world.host.fault = fault
        await asyncio.sleep(60.0)
        assert world.domain("evil").found is None
        assert calls["settings"] <= 20, "to be managed"
        failing = False
        assert await world.until(lambda: world.domain("evil").found is not None, 60) >= 0
        world.computes("evil")
        assert await world.until(lambda: len(world.held("evil")) == VCPUS) >= 0
        failing = True
        calls.clear()
        await world.daemon.registry.release.leave_alone(world.domain("evil"), State.RELEASED, "by request")
        await asyncio.sleep(60.0)
        assert world.domain("evil").found is not None
        assert calls["settings"] <= 20, "to be given back"
        failing = False
        assert await world.until(lambda: world.domain("evil").found is None, 60) >= 0

    in_world(work, "evil")


def test_many_domains_at_fault_cost_a_bounded_number_of_decisions():
    """Twenty of two hundred domains are at fault. They do not stop the rest, and a look asks the policy a few times."""
    names = [f"d{number:03}" for number in range(200)]
    bad = set(names[::10])
    asked: list[int] = []

    @exploring
    def policy(pool, options):
        asked[-1] += 1
        for one in pool.domains:
            if one.name in bad and one.points:
                raise ZeroDivisionError(one.name)
        return equipartition(pool, options)

    points = (SpeedupPoint(4, 3.0, 0.1, 8),)
    pool = PoolState(
        800, 1, 0.0,
        tuple(
            DomainState(name, 1, 8, 1.0, 8, 0, may_rest=True, scaf_weight=None, newcomer=False, points=points)
            for name in names
        ),
    )  # fmt: skip
    decider, found = Decider(0.0), set()
    for _look in range(20):
        asked.append(0)
        known = [replace(one, points=() if one.name in found else points) for one in pool.domains]
        decision = decider.decide(replace(pool, domains=tuple(known)), policy, {}, DecideMemory())
        assert sum(decision.allocations.values()) == 800
        assert set(decider.faults) <= bad and decider.policy_error is None
        found |= decider.faults.keys()
        if not decider.faults:
            break
    assert found == bad
    assert max(asked) <= MOST_TRIES + 1


def test_a_release_of_all_waits_for_all_at_once():
    """Each guest has a deadline to use its CPUs again. The release takes as long as the slowest, not as their sum."""
    names = [f"d{number:02}" for number in range(12)]

    async def work(world):
        await asyncio.sleep(0.5)
        for name in names:
            world.computes(name, 2)
        assert await world.until(lambda: all(world.held(name) for name in names)) >= 0
        for agent in world.agents.values():
            agent.acknowledges = False
        begun_s = asyncio.get_running_loop().time()
        assert await Operations(world.daemon).release(None) == names
        assert asyncio.get_running_loop().time() - begun_s < 2 * world.daemon.config.deadline_ms / 1000, "virtual"

    in_world(work, *names, cpus=30)


def test_guests_are_heard_while_a_policy_is_loaded(monkeypatch):
    loaded_in = []

    def load(name):
        loaded_in.append(threading.current_thread())
        return equipartition

    monkeypatch.setattr(choice, "load_policy", load)

    async def set_and_go_back():
        world = World("a")
        loaded_in.clear()
        operations = Operations(world.daemon)
        await operations.set_policy("theirs", {})
        assert world.daemon.policy_name == "theirs"
        assert await operations.rollback_policy() == "max-speedup"
        await world.daemon.close()

    asyncio.run(set_and_go_back())
    assert len(loaded_in) == 2 and threading.main_thread() not in loaded_in


@pytest.mark.parametrize("call", ["pin_vcpus", "pin_emulator"])
@pytest.mark.parametrize("hangs_s", [0.0, 30.0])
def test_a_domain_that_can_never_be_pinned_keeps_nobody_from_its_partition(call, hangs_s):
    """It runs where it was found, which is everywhere. A domain that waited for it would wait for ever."""

    def prepare(world):
        world.host.trouble[world.keys["evil"]] = Trouble({call}, HypervisorError("no"), hangs_s)

    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        await good_wakes(world)
        world.host.trouble.clear()
        assert await world.until(lambda: world.domain("evil").state == "cooperating", 200) >= 0
        assert world.reach("evil").isdisjoint(world.reach("good"))

    in_world(work, "evil", "good", prepare=prepare, rules=MINIMUM)


@pytest.mark.parametrize("hangs_s", [0.0, 30.0])
def test_who_cannot_be_moved_keeps_what_it_may_run_on_and_others_are_placed_beside_it(hangs_s):
    """Calls on it fail when it should leave its pCPUs. No other domain waits for these pCPUs, and none gets them."""

    async def work(world):
        await asyncio.sleep(0.5)
        world.computes("evil")
        assert await world.until(lambda: world.domain("evil").state == "cooperating") >= 0
        stays = world.held("evil")
        world.host.trouble[world.keys["evil"]] = Trouble(frozenset(), HypervisorError("no"), hangs_s)
        world.computes("evil", 0)
        await asyncio.sleep(0.3)
        await good_wakes(world)
        assert world.held("evil") == stays
        assert len(world.held("good")) == 4
        world.host.trouble.clear()
        assert await world.until(lambda: not world.held("evil"), 200) >= 0
        assert await world.until(lambda: len(world.held("good")) == VCPUS) >= 0

    in_world(work, "evil", "good", rules=MINIMUM, cpus=2 + VCPUS + 4)
