"""Pool states to try a policy on: makes many kinds from one seed, makes a state smaller, writes it as Python."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import lru_cache
from random import Random

from vscaf_policies.state import DomainState, Options, PoolState, SpeedupPoint

Changes = dict[str, object]

_IMPORTS = "from vscaf_policies import DomainState, PoolState, SpeedupPoint"
_OPTIONAL = {"priority": 0, "ipc": None}
"""Fields of DomainState with a default, which as_python leaves out."""


@lru_cache(maxsize=2)
def pool_states(seed: int = 0) -> tuple[PoolState, ...]:
    """Valid pool states of every kind that vscaf may give a policy; the same for the same seed, in any process.

    They have 0 to 1000 domains, more domains than chunks, chunks of 1, 2 and 4 CPUs, bounds that are tight or leave no
    choice, speedups that are unknown, extreme or falling, newcomers, domains without demand, priorities, and IPC of
    all, some or no domains.
    """
    random = Random(seed)
    states = []
    for chunk in (1, 2, 4):
        for count in (0, 1, 2, 3, 6):
            for kind in KINDS if count else KINDS[:1]:
                cpus = chunk * random.randint(max(1, count), 4 * max(1, count)) + random.randrange(chunk)
                states.append(_pool(random, cpus, chunk, count, (kind,)))
        for count in (4, 12):
            states.append(_pool(random, chunk * random.randint(1, count - 1), chunk, count, KINDS))
        states.append(_pool(random, chunk * 40, chunk, 40, KINDS))
    states.append(sized_pool(1000, seed))
    return tuple(states)


@lru_cache(maxsize=16)
def sized_pool(domains: int, seed: int = 0) -> PoolState:
    """A mixed pool of that many domains and about four CPUs for each."""
    return _pool(Random(f"{domains} {seed}"), 4 * domains, 2, domains, KINDS)


def _pool(random: Random, cpus: int, chunk: int, count: int, kinds: tuple["Kind", ...]) -> PoolState:
    # Only two digits, so that with more than 100 domains the order by name differs from the order by number.
    names = [f"vm-{number:02d}" for number in range(count)]
    random.shuffle(names)
    chunks = cpus // chunk
    # The most that a domain can use: few of a thousand use the whole pool.
    capacity = min(cpus, 4 * -(-cpus // max(1, count)))
    domains = []
    left = chunks
    for number, name in enumerate(names):
        present = 1 if count > chunks else random.randint(1, max(1, left - (count - number - 1)))
        left -= present
        values: Changes = {
            "minimum": 1,
            "maximum": capacity,
            "weight": 1.0,
            "demand": capacity,
            "allocation": present * chunk,
            "may_rest": True,
            "scaf_weight": round(random.uniform(0.1, 12.0), 3),
            "newcomer": False,
            "points": _curve(random, capacity, random.uniform(0.3, 1.0)),
            "ipc": round(random.uniform(0.1, 4.0), 3),
        }
        values |= random.choice(kinds)(random, capacity)
        if kinds is KINDS and values["ipc"] is None:
            values["ipc"] = 1.0  # else a policy that needs it for all would refuse every large pool
        domains.append(DomainState(name=name, **values))  # type: ignore[arg-type]
    return PoolState(cpus, chunk, round(random.uniform(0, 1e6), 3), tuple(domains))


def _curve(random: Random, cpus: int, power: float, noise: float = 0.1) -> tuple[SpeedupPoint, ...]:
    """Measured points of S(p) = p ** power with that much noise, at up to five team sizes, in any order."""
    sizes = random.sample(range(1, cpus + 1), min(cpus, random.randint(1, 5)))
    return tuple(
        SpeedupPoint(
            size,
            round(max(0.01, size**power * random.gauss(1.0, noise)), 4),
            round(0.05 * size**power, 4),
            random.randint(1, 500),
            round(random.uniform(0.0, 600.0), 1),
        )
        for size in sizes
    )


def _plain(random: Random, cpus: int) -> Changes:
    return {"weight": random.choice((1.0, 0.5, 4.0)), "ipc": random.choice((None, 0.4, 2.5))}


def _alike(random: Random, cpus: int) -> Changes:
    """Domains that may differ only in their names, so that ties have to be decided."""
    return {"scaf_weight": 2.0, "points": (), "ipc": 1.0}


def _tight(random: Random, cpus: int) -> Changes:
    minimum = random.randint(1, max(1, cpus // 3))
    return {"minimum": minimum, "maximum": min(cpus, minimum + random.randint(0, 2)), "demand": random.randint(1, cpus)}


def _fixed(random: Random, cpus: int) -> Changes:
    bound = random.randint(1, max(1, cpus // 2))
    return {"minimum": bound, "maximum": bound}


def _greedy(random: Random, cpus: int) -> Changes:
    """Minima that do not fit together, up to more than the pool."""
    return {"minimum": random.randint(max(1, cpus // 2), cpus + 2), "maximum": cpus + 2, "demand": cpus + 2}


def _unknown(random: Random, cpus: int) -> Changes:
    return {"scaf_weight": None, "points": (), "ipc": None}


def _extreme(random: Random, cpus: int) -> Changes:
    """Figures that are finite but absurd."""
    point = SpeedupPoint(random.randint(1, cpus), random.choice((0.0, 1e-12, 1e12)), random.choice((0.0, 1e9)), 1, 1e9)
    return {
        "scaf_weight": random.choice((0.0, -3.0, 1e-300, 1e300)),
        "points": random.choice(((point,), (point, point), (point, SpeedupPoint(1, 1.0, 0.0, 1)))),
        "weight": random.choice((1e-6, 1000.0)),
        "ipc": random.choice((0.0, 1e-9, 100.0)),
    }


def _falling(random: Random, cpus: int) -> Changes:
    """Slower on many CPUs than on few, or neither rising nor falling throughout."""
    return {"points": _curve(random, cpus, random.uniform(-0.5, 0.2), 0.4), "scaf_weight": 0.1}


def _newcomer(random: Random, cpus: int) -> Changes:
    weight = random.choice((None, 3.0))
    return {"newcomer": True, "points": (), "scaf_weight": weight, "allocation": 0}


def _idle(random: Random, cpus: int) -> Changes:
    if random.random() < 0.5:
        return {"demand": 0, "may_rest": False}
    return {"demand": 0, "allocation": 0}


def _small(random: Random, cpus: int) -> Changes:
    return {"demand": random.randint(1, 2)}


def _ranked(random: Random, cpus: int) -> Changes:
    return {"priority": random.choice((-1000, -1, 1, 7, 1000)), "minimum": random.randint(1, max(1, cpus // 3))}


Kind = Callable[[Random, int], Changes]
KINDS: tuple[Kind, ...] = (
    _plain,
    _alike,
    _tight,
    _fixed,
    _greedy,
    _unknown,
    _extreme,
    _falling,
    _newcomer,
    _idle,
    _small,
    _ranked,
)


def shrink(state: PoolState, fails: Callable[[PoolState], bool], seconds: float = 3.0) -> PoolState:
    """A smaller state that still fails, as small as can be found in about that time. The given state must fail.

    While the state still fails, domains are removed, then the values of the others are replaced by plain ones.
    """
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for smaller in _smaller(state):
            if time.monotonic() > until_s:
                return state
            if fails(smaller):
                state = smaller
                break
        else:
            return state
    return state


def _smaller(state: PoolState) -> Iterator[PoolState]:
    domains = state.domains
    size = len(domains)
    while size:
        for first in range(0, len(domains), size):
            yield replace(state, domains=domains[:first] + domains[first + size :])
        size //= 2
    if state.time_s:
        yield replace(state, time_s=0.0)
    held = min(state.cpus, sum([domain.allocation for domain in domains]))
    for cpus in (state.cpus // 2, state.cpus - 1):
        if cpus >= max(state.chunk, held):
            yield replace(state, cpus=cpus)
    plain: Changes = {"points": (), "scaf_weight": None, "ipc": None, "newcomer": False, "priority": 0, "weight": 1.0}
    most = max([domain.maximum for domain in domains], default=0)
    plain |= {"may_rest": True, "minimum": 1, "maximum": most, "demand": most, "allocation": state.chunk}
    all_plain = tuple(replace(domain, **plain) for domain in domains)  # type: ignore[arg-type]
    if domains != all_plain:
        yield replace(state, domains=all_plain)
    if len(domains) > 50:
        return  # to change each of them would take too long
    for index, domain in enumerate(domains):
        for key, value in plain.items():
            if getattr(domain, key) != value:
                plainer = replace(domain, **{key: value})  # type: ignore[arg-type]
                yield replace(state, domains=(*domains[:index], plainer, *domains[index + 1 :]))


def as_python(state: PoolState, options: Options) -> str:
    """Python code that makes the same `pool` and `options`."""
    opening = f"pool = PoolState({state.cpus}, {state.chunk}, {state.time_s!r}, ("
    lines = [_IMPORTS, "", f"options = {options!r}", opening]
    for domain in state.domains:
        values = [(one.name, getattr(domain, one.name)) for one in fields(domain)]
        arguments = [f"{key}={value!r}" for key, value in values if key not in _OPTIONAL or value != _OPTIONAL[key]]
        lines.append(f"    DomainState({', '.join(arguments)}),")
    return "\n".join([*lines, "))"]) + "\n"
