"""The messages between daemon and agent as typed values.

guest-agent/wire/README.md specifies them. Both sides test its golden lines.
"""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

WIRE_VERSION = 1
QUIET = "quiet"
SPARSE = "sparse"
LINE_LIMIT_BYTES = 65536

Count = Annotated[int, Meta(ge=0, le=4096)]
CpuCount = Annotated[int, Meta(ge=1, le=4096)]
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
CpuNumbers = Annotated[list[Annotated[int, Meta(ge=0, le=4095)]], Meta(max_length=4096)]
Cpus = Annotated[float, Meta(ge=0, le=4096)]
Speedup = Annotated[float, Meta(gt=0, le=1e6)]
SpeedupError = Annotated[float, Meta(ge=0, le=1e6)]
Versions = Annotated[list[Annotated[int, Meta(ge=1, le=2**31 - 1)]], Meta(max_length=16)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
CostSeconds = Annotated[float, Meta(ge=0, le=1e9)]
SectionMs = Annotated[float, Meta(ge=0, le=1e9)]
InstructionsPerCycle = Annotated[float, Meta(ge=0, le=1000)]
ShortText = Annotated[str, Meta(max_length=1024)]
Capabilities = Annotated[list[ShortText], Meta(max_length=64)]


class Message(msgspec.Struct, tag_field="type", frozen=True, kw_only=True, gc=False):
    """The fields of every message: its version, and its type as the tag."""

    v: Literal[1] = 1


def _each_once(numbers: list[int]) -> None:
    if len(set(numbers)) != len(numbers):
        raise ValueError("a CPU is listed twice")


class GuestCpus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The CPUs of a guest: how many are possible, how many are plugged, and which are online."""

    possible: CpuCount
    present: CpuCount
    online: CpuNumbers

    def __post_init__(self) -> None:
        _each_once(self.online)


class GuestHello(Message, tag="hello", frozen=True, kw_only=True, gc=False):
    """The agent has started, or has restarted."""

    agent: ShortText
    boot_id: ShortText
    cpus: GuestCpus
    capabilities: Capabilities
    versions: Versions | msgspec.UnsetType = msgspec.UNSET
    """The wire versions that it supports."""
    page: Annotated[int, Meta(ge=0, le=2**31 - 1)] | msgspec.UnsetType = msgspec.UNSET
    """The version of the page that it shares with the programs; 0: not given."""


class ReportedPoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A measured speedup S(p) of a process, with its standard error."""

    p: Annotated[int, Meta(ge=1, le=4096)]
    speedup: Speedup
    standard_error: SpeedupError
    samples: Whole


class Learning(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The cost of learning a process's speedup: CPU seconds so far, and fractions of its CPU time."""

    cost: CostSeconds
    budget: Fraction
    used: Fraction
    metric: Literal["rate", "ipc"]
    counters: bool
    """False: ipc was requested, but there is no counter."""


class Decomposition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a process's sections used their thread time recently. The fractions from useful to steal add up to 1."""

    useful: Fraction
    inflation: Fraction
    fork: Fraction
    dispatch: Fraction
    barrier: Fraction
    steal: Fraction
    idle_rate: Fraction
    """fork + dispatch + barrier."""
    section_ms: SectionMs
    """Mean wall time of a section, in milliseconds. 0: unknown."""


class OwnNumber(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a section of a process needs the program's own number of threads."""

    section: ShortText
    """Its name, or its place in its file. Empty: it is in no file."""
    reason: Literal[
        "no_object",
        "machine",
        "unreadable",
        "unknown_code",
        "unknown_call",
        "pointer_call",
        "unknown_store",
        "tells",
        "number_alone",
        "counts",
        "keeps_data",
        "foreign_data",
        "waits",
        "replaced",
    ]
    detail: ShortText
    """What the reason is about. Empty: nothing."""


class ReportedProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A process that joined the agent. pid 0: the agent cannot see its number."""

    pid: Annotated[int, Meta(ge=0, lt=2**31)]
    name: ShortText
    team: Count
    malleable: Literal["full", "shrink", "rigid"]
    running: bool
    points: Annotated[list[ReportedPoint], Meta(max_length=64)]
    override: bool = False
    """VSCAF_MALLEABLE in its environment sets how malleable it is."""
    long_section: bool = False
    """Its section has lasted for a second or longer. It is rigid meanwhile."""
    contained: bool = False
    """It is kept to its share of the guest's CPUs."""
    own: OwnNumber | None = None
    ipc: InstructionsPerCycle | None = None
    """Of a thread in its recent sections. None: not measured."""
    learning: Learning | None = None
    decomposition: Decomposition | None = None


class Report(Message, tag="report", frozen=True, kw_only=True, gc=False):
    """The guest's state over the last period."""

    sequence: Whole
    online: CpuNumbers
    demand: Count
    busy: Cpus
    processes: Annotated[list[ReportedProcess], Meta(max_length=512)]
    quiet: bool | msgspec.UnsetType = msgspec.UNSET
    """No report follows until something changes."""
    steal_governor: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether Linux's steal governor is on in the guest. UNSET: the agent does not tell."""

    def __post_init__(self) -> None:
        _each_once(self.online)


class Ack(Message, tag="ack", frozen=True, kw_only=True, gc=False):
    """The newest allocate has been carried out. `online`: the CPUs that are online now."""

    sequence: Whole
    online: CpuNumbers
    sections_ended: bool

    def __post_init__(self) -> None:
        _each_once(self.online)


class WireError(Message, tag="error", frozen=True, kw_only=True, gc=False):
    """A message for people, from either side."""

    message: ShortText


class HostHello(Message, tag="hello", frozen=True, kw_only=True, gc=False):
    """The daemon has connected, or has restarted."""

    daemon: ShortText
    versions: Versions | msgspec.UnsetType = msgspec.UNSET
    """The wire versions that it supports."""
    capabilities: Capabilities | msgspec.UnsetType = msgspec.UNSET
    """What it can do. QUIET: it understands a report that says `quiet`. SPARSE: a report that repeats the last one need
    come only once a second."""


class Allocate(Message, tag="allocate", frozen=True, kw_only=True, gc=False):
    """How many CPUs the guest has from now on (0: it rests), and its deadline to shrink to them."""

    sequence: Whole
    cpus: Whole
    limit: Whole
    competition: bool
    deadline_ms: Whole


FromGuest = GuestHello | Report | Ack | WireError
FromHost = HostHello | Allocate | WireError

_from_guest: msgspec.json.Decoder[FromGuest] = msgspec.json.Decoder(FromGuest)
_from_host: msgspec.json.Decoder[FromHost] = msgspec.json.Decoder(FromHost)


class _Versioned(msgspec.Struct, frozen=True):
    """Only the version of a line, whatever its other fields are."""

    v: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


_versioned = msgspec.json.Decoder(_Versioned)
_anything = msgspec.json.Decoder()
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ESCAPED_COLON = re.compile(rb"\\u003a", re.IGNORECASE)
_encoder = msgspec.json.Encoder()


class BadLine(ValueError):
    """The line is not a message of this version. `version` is set if the line has another version."""

    def __init__(self, why: str, version: int | None = None) -> None:
        super().__init__(why)
        self.version = version


def decode_from_guest(line: bytes) -> FromGuest:
    """The message in *line* (without its line end). BadLine if it is not a valid message."""
    try:
        message = _from_guest.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(line, error) from error
    # msgspec does not check what it skips: unknown fields, and all but the last of fields with equal names. Each field
    # name is followed by a colon. So a report with its version and as many colons as known names has neither.
    if (
        type(message) is Report
        and line.startswith(b'{"v":1,')
        and b"\\" not in line
        and len(line) < LINE_LIMIT_BYTES
        and line.count(b":") == _names(message)
    ):
        return message
    _check_skipped(line)
    return message


def decode_from_host(line: bytes) -> FromHost:
    """As decode_from_guest, for the other direction. Used by tests and simulated guests."""
    try:
        message = _from_host.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(line, error) from error
    _check_skipped(line)
    return message


def encoded_state(report: Report) -> bytes:
    """How a line for *report* begins, up to the value of `busy`, if it is written as agents write it.

    No name is given twice in a valid line. So of two valid lines that begin with this, neither says anything else about
    `sequence`, `online` and `demand`.
    """
    online = ",".join(map(str, report.online))
    state = f'"sequence":{report.sequence},"online":[{online}],"demand":{report.demand},"busy":'
    return b'{"v":1,"type":"report",' + state.encode()


def _names(report: Report) -> int:
    """The number of field names in a line for *report* that contains optional fields only if they are not default."""
    names = 7 + (report.quiet is not msgspec.UNSET) + (report.steal_governor is not msgspec.UNSET)
    names += 6 * len(report.processes)
    for process in report.processes:
        names += 4 * len(process.points) + process.override + process.long_section + process.contained
        names += (4 if process.own is not None else 0) + (process.ipc is not None)
        names += (6 if process.learning is not None else 0) + (9 if process.decomposition is not None else 0)
    return names


def _check_skipped(line: bytes) -> None:
    """Raises BadLine if a line that decodes breaks a rule in a part that was skipped.

    A dictionary has each name once. So if the line has fewer colons after decoding into one, a name was given twice.
    """
    if len(line) >= LINE_LIMIT_BYTES:
        raise BadLine(f"a line of {len(line)} bytes")
    if b"\\" in line:
        if _NUL.search(line):
            raise BadLine("a NUL in a string")
        line = _ESCAPED_COLON.sub(rb"\\ue000", line)
    try:
        everything = _anything.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(str(error)) from error
    if "v" not in everything:
        raise BadLine("no version field `v`")
    if _encoder.encode(everything).count(b":") != line.count(b":"):
        raise BadLine("a field is given twice")


def _refusal(line: bytes, error: Exception) -> BadLine:
    """The reason why *line* does not decode."""
    if len(line) >= LINE_LIMIT_BYTES:
        return BadLine(f"a line of {len(line)} bytes")
    try:
        version = _versioned.decode(line).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return BadLine(str(error))
    if version != WIRE_VERSION:
        return BadLine(f"version {version} of the wire, not {WIRE_VERSION}", version)
    return BadLine(str(error))


def encode(message: Message) -> bytes:
    """*message* as a line, with its line end."""
    return _encoder.encode(message) + b"\n"
