"""The requests and answers of the control API as typed values, and its endpoints. The schema is made from these."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vscaf.control.peers import Access
from vscaf.events import Event

BODY_LIMIT_BYTES = 65536

Name = Annotated[str, Meta(min_length=1, max_length=1024)]


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy to use from now on, with only these options."""

    name: Name
    options: dict[str, Any] = {}


class DomainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One domain by name; null: all of them."""

    domain: Name | None


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty object, or no body at all."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer except 200: one line that says what is wrong and what to do."""

    error: str


class Domains(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the domains that were changed."""

    domains: list[str]


class PolicyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A policy and its options."""

    name: str
    options: dict[str, Any]


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The policy in use, the name of the one that a rollback would bring back, and the installed ones."""

    current: PolicyChoice
    previous: str | None
    installed: list[str]


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """A key of the configuration that has changed, like "domains.web.maximum", and its values as text; null: unset."""

    key: str
    before: str | None
    after: str | None


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration that is now in use has changed. Empty: nothing."""

    changes: list[ConfigChange]


class RolledBack(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that is in use again."""

    name: str


class SpeedupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A measured S(p) of a program, with its standard error."""

    p: int
    speedup: float
    standard_error: float


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A program in a guest, as its agent reported it. Nothing of it is checked."""

    pid: int
    name: str
    team: int
    running: bool
    malleable: str
    override: bool
    long_section: bool
    contained: bool
    own: dict[str, str] | None
    """Why one of its sections needs its own number of threads: `section`, `reason`, `detail`. null: none is known."""
    points: list[SpeedupStatus]
    learning: dict[str, Any] | None
    decomposition: dict[str, float] | None


def inflation_is_known(inflation: float, sizes: Iterable[int]) -> bool:
    """Whether the inflation in a decomposition means something: it is 0 while no speedup above one CPU is known.

    *sizes*: those of the program's points.
    """
    return inflation > 0 or any(size > 1 for size in sizes)


class RulesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force for a domain, from its metadata, else the configuration. `maximum` null: its vCPU maximum."""

    minimum: int | None
    maximum: int | None
    weight: float | None
    priority: int | None
    rest: str | None


class DomainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A domain: its partition, demand and programs. If it does not run, only its name and `state` "not running".
    Until libvirt has listed its domains once, only its name, `state` "unknown" and `why`.

    `partition` is a CPU list: "" if the domain has no pCPU, null if vscaf has not adopted it. `busy_cpus` is its use as
    the host saw it, null until that is known. `steal_s`: how long its vCPUs were ready to run and had no pCPU, in total
    since it started; null: the host does not report it. `speedup`: what its curve predicts for its present size,
    compared with one pCPU; null: not known, or it does not compute.
    """

    name: str
    uuid: str | None = None
    state: str
    why: str = ""
    """Why it is unmanaged, released, queued or suspended."""
    partition: str | None = None
    allocation: int | None = None
    demand: int | None = None
    busy_cpus: float | None = None
    steal_s: float | None = None
    speedup: float | None = None
    paused: bool | None = None
    suspended: bool | None = None
    """Whether vscaf has suspended it, or is about to, until its next slice of time."""
    vcpus: int | None = None
    vcpus_maximum: int | None = None
    online: list[int] | None = None
    agent: str | None = None
    """"connected", "stale", "does not read", "no agent answers", "not reachable: WHY" or "no channel"."""
    agent_version: str | None = None
    """Name and version of the agent, as the guest says."""
    steal_governor: bool | None = None
    """Whether Linux's steal governor is on in the guest, as its agent says. None: it has not told."""
    report_age_s: float | None = None
    bad_lines: int = 0
    scaf_weight: float | None = None
    rules: RulesStatus | None = None
    processes: list[ProcessStatus] = []


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon: its policy and pool, and every domain that it knows.

    `configured_at`: when the configuration in use was taken over, in UTC: when the daemon started, or at a reload.
    `managing`: false while the policy changes nothing, null before the first decision. `unknown`: libvirt does not
    answer, so the values of all domains are old. `weights_count`: false if the policy ignores the domains' weights.
    `violations`: laws that the present partition breaks; there should be none. `exploring`: the domains whose
    allocation is varied on purpose now, to learn their speedup. `exploration_cost`: the share of the predicted sum of
    speedups that exploration has cost on average under the present policy. `exploration_lost_s`: the same cost in
    seconds of the whole sum. `optimum_speedup`: the predicted sum of weighted speedups if each domain had the CPUs that
    the policy asks for now. `lost_speedup`: how much less the present partition gives; negative if the policy gives up
    speedup for something else. Both are null if not known. `transition_s`: the mean duration of a domain's transition
    to a new partition, null until one was measured.
    """

    configured_at: str
    policy: str
    policy_options: dict[str, Any]
    policy_previous: str | None
    weights_count: bool
    pool: str
    reserve: str
    managing: bool | None
    unknown: bool
    transitions: int
    transition_s: float | None
    exploring: list[str]
    exploration_cost: float
    exploration_lost_s: float
    optimum_speedup: float | None
    lost_speedup: float | None
    violations: list[str]
    domains: list[DomainStatus]


class LastDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The last decision, for `vscaf explain`. null: there was none yet.

    `lines`: two lines as in a recording: what the next decision remembers, and the last decision. `changes`: for each
    domain, the event of its last change of pCPUs.
    """

    lines: tuple[str, str] | None
    changes: dict[str, Event]


class RecordRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether decisions are recorded from now on."""

    on: bool


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """`since`: since when decisions are recorded, in UTC; null: they are not. `failed`: why the last recording ended by
    itself; "": it did not. `bytes`: what all files in `directory` take, of `most_bytes` at most."""

    since: str | None
    failed: str
    directory: str
    files: int
    bytes: int
    most_bytes: int


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint of the API."""

    method: Literal["GET", "POST"]
    path: str
    access: Access
    description: str
    answer: Any
    """Type of the answer. str: text. A tuple of one type: JSON lines of that type."""
    body: Any = None
    query: tuple[str, ...] = ()


READ, WRITE = Access.READ, Access.WRITE

ENDPOINTS = (
    Endpoint(method="GET", path="/v1/status", access=READ, answer=Status, description="the daemon and each domain"),
    Endpoint(
        method="GET",
        path="/v1/events",
        access=READ,
        answer=(Event,),
        query=("since", "follow"),
        description="events after number `since` (0), oldest first; with `follow=1` also each new one as it comes",
    ),
    Endpoint(
        method="GET",
        path="/v1/decision",
        access=READ,
        answer=LastDecision,
        description="the last decision, and what it was made from",
    ),
    Endpoint(
        method="GET", path="/v1/record", access=READ, answer=Recording, description="whether decisions are recorded"
    ),
    Endpoint(
        method="POST",
        path="/v1/record",
        access=WRITE,
        body=RecordRequest,
        answer=Recording,
        description="records decisions from now on, or stops to",
    ),
    Endpoint(
        method="GET", path="/v1/policies", access=READ, answer=Policies, description="policies in use and installed"
    ),
    Endpoint(
        method="POST",
        path="/v1/policy",
        access=WRITE,
        body=PolicyRequest,
        answer=PolicyChoice,
        description="checks the policy, then uses it; if it is refused, nothing changes",
    ),
    Endpoint(
        method="POST",
        path="/v1/policy/rollback",
        access=WRITE,
        body=Nothing,
        answer=RolledBack,
        description="goes back to the policy before the last one that was set",
    ),
    Endpoint(
        method="POST",
        path="/v1/reload",
        access=WRITE,
        body=Nothing,
        answer=Reloaded,
        description="reads the configuration file again and uses it; if it is refused, nothing changes",
    ),
    Endpoint(
        method="POST",
        path="/v1/release",
        access=WRITE,
        body=DomainRequest,
        answer=Domains,
        description="gives a domain back as it was found, and leaves it alone from then on",
    ),
    Endpoint(
        method="POST",
        path="/v1/manage",
        access=WRITE,
        body=DomainRequest,
        answer=Domains,
        description="manages a domain again that was released, or left alone because of a foreign change",
    ),
    Endpoint(
        method="POST",
        path="/v1/off",
        access=WRITE,
        body=Nothing,
        answer=Nothing,
        description="puts everything back as it was found; then the daemon ends",
    ),
    Endpoint(method="GET", path="/v1/schema", access=READ, answer=dict, description="this JSON schema"),
    Endpoint(method="GET", path="/metrics", access=READ, answer=str, description="metrics in Prometheus's text format"),
)
