"""Why a domain has what it has, in sentences with the numbers. A pure function of plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vscaf_policies import DomainState, Policy, PoolState, reasons_for
from vscaf_policies.bounds import competes, limits

from vscaf.core.decide.damping import Damping, change, fitted, learns, logarithmic, with_allocations
from vscaf.core.decide.explore import ExploreSettings
from vscaf.explain.questions import Answered, Situation, answers
from vscaf.policy.loading import counts_weights
from vscaf.record.lines import Decided, State
from vscaf.values import LEFT_ALONE
from vscaf.values import State as DomainStateName

MOST_NAMED = 5
OWN_NUMBER = {
    "no_object": "is in no file: a compiler made it at run time",
    "machine": "is not for a processor that vscaf-inspect knows",
    "unreadable": "could not be read, or not in time",
    "unknown_code": "has code that is not understood",
    "unknown_call": "calls a function that is not known",
    "pointer_call": "calls a function through a pointer",
    "unknown_store": "writes to a place that is not understood",
    "tells": "tells others the size of its team",
    "number_alone": "uses its thread number, but not the size of its team",
    "counts": "changes a shared value once in each thread",
    "keeps_data": "reads or leaves thread-private data of other sections",
    "foreign_data": "uses thread-private data of another object",
    "waits": "has threads that wait for each other",
    "replaced": "calls a function that comes from another object than expected",
}
"""What a section does that makes its program keep its own number of threads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known. status: the domain's part of `vscaf status --json`. decided: the last decision. state: what the
    next one remembers. policy: the function; None: it cannot be loaded here. change: the event of the domain's last
    change. unknown: libvirt does not answer.
    """

    status: Mapping[str, Any]
    decided: Decided | None = None
    state: State | None = None
    policy: Policy | None = None
    change: Mapping[str, Any] | None = None
    unknown: bool = False


@dataclass(slots=True)
class Explanation:
    """Sentences by the question that they answer, and the questions that were asked of the decision again."""

    domain: str
    now: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    weighed: list[str] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    would_change: list[str] = field(default_factory=list)
    what_if: list[Answered] = field(default_factory=list)


def explanation(facts: Facts) -> Explanation:
    """The explanation of one domain. A part about which nothing is known is empty."""
    status, made = facts.status, Explanation(facts.status["name"])
    if facts.unknown:
        made.now.append("libvirt does not answer, so all of this is old.")
    if status["state"] in {*LEFT_ALONE, DomainStateName.NOT_RUNNING}:
        made.now.append(f"It is {status['state']}{_because(status.get('why'))}. vscaf gives it no pCPUs of its own.")
        return made
    decided, state = facts.decided, facts.state
    domain = _domain(decided, status["name"])
    if decided is None or state is None or domain is None:
        made.now.append("There is no decision about it yet.")
        return made
    if not decided.result.managed:
        made.now.append(f"Policy {decided.policy.name} changes nothing: it runs where the host's scheduler puts it.")
        return made
    base = {**decided.result.allocations, **{name: state.explore.base[name] for name in state.explore.varied}}
    pool = with_allocations(decided.pool, base)
    domain = _domain_in(pool, status["name"])
    _tell_now(made, facts, decided, domain)
    _tell_own_numbers(made, status)
    _tell_asked(made, status, domain)
    _tell_rules(made, pool, domain)
    _tell_weighed(made, facts.policy, decided, pool, domain)
    _tell_held_back(made, decided, state, domain, status)
    if facts.policy is None:
        made.would_change.append(f"Policy {decided.policy.name} cannot be loaded here, so it cannot be asked again.")
        return made
    if decided.result.failed:
        return made
    damping = Damping(transition_s=decided.transition_s)
    situation = Situation(pool, facts.policy, decided.policy.options, state.memory, damping)
    try:
        _tell_damped(made, situation, domain)
        made.what_if = answers(situation, domain.name, counts_weights(facts.policy))
    except Exception as error:  # noqa: BLE001  policies are other people's code: they may raise anything
        made.would_change.append(f"The policy raises if it is asked again: {type(error).__name__}: {error}.")
    shares = domain.name in decided.result.sharing
    made.would_change += [_answer(one, domain.allocation, shares) for one in made.what_if]
    if not counts_weights(facts.policy):
        made.would_change.append(f"Its weight changes nothing: policy {decided.policy.name} ignores weights.")
    return made


def text(made: Explanation) -> str:
    """The explanation for people: a heading for each part that is not empty."""
    parts = {
        f"{made.domain}: what it has": made.now,
        "what it asks for": made.asked,
        "its rules": made.rules,
        "what the policy weighs": made.weighed,
        "what holds it back": made.held_back,
        "what would change it": made.would_change,
    }
    return "\n".join(
        "\n".join([heading, *(f"  {line}" for line in lines)]) for heading, lines in parts.items() if lines
    )


def _tell_now(made: Explanation, facts: Facts, decided: Decided, domain: DomainState) -> None:
    status, pool = facts.status, decided.pool
    held = status["allocation"] or 0
    where = f": {status['partition']}" if status["partition"] else ""
    made.now.append(f"It has {held} of the {_pcpus(pool.cpus)} of the pool{where}. It is {status['state']}.")
    target = decided.result.allocations[domain.name]
    if target != held:
        made.now.append(f"The last decision gives it {target}. It is on the way.")
    if domain.name in decided.result.sharing:
        made.now.append(f"It shares the last chunk by time with {len(decided.result.sharing) - 1} more.")
    if facts.change is not None:
        made.now.append(f"Its last change was at {facts.change['time']}: {facts.change['why']}.")


def _tell_own_numbers(made: Explanation, status: Mapping[str, Any]) -> None:
    """Which programs keep their own number of threads, and why, as the guest's agent tells."""
    programs = [one for one in status.get("processes", []) if one.get("own")]
    for one in programs[:MOST_NAMED]:
        own = one["own"]
        detail = f" ({own['detail']})" if own["detail"] else ""
        reason = OWN_NUMBER.get(own["reason"], own["reason"])
        made.now.append(
            f"{one['name']} (process {one['pid']}) has its own number of threads, because "
            f"{own['section'] or 'a section'} {reason}{detail}."
        )
    if len(programs) > MOST_NAMED:
        made.now.append(f"So have {len(programs) - MOST_NAMED} more of its programs.")


def _tell_asked(made: Explanation, status: Mapping[str, Any], domain: DomainState) -> None:
    heard = status["agent"] == "connected"
    source = "its agent reports so" if heard else f"the host measured so, as its agent is silent ({status['agent']})"
    wants = f"It could use {_pcpus(domain.demand)} now" if domain.demand else "It could use no pCPU now"
    busy = status["busy_cpus"]  # None: it has just begun, or was paused all the time
    used = "The use of its vCPUs is not known yet" if busy is None else f"Its vCPUs used {busy:.2f} in the last window"
    made.asked.append(f"{wants}: {source}. {used}.")
    if domain.newcomer:
        made.asked.append("It is a newcomer: it began to compute a moment ago, or runs other programs.")


def _tell_rules(made: Explanation, pool: PoolState, domain: DomainState) -> None:
    rest = "it rests without demand" if domain.may_rest else "it keeps its pCPUs without demand"
    made.rules.append(
        f"While it computes, it has at least {domain.minimum} and at most {_pcpus(domain.maximum)}. Its weight is "
        f"{domain.weight:g}, its priority {domain.priority}, and {rest}."
    )
    if pool.chunk > 1:
        made.rules.append(f"pCPUs are given in steps of {pool.chunk}, the threads of a core.")


def _tell_weighed(
    made: Explanation, policy: Policy | None, decided: Decided, pool: PoolState, domain: DomainState
) -> None:
    name = decided.policy.name
    if domain.name in decided.result.faults:
        made.weighed.append(f"Its speedup made policy {name} fail, so the policy decided without it.")
    elif decided.result.failed:
        made.weighed.append(f"Policy {name} fails, so shares are equal. `vscaf events` has the reason.")
    elif policy is not None and competes(domain):
        made.weighed.append(_policy_reason(policy, decided, pool, domain))
    if domain.points:
        known = ", ".join(
            f"{one.speedup:.2f}±{1.96 * one.standard_error:.2f} on {one.cpus}"
            for one in sorted(domain.points, key=lambda one: one.cpus)
        )
        made.weighed.append(f"Its measured speedup: {known}.")
    elif domain.scaf_weight is not None:
        made.weighed.append(f"Of its speedup only C of 1 + C ln p is known: {domain.scaf_weight:.2f}.")
    else:
        made.weighed.append("Its speedup is not known yet.")
    others = sorted((one for one in pool.domains if one.name != domain.name and competes(one)), key=_by_size)
    if others:
        named = ", ".join(f"{one.name} ({one.allocation})" for one in others[:MOST_NAMED])
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        made.weighed.append(f"It competes with {named}{more}.")
    else:
        made.weighed.append("No other domain competes.")


def _policy_reason(policy: Policy, decided: Decided, pool: PoolState, domain: DomainState) -> str:
    try:
        why = reasons_for(policy, pool, decided.policy.options).get(domain.name, "")
    except Exception as error:  # noqa: BLE001  policies are other people's code: they may raise anything
        why = f"it raises if it is asked for its reasons ({type(error).__name__}: {error})"
    return f"Policy {decided.policy.name}: {why or 'it gives no reason'}."


def _tell_held_back(
    made: Explanation, decided: Decided, state: State, domain: DomainState, status: Mapping[str, Any]
) -> None:
    pool, result, told = decided.pool, decided.result, made.held_back
    name, now_s = domain.name, decided.pool.time_s
    if name in result.queued | result.suspended:
        told.append(f"The policy keeps it waiting{_because(status.get('why'))}.")
        return
    cpus, (low, high) = domain.allocation, limits(domain, pool.chunk)
    if competes(domain) and cpus >= high:
        bound = "its maximum" if domain.maximum <= max(domain.demand, domain.minimum) else "its demand"
        told.append(
            f"It has all that it can get: {bound} is {min(domain.maximum, max(domain.demand, domain.minimum))}."
        )
    elif competes(domain) and cpus == low:
        told.append(f"It has its minimum of {domain.minimum}.")
    free = pool.cpus - _used(decided)
    told.append(f"{_pcpus(free)} of the pool are free." if free else f"All {pool.cpus} pCPUs of the pool are given.")
    if name in state.explore.varied:
        since_s = now_s - state.explore.since_s
        told.append(
            f"It has {state.explore.varied[name]} and not {state.explore.base[name]} to learn its speedup, since "
            f"{since_s:.1f} s and for {ExploreSettings().dwell_s:g} s."
        )
    request = state.memory.pending.requests.get(name)
    if request is not None:
        way = "more" if request.direction > 0 else "fewer"
        waits = Damping()
        told.append(
            f"The policy asks for {way} since {now_s - request.since_s:.1f} s. That gains too little to be done at "
            f"once: it is done after {waits.patience_s:g} s or more, or after {waits.decisions} decisions if it is a "
            "large change."
        )
    if status["state"] == DomainStateName.CONTAINED:
        why = "its agent has not acknowledged" if status["agent"] == "connected" else f"agent: {status['agent']}"
        told.append(f"It is contained ({why}): all its vCPUs float over its pCPUs.")
    elif status["state"] == DomainStateName.SHRINKING:
        told.append("It gives up pCPUs: its guest has until the deadline to shrink its teams.")
    elif status["state"] == DomainStateName.GROWING:
        told.append("It waits for pCPUs that others still give up, or for its guest.")


def _tell_damped(made: Explanation, situation: Situation, domain: DomainState) -> None:
    """Whether the policy alone would give it something else now."""
    pool, policy = situation.pool, situation.policy
    target, present = situation.undamped(), {one.name: one.allocation for one in pool.domains}
    if target[domain.name] == domain.allocation or not competes(domain):
        return
    competing = [one for one in pool.domains if competes(one)]
    speedup_of = fitted(pool) if learns(policy) else logarithmic
    gain = change(pool, competing, present, target, speedup_of).gain
    made.held_back.append(
        f"The policy alone would give it {target[domain.name]} now, which changes the predicted sum of speedups by "
        f"{gain:+.1%}. vscaf does that only if it pays for the change."
    )


def _answer(one: Answered, cpus: int, shares: bool) -> str:
    question = f"{one.question[0].upper()}{one.question[1:]}" + ("," if "," in one.question else "")
    if one.failed:
        return f"{question} the policy raises: {one.failed}."
    has = f"it would have {one.cpus}, not {cpus}" if one.cpus != cpus else f"it would still have {cpus}"
    if one.shares or shares:
        has += ", shared by time" if one.shares else ", for itself"
    others = [f"{other} {then} (now {now})" for other, (now, then) in one.others.items()]
    more = f", and {', '.join(others[:MOST_NAMED])}" if others else ""
    return f"{question} {has}{more}."


def _domain(decided: Decided | None, name: str) -> DomainState | None:
    return None if decided is None else next((one for one in decided.pool.domains if one.name == name), None)


def _domain_in(pool: PoolState, name: str) -> DomainState:
    return next(one for one in pool.domains if one.name == name)


def _by_size(domain: DomainState) -> tuple[int, str]:
    return -domain.allocation, domain.name


def _used(decided: Decided) -> int:
    """The pCPUs that are given. Those that share a chunk have it once."""
    result, shared = decided.result, 0
    own = sum(cpus for name, cpus in result.allocations.items() if name not in result.sharing)
    if result.sharing:
        shared = decided.pool.chunk
    return own + shared


def _because(why: str | None) -> str:
    return f": {why}" if why else ""


def _pcpus(count: int) -> str:
    return f"{count} pCPU" if count == 1 else f"{count} pCPUs"
