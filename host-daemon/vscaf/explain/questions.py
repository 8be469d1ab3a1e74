"""What would change a domain's CPUs: the last decision made again with one input changed. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from vscaf_policies import DomainState, Options, Policy, PoolState
from vscaf_policies.bounds import competes, limits

from vscaf.core.decide.damping import Damping
from vscaf.core.decide.decision import DecideMemory, Decision, decide


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and its answer. cpus: what the domain would have. others: (now, then) of each other that would change.

    shares: the domain would share its pCPUs by time. failed: why there is no answer; empty: there is one.
    """

    question: str
    cpus: int
    others: dict[str, tuple[int, int]]
    shares: bool = False
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """The pool with the CPUs that are decided, and what decides about it next."""

    pool: PoolState
    policy: Policy
    options: Options
    memory: DecideMemory
    damping: Damping

    def decision(self, pool: PoolState) -> Decision:
        """What would be decided about *pool*, without exploring."""
        return decide(pool, self.policy, self.options, self.memory, self.damping)

    def undamped(self) -> Mapping[str, int]:
        """What the policy alone would give now, within the bounds."""
        return decide(self.pool, self.policy, self.options).allocations


Change = Callable[[DomainState], DomainState]


def questions(pool: PoolState, domain: DomainState, weights_count: bool) -> Iterator[tuple[str, PoolState]]:
    """The questions about *domain*, each with the pool that it is about."""
    chunk, cpus = pool.chunk, domain.allocation

    def changed(change: Change, name: str = domain.name) -> PoolState:
        domains = tuple(change(one) if one.name == name else one for one in pool.domains)
        return replace(pool, domains=domains)

    unit = "pCPU" if chunk == 1 else "pCPUs"
    yield f"with {chunk} more {unit} in the pool", replace(pool, cpus=pool.cpus + chunk)
    if not competes(domain):
        most = max(chunk, domain.maximum)
        yield f"with a demand of {most}", changed(lambda one: replace(one, demand=most))
        return
    low, high = limits(domain, chunk)
    if not cpus:
        if domain.minimum > chunk:
            yield f"with a minimum of {chunk}, not {domain.minimum}", changed(lambda one: replace(one, minimum=chunk))
        first = max(one.priority for one in pool.domains) + 1
        yield f"with a priority of {first}, not {domain.priority}", changed(lambda one: replace(one, priority=first))
    elif cpus > low:
        less = min(domain.demand, cpus) - chunk
        yield f"with a demand of {less}, not {domain.demand}", changed(lambda one: replace(one, demand=less))
    if domain.demand <= cpus and domain.demand + chunk <= domain.maximum:
        more = domain.demand + chunk
        yield f"with a demand of {more}, not {domain.demand}", changed(lambda one: replace(one, demand=more))
    if cpus >= domain.maximum < domain.demand:
        most = domain.maximum + chunk
        yield f"with a maximum of {most}, not {domain.maximum}", changed(lambda one: replace(one, maximum=most))
    if low <= cpus < high:
        least = cpus + chunk
        yield f"with a minimum of {least}, not {domain.minimum}", changed(lambda one: replace(one, minimum=least))
    if weights_count:
        weight = 2 * domain.weight
        yield f"with a weight of {weight:g}, not {domain.weight:g}", changed(lambda one: replace(one, weight=weight))
    others = [one for one in pool.domains if one.name != domain.name and one.allocation and one.may_rest]
    if others:
        largest = min(others, key=lambda one: (-one.allocation, one.name)).name
        yield f"without demand of {largest}", changed(lambda one: replace(one, demand=0), largest)


def answers(situation: Situation, name: str, weights_count: bool) -> list[Answered]:
    """The answers about the domain *name*, which is in the pool. Differences are against the next decision as it is."""
    pool = situation.pool
    domain = next(one for one in pool.domains if one.name == name)
    found = []
    now = situation.decision(pool).allocations
    for question, changed in questions(pool, domain, weights_count):
        try:
            decision = situation.decision(changed)
        except Exception as error:  # noqa: BLE001  policies are other people's code: they may raise anything
            found.append(Answered(question, now[name], {}, failed=f"{type(error).__name__}: {error}"))
            continue
        then = decision.allocations
        others = {one: (now[one], cpus) for one, cpus in sorted(then.items()) if one != name and cpus != now[one]}
        found.append(Answered(question, then[name], others, name in decision.sharing))
    return found
