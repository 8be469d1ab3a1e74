"""Decisions with exploration. Learns how long transitions take and what exploring costs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vscaf_policies import DomainState, Policy, PoolState, SpeedupPoint
from vscaf_policies.bounds import most_of_equal
from vscaf_policies.equipartition import equipartition

from vscaf.core.decide.damping import Damping, learns, with_allocations
from vscaf.core.decide.decision import DecideMemory, Decision, decide
from vscaf.core.decide.explore import ExploreMemory, ExploreSettings, explore, unvaried
from vscaf.core.decide.prediction import Prediction, predict
from vscaf.core.fault_isolation import without_the_failing
from vscaf.values import State

FIRST_TRANSITION_S = 0.5
"""The assumed duration of a transition before one was measured."""

TRANSITION_SHARE = 0.1
"""The weight of one measured transition in the mean of all."""

MOST_FITS = 16
"""The most domains whose curves are fitted again for one decision. These fits take some ten milliseconds, in which the
loop stands still and serves no guest. With the usual period that is 64 fits a second, more than are needed: see
inference.FIT_S."""

MOST_TRANSITION_S = 10.0
"""A longer transition is not counted: it waits for a guest that does not answer or a call that fails."""

ARRIVED = frozenset({State.COOPERATING, State.CONTAINED, State.RESTING, State.SUSPENDED})


class Decider:
    """Makes decisions, and keeps the memory of exploring and of the duration of transitions between periods.

    steady: see ExploreSettings. `faults`: the domains whose points and weight made the policy raise, each with the
    exception. The last decision was made without these. `policy_error`: what the policy raised although it was shown
    no points and no weight. Shares are then equal. None: it did not raise. `transition_measured`: False while
    `transition_s` is only assumed. `shown`: the pool that the last decision was about.
    """

    def __init__(self, steady: float) -> None:
        self._memory = ExploreMemory()
        self._handed: dict[str, tuple[SpeedupPoint, ...]] = {}
        self._under_way: dict[str, float] = {}
        self._predicts: tuple[PoolState, Decision, bool] | None = None
        self.transition_s = FIRST_TRANSITION_S
        self.transition_measured = False
        self.faults: Mapping[str, Exception] = {}
        self.policy_error: Exception | None = None
        self.shown: PoolState | None = None
        self.limit_exploring(steady)

    def limit_exploring(self, steady: float) -> None:
        """Exploring may cost *steady* on average from now on. 0: none, also not what is under way."""
        self.steady = steady
        self._settings = ExploreSettings(steady=steady) if steady > 0 else None
        if self._settings is None:
            self.forget()

    @property
    def cost(self) -> float:
        """Share of the predicted sum of speedups that exploring has cost on average under the present policy."""
        return self._memory.cost

    @property
    def lost_s(self) -> float:
        """The same cost, in seconds of the whole sum."""
        return self._memory.lost_s

    @property
    def exploring(self) -> frozenset[str]:
        """The domains whose allocation is varied on purpose now."""
        return frozenset(self._memory.varied)

    @property
    def searching(self) -> bool:
        """Whether an allocation is varied on purpose, or the search for such a variation has not ended yet."""
        return bool(self._memory.varied) or (len(self._memory.competing) > 1 and not self._memory.exhausted_knowledge)

    @property
    def memory(self) -> ExploreMemory:
        """The memory of exploring, for a recording."""
        return self._memory

    def go_on_from(self, memory: ExploreMemory) -> None:
        """Explores from *memory* on."""
        self._memory = memory

    def forget(self) -> None:
        """Forgets what was learned: another policy decides from now on, or exploring has ended."""
        self._memory = ExploreMemory()
        self._handed, self._predicts = {}, None

    def prediction(self, held: Mapping[str, int]) -> Prediction:
        """What the last decision's curves predict for domains that hold *held* CPUs, by name."""
        if self._predicts is None:
            return Prediction()
        pool, decision, fitted = self._predicts
        return predict(pool, decision, held, fitted=fitted)

    def decide(self, pool: PoolState, policy: Policy, options: Mapping[str, Any], memory: DecideMemory) -> Decision:
        """As core.decide. If the policy wants exploration, some allocations are varied on purpose.

        Returns a decision even if the policy raises: see `faults` and `policy_error`.
        """
        return self.decide_shown(self._in_turn(pool), policy, options, memory)

    def decide_shown(
        self, pool: PoolState, policy: Policy, options: Mapping[str, Any], memory: DecideMemory
    ) -> Decision:
        """As decide, with the points of *pool* as they are: a replay gives those that were in turn."""
        self.shown = pool
        base = unvaried(pool, self._memory)
        self.faults, self.policy_error, self._predicts = {}, None, None
        try:
            (decision, self._memory), self.faults = without_the_failing(
                [domain.name for domain in base.domains if domain.points or domain.scaf_weight is not None],
                lambda names: self._attempt(_without_knowledge(base, names), policy, options, memory),
            )
        except Exception as error:  # noqa: BLE001  policies are other people's code: they may raise anything
            self.policy_error = error
            decision = decide(base, equipartition, {}, memory, Damping(transition_s=self.transition_s))
        else:
            self._predicts = _without_knowledge(base, frozenset(self.faults)), decision, learns(policy)
        return decision

    def _attempt(
        self, base: PoolState, policy: Policy, options: Mapping[str, Any], memory: DecideMemory
    ) -> tuple[Decision, ExploreMemory]:
        """The decision, and the memory of exploring for the next."""
        decision = decide(base, policy, options, memory, Damping(transition_s=self.transition_s))
        if self._settings is None or not learns(policy):
            return decision, self._memory
        before = self._memory.varied
        most = most_of_equal("that explores", options, getattr(policy, "most_of_equal", 0.0))
        settings = replace(self._settings, transition_s=self.transition_s, most_of_equal=most)
        exploration = explore(with_allocations(base, decision.allocations), decision, self._memory, settings)
        now = exploration.allocations
        reasons = {**decision.reasons, **exploration.reasons}
        for name, cpus in before.items():  # these change from a varied size, not from the decided one
            if now.get(name, cpus) != cpus:
                why = reasons[name].partition(": ")[2] if name in reasons else "exploration ended"
                reasons[name] = f"{cpus} -> {now[name]}: {why}"
        return replace(decision, allocations=now, reasons=reasons), exploration.memory

    def _in_turn(self, pool: PoolState) -> PoolState:
        """The pool with new points of at most MOST_FITS domains. The others keep their former points until their turn.

        Domains that had no points come first. A domain that does not compete, or is a newcomer, is not fitted and
        takes no turn.
        """
        before, handed, late = self._handed, {}, []
        for domain in pool.domains:
            if not domain.points or domain.newcomer or (domain.demand <= 0 and domain.may_rest):
                continue
            known = handed[domain.name] = before.get(domain.name, ())
            if known is not domain.points:
                late.append(domain)
        for domain in sorted(late, key=lambda one: bool(handed[one.name]))[:MOST_FITS]:
            handed[domain.name] = domain.points
        self._handed = handed
        if len(late) <= MOST_FITS:
            return pool
        return replace(pool, domains=tuple([_with_points(one, handed.get(one.name)) for one in pool.domains]))

    def begun(self, name: str, now_s: float) -> None:
        """Notes that a domain has begun a transition to another partition."""
        self._under_way[name] = now_s

    def seen(self, states: Mapping[str, State], now_s: float) -> None:
        """Takes the states of all domains after a step. Domains that have arrived show how long transitions take."""
        if not self._under_way:
            return
        for name, begun_s in list(self._under_way.items()):
            if name in states and states[name] not in ARRIVED and now_s - begun_s < MOST_TRANSITION_S:
                continue
            del self._under_way[name]
            took_s = now_s - begun_s
            if name in states and took_s < MOST_TRANSITION_S:
                self.transition_measured = True
                self.transition_s += TRANSITION_SHARE * (took_s - self.transition_s)


def _without_knowledge(pool: PoolState, names: frozenset[str]) -> PoolState:
    """The pool without the known speedup of the domains *names*."""
    if not names:
        return pool
    domains = [one.knowing(None, one.newcomer, ()) if one.name in names else one for one in pool.domains]
    return replace(pool, domains=tuple(domains))


def _with_points(domain: DomainState, points: tuple[SpeedupPoint, ...] | None) -> DomainState:
    """The domain with these points; None: with its own."""
    return domain if points is None or points is domain.points else replace(domain, points=points)
