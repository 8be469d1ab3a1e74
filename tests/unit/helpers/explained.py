"""Facts made by hand, for tests of explanations."""

from dataclasses import replace
from typing import Any

from vscaf.config import PolicyConfig
from vscaf.core.decide.damping import with_allocations
from vscaf.core.decide.decision import DecideMemory
from vscaf.daemon.decider import Decider
from vscaf.explain.sentences import Facts
from vscaf.record.lines import Decided, State, result_of
from vscaf_policies import Policy, PoolState, load_policy


def facts(
    pool: PoolState,
    name: str,
    policy: str | Policy,
    *pools: PoolState,
    options: dict[str, Any] | None = None,
    steady: float = 0.0,
    **status: Any,
) -> Facts:
    """What is known of the domain *name* after decisions about *pool* and the later *pools*, from the pCPUs decided."""
    chosen = PolicyConfig(name=policy if isinstance(policy, str) else policy.__name__, options=options or {})
    function = load_policy(policy) if isinstance(policy, str) else policy
    decider, memory = Decider(steady), DecideMemory()
    held: dict[str, int] = {}
    for one in (pool, *pools):
        shown = with_allocations(one, held)
        decision = decider.decide(shown, function, chosen.options, memory)
        memory, held = decision.memory, dict(decision.allocations)
    result = result_of(decision, frozenset(decider.faults), decider.policy_error is not None)
    decided = Decided("2026-01-01T00:00:01.000Z", shown, chosen, steady, 0.5, result)
    state = State("2026-01-01T00:00:00.000Z", memory, replace(decider.memory, exhausted_knowledge=()))
    cpus = held.get(name, 0)
    shown_status = {
        "name": name,
        "state": "cooperating" if cpus else "resting",
        "partition": f"0-{cpus - 1}" if cpus > 1 else "0" if cpus else "",
        "allocation": cpus,
        "busy_cpus": float(cpus),
        "agent": "connected",
        "why": "",
        **status,
    }
    event = (
        {"time": "2026-01-01T00:00:01.000Z", "why": result.reasons[name]} if name in result.reasons and cpus else None
    )
    return Facts(shown_status, decided, state, function, event)
