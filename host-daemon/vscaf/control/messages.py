"""What the control API says and is told, as typed values, and its endpoints. The schema is made from these."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vscaf.control.peers import Access
from vscaf.events import Event

BODY_LIMIT_BYTES = 65536

Name = Annotated[str, Meta(min_length=1, max_length=1024)]


class PolicyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy to use from now on, with these options and no others."""

    name: Name
    options: dict[str, Any] = {}


class DomainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One domain by name; null: all of them."""

    domain: Name | None


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No words: an empty object, or no body at all."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer but 200: one line that names the thing and the mend."""

    error: str


class Domains(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the domains that it was done to."""

    domains: list[str]


class PolicyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A policy and its options."""

    name: str
    options: dict[str, Any]


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What is in use, the name of what a rollback would bring back, and what is installed."""

    current: PolicyChoice
    previous: str | None
    installed: list[str]


class RolledBack(msgspec.Struct, frozen=True, kw_only=True):
    """The policy that is in use again."""

    name: str


class SpeedupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A measured S(p) of a program, with its standard error."""

    p: int
    speedup: float
    standard_error: float


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A program in a guest, as its agent reported it: nothing of it is checked."""

    pid: int
    name: str
    team: int
    running: bool
    malleable: str
    override: bool
    long_section: bool
    contained: bool
    points: list[SpeedupStatus]
    learning: dict[str, Any] | None
    decomposition: dict[str, float] | None


class RulesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in force for a domain: its metadata's, else the configuration's. `maximum` null: its vCPU maximum."""

    minimum: int | None
    maximum: int | None
    weight: float | None
    priority: int | None
    rest: str | None


class DomainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A domain: what it has, wants and runs. One that does not run has its name and `state` "not running" alone.

    `partition` is a CPU list, "" where it has no pCPU, null where vscaf has not taken it over. `busy_cpus` is what
    the host saw it use.
    """

    name: str
    state: str
    why: str = ""
    """Why it is unmanaged, released, queued or suspended."""
    partition: str | None = None
    allocation: int | None = None
    demand: int | None = None
    busy_cpus: float | None = None
    paused: bool | None = None
    suspended: bool | None = None
    """Whether vscaf has suspended it, or is about to, until its slice of time comes."""
    vcpus: int | None = None
    vcpus_maximum: int | None = None
    online: list[int] | None = None
    agent: str | None = None
    """"connected", "stale", "does not read", "no agent answers", "not reachable: WHY" or "no channel"."""
    report_age_s: float | None = None
    bad_lines: int = 0
    scaf_weight: float | None = None
    rules: RulesStatus | None = None
    processes: list[ProcessStatus] = []


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon: its policy and pool, and every domain that it knows of.

    `managing`: false while the policy leaves everything alone, null before the first decision. `unknown`: libvirt does
    not answer, so all below is old. `violations`: laws that the present partition breaks; there should be none.
    `exploring`: the domains whose allocation is varied on purpose now, to learn their speedup; `exploration_cost`: the
    share of the predicted sum of speedups that this has cost on average under the present policy, and
    `exploration_lost_s` the same in seconds of all. `transition_s`: how long a domain is on its way to a new partition.
    """

    policy: str
    policy_options: dict[str, Any]
    policy_previous: str | None
    pool: str
    reserve: str
    managing: bool | None
    unknown: bool
    transitions: int
    transition_s: float
    exploring: list[str]
    exploration_cost: float
    exploration_lost_s: float
    violations: list[str]
    domains: list[DomainStatus]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to ask or tell."""

    method: Literal["GET", "POST"]
    path: str
    access: Access
    words: str
    answer: Any
    """Type of the answer; str: text; a tuple of one: JSON lines of it."""
    body: Any = None
    query: tuple[str, ...] = ()


READ, WRITE = Access.READ, Access.WRITE

ENDPOINTS = (
    Endpoint(method="GET", path="/v1/status", access=READ, answer=Status, words="what each domain has, wants and runs"),
    Endpoint(
        method="GET",
        path="/v1/events",
        access=READ,
        answer=(Event,),
        query=("since", "follow"),
        words="events after number `since` (0), oldest first; `follow=1`: and then each as it comes",
    ),
    Endpoint(method="GET", path="/v1/policies", access=READ, answer=Policies, words="policies in use and installed"),
    Endpoint(
        method="POST",
        path="/v1/policy",
        access=WRITE,
        body=PolicyRequest,
        answer=PolicyChoice,
        words="validates, then swaps the policy; refused, nothing changes",
    ),
    Endpoint(
        method="POST",
        path="/v1/policy/rollback",
        access=WRITE,
        body=Nothing,
        answer=RolledBack,
        words="the policy before the last one that was set",
    ),
    Endpoint(
        method="POST",
        path="/v1/release",
        access=WRITE,
        body=DomainRequest,
        answer=Domains,
        words="gives a domain back as it was found, and leaves it alone from then on",
    ),
    Endpoint(
        method="POST",
        path="/v1/manage",
        access=WRITE,
        body=DomainRequest,
        answer=Domains,
        words="manages again what was released, or left alone because of a foreign change",
    ),
    Endpoint(
        method="POST",
        path="/v1/off",
        access=WRITE,
        body=Nothing,
        answer=Nothing,
        words="everything as it was found; then the daemon ends",
    ),
    Endpoint(method="GET", path="/v1/schema", access=READ, answer=dict, words="the JSON schema of all this"),
    Endpoint(method="GET", path="/metrics", access=READ, answer=str, words="metrics in Prometheus's text format"),
)
