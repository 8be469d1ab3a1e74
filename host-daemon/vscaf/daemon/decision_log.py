"""What is kept of the decisions: the last one, for `vscaf explain`, and all of them while they are recorded."""

from collections.abc import Iterable
from pathlib import Path

from vscaf_policies import Policy, PoolState

from vscaf.config import Config, PolicyConfig
from vscaf.core.decide.decision import DecideMemory, Decision
from vscaf.daemon.decider import Decider
from vscaf.events import Event, EventLog
from vscaf.record.lines import Decided, State, result_of, without_caches
from vscaf.record.recorder import Recorder


class DecisionLog:
    """`last`: the last decision; None: there was none. `changes`: for each domain, the event of its last change."""

    def __init__(self, config: Config, events: EventLog) -> None:
        self.recorder = Recorder(Path(config.state_directory) / "record", _most_bytes(config), events)
        self.last: Decided | None = None
        self.changes: dict[str, Event] = {}
        self._events = events
        self._memory = DecideMemory()
        self._recording = False

    def configure(self, config: Config) -> None:
        """Records as *config* says, unless a command has asked for something else since its key last changed."""
        self.recorder.files.most_bytes = _most_bytes(config)
        if config.record != self._recording:
            self._recording = config.record
            (self.recorder.start if config.record else self.recorder.stop)()

    def decide(
        self, decider: Decider, pool: PoolState, policy: Policy, chosen: PolicyConfig, memory: DecideMemory
    ) -> Decision:
        """The decision of *decider*. *policy* is what *chosen* names."""
        if self.recorder.needs_state(memory):
            memory, explore = without_caches(memory, decider.memory)
            decider.go_on_from(explore)
            self.recorder.begin(memory, explore)
        transition_s = decider.transition_s
        decision = decider.decide(pool, policy, chosen.options, memory)
        result = result_of(decision, frozenset(decider.faults), decider.policy_error is not None)
        shown = decider.shown if decider.shown is not None else pool
        self.last = Decided(self._events.time(), shown, chosen, decider.steady, transition_s, result)
        self._memory = decision.memory
        self.recorder.decided(self.last, self._memory)
        return decision

    def remembered(self, decider: Decider) -> State:
        """What the decision after the last one is made from, besides the pool."""
        return State(self._events.time(), *without_caches(self._memory, decider.memory))

    def forget_changes(self, present: Iterable[str]) -> None:
        """Forgets the changes of domains that are not *present*."""
        self.changes = {name: self.changes[name] for name in present if name in self.changes}


def _most_bytes(config: Config) -> int:
    return config.record_most_mb * 1_000_000
