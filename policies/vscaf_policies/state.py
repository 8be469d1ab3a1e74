"""What a policy is given and what it returns: plain values, nothing else of vscaf."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar


class PolicyError(ValueError):
    """A policy, its options or its answer cannot be used. The message names what is wrong and the fix."""


@dataclass(frozen=True, slots=True)
class SpeedupPoint:
    """One measured point of a speedup curve.

    cpus: team size that was measured. speedup: S(cpus), against one CPU. standard_error: of the speedup, same unit.
    samples: number of measurements in this point. age_s: seconds since the last of them; 0: measured now.
    """

    cpus: int
    speedup: float
    standard_error: float
    samples: int
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DomainState:
    """One domain as a policy sees it. All counts are in CPUs.

    minimum, maximum: the user's bounds while the domain has demand. weight: the user's weight, 1.0 unless set.
    demand: CPUs that the domain could use now, 0: none. allocation: the CPUs that it has at present, 0: resting.
    may_rest: it may get 0 CPUs while it has no demand. scaf_weight: C of S(p) = 1 + C ln p, None: not known yet.
    newcomer: within the last newcomer time it began to compute after a long rest, or to run other programs. points:
    measured speedups, any order. priority: the user's, higher comes first, 0 unless set; each policy defines what it
    means. ipc: instructions per cycle and CPU at the present allocation, None: they are not counted.
    """

    name: str
    minimum: int
    maximum: int
    weight: float
    demand: int
    allocation: int
    may_rest: bool
    scaf_weight: float | None
    newcomer: bool
    points: tuple[SpeedupPoint, ...]
    priority: int = 0
    ipc: float | None = None

    def knowing(self, scaf_weight: float | None, newcomer: bool, points: tuple[SpeedupPoint, ...]) -> "DomainState":
        """The same domain with other knowledge of its speedup. Three times as fast as dataclasses.replace."""
        return DomainState(
            self.name,
            self.minimum,
            self.maximum,
            self.weight,
            self.demand,
            self.allocation,
            self.may_rest,
            scaf_weight,
            newcomer,
            points,
            self.priority,
            self.ipc,
        )


@dataclass(frozen=True, slots=True)
class PoolState:
    """The pool and its domains.

    cpus: CPUs in the pool. chunk: CPUs in the smallest step of an allocation (the threads of one core).
    time_s: the caller's monotonic clock, given as a value because a policy never reads a clock.
    """

    cpus: int
    chunk: int
    time_s: float
    domains: tuple[DomainState, ...]


Options = Mapping[str, object]
"""The user's options for one policy, as the configuration gives them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a policy that does more than split the pool.

    cpus: CPUs by name. queued: domains that are not admitted now; they rest until they are admitted. suspended: domains
    that do not run at all now. vscaf ignores `cpus` for queued and suspended domains. A domain that may not rest cannot
    be queued. reasons: why, for each domain by name, in a phrase with numbers, for `vscaf explain`; may be left out. If
    it takes long to make them, rather declare how to: see explained_by.
    """

    cpus: Mapping[str, int]
    queued: frozenset[str] = frozenset()
    suspended: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)


Policy = Callable[[PoolState, Options], Mapping[str, int] | Answer | None]
"""CPUs for each domain by name; None: change nothing. Pure: the same arguments give the same answer."""

SomePolicy = TypeVar("SomePolicy", bound=Policy)


def exploring(policy: SomePolicy) -> SomePolicy:
    """Decorator: the policy seeks the largest sum of speedups, so vscaf may vary its allocations a little to learn.

    It sets the attribute `explores`, which vscaf reads.
    """
    policy.explores = True  # type: ignore[attr-defined]  # functions have attributes, their type does not say so
    return policy


def ignoring_weights(policy: SomePolicy) -> SomePolicy:
    """Decorator: the users' weights do not change what the policy answers, so vscaf warns a user who sets one.

    It sets the attribute `ignores_weights`, which vscaf reads.
    """
    policy.ignores_weights = True  # type: ignore[attr-defined]  # as in exploring
    return policy


def timeless(policy: SomePolicy) -> SomePolicy:
    """Decorator: the answer does not depend on `PoolState.time_s`, so vscaf need not ask the same again later.

    It sets the attribute `timeless`, which vscaf reads.
    """
    policy.timeless = True  # type: ignore[attr-defined]  # functions have attributes, their type does not say so
    return policy


ReasonsOf = Callable[[PoolState, Options, Mapping[str, int]], Mapping[str, str]]
"""Why a policy gives these CPUs, by name: arguments are those of the policy and its answer. Pure."""


def explained_by(reasons_of: ReasonsOf) -> Callable[[SomePolicy], SomePolicy]:
    """Decorator: *reasons_of* makes the reasons of the policy's answers. vscaf calls it only if somebody asks for them.

    It sets the attribute `reasons_of`, which vscaf reads.
    """

    def explained(policy: SomePolicy) -> SomePolicy:
        policy.reasons_of = reasons_of  # type: ignore[attr-defined]  # as in exploring
        return policy

    return explained


def reasons_for(policy: Policy, pool: PoolState, options: Options) -> dict[str, str]:
    """Why *policy* answers as it does, for each domain that it says something of. Empty: it gives no reasons."""
    answer = policy(pool, options)
    if answer is None:
        return {}
    whole = answer if isinstance(answer, Answer) else Answer(answer)
    reasons_of: ReasonsOf | None = getattr(policy, "reasons_of", None)
    made = reasons_of(pool, options, whole.cpus) if reasons_of is not None else {}
    return {name: str(why) for name, why in {**made, **whole.reasons}.items()}


def refuse_unknown_options(policy: str, options: Options, known: frozenset[str] = frozenset()) -> None:
    """Raise PolicyError if options has a key outside known."""
    unknown = sorted(set(options) - known)
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise PolicyError(f"policy {policy}: unknown option {', '.join(map(repr, unknown))}: remove it ({takes})")
