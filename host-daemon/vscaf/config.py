"""The daemon's configuration file (TOML): its keys, their defaults, and its checks."""

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from vscaf.cpulist import format_cpu_list, parse_cpu_list
from vscaf.errors import UsageError

DEFAULT_CONFIG = Path("/etc/vscaf/vscaf.toml")

Milliseconds = Annotated[int, Meta(ge=10, le=60_000)]
Share = Annotated[str, Meta(pattern="^(reserve|share|keep)$")]
GroupName = Annotated[str, Meta(min_length=1, max_length=256)]


class DomainConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rules of one domain. Bounds are pCPUs. Without `maximum`, the domain's own vCPU maximum is used.

    If more domains compute than there are chunks, those of higher `priority` keep a chunk of their own. With
    `managed = false` the domain is left alone, whatever its metadata say.
    """

    minimum: Annotated[int, Meta(ge=1)] = 1
    maximum: Annotated[int, Meta(ge=1)] | None = None
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    rest: Share | None = None
    managed: bool = True


class PolicyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which policy decides, and its options, which are passed to it unchanged."""

    name: str = "max-speedup-fitted"
    options: dict[str, Any] = {}


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file.

    `pool` and `reserve` are CPU lists. `rest` says where domains without demand run. "reserve": on the reserve.
    "share": over the pool, at `rest_weight_percent` of their weight. "keep": they keep their CPUs and do not rest.
    Unset: "reserve" if there is a reserve, else "share".
    """

    pool: str
    reserve: str | None = None
    domains: dict[str, DomainConfig] = {}
    metadata: bool = True
    uri: str = "qemu:///system"
    state_directory: str = "/var/lib/vscaf"
    control_socket: str = "/run/vscaf/control.sock"
    control_read_group: GroupName | None = None
    control_write_group: GroupName | None = None
    metrics_address: str | None = None
    period_ms: Milliseconds = 250
    deadline_ms: Milliseconds = 400
    call_timeout_ms: Milliseconds = 5000
    newcomer_ms: Milliseconds = 2000
    exploration_percent: Annotated[float, Meta(ge=0, le=10)] = 1.0
    rest: Share | None = None
    rest_weight_percent: Annotated[int, Meta(ge=1, le=100)] = 100
    emulator: Literal["reserve", "partition"] | None = None
    smt: Literal["core-exclusive", "thread"] = "core-exclusive"
    foreign_changes: Literal["mend", "respect"] = "mend"
    unplug: bool = True
    unplug_after_s: Annotated[int, Meta(ge=1, le=86_400)] = 600
    record: bool = False
    record_most_mb: Annotated[int, Meta(ge=1, le=1_000_000)] = 100
    policy: PolicyConfig = PolicyConfig()

    @property
    def pool_cpus(self) -> frozenset[int]:
        return parse_cpu_list(self.pool)

    def reserve_cpus(self, online: frozenset[int]) -> frozenset[int]:
        """The pCPUs for resting domains and emulators, on a host with these pCPUs *online*. It may be empty.

        If the file does not name a reserve, it is all pCPUs outside the pool.
        """
        if self.reserve is None:
            return online - self.pool_cpus
        return parse_cpu_list(self.reserve) & online


def parse_address(text: str) -> tuple[str, int]:
    """Address and port of "127.0.0.1:9753" or "[::1]:9753".

    ValueError for anything else. Host names are refused, because a name may have several addresses.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{text!r} has no port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        return str(ipaddress.IPv6Address(host[1:-1])), int(port)
    return str(ipaddress.IPv4Address(host)), int(port)


def load_config(path: Path) -> Config:
    """The configuration in *path*. UsageError if it is wrong: one line with the key and what to do."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"config {path}: {error.strerror}: give a readable file with --config") from error
    try:
        config = msgspec.toml.decode(text, type=Config)
    except msgspec.ValidationError as error:
        raise UsageError(f"config {path}: {error}: see `vscaf daemon --help-config` for the keys") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"config {path}: not TOML: {error}: fix that line") from error
    try:
        _check(config)
    except ValueError as error:
        raise UsageError(f"config {path}: {error}") from error
    return config


def _check(config: Config) -> None:
    """ValueError, with the key and what to do, if keys contradict each other or a needed one is empty."""
    if not config.uri:
        raise ValueError('uri is empty: write one like "qemu:///system"')
    pool = _cpus("pool", config.pool)
    if config.reserve is not None:
        both = pool & _cpus("reserve", config.reserve)
        if both:
            raise ValueError(f"reserve: CPU {format_cpu_list(both)} is in the pool too: take it out of one of them")
    if config.metrics_address is not None:
        try:
            parse_address(config.metrics_address)
        except ValueError as error:
            raise ValueError(
                f'metrics_address: {error}: write an address and a port, like "127.0.0.1:9753" or "[::1]:9753"'
            ) from error
    if not config.domains and not config.metadata:
        raise ValueError("no [domains.NAME] and metadata = false: there is nothing to manage: set one of them")
    for name, domain in config.domains.items():
        if domain.maximum is not None and domain.minimum > domain.maximum:
            raise ValueError(
                f"domain {name}: minimum {domain.minimum} is above maximum {domain.maximum}: "
                "lower the one or raise the other"
            )


def _cpus(key: str, text: str) -> frozenset[int]:
    hint = 'write it like "2-7,10"'
    try:
        cpus = parse_cpu_list(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}: {hint}") from error
    if not cpus:
        raise ValueError(f"{key} names no CPU: {hint}")
    return cpus


HELP = """\
# vscaf daemon configuration (TOML). Only `pool` is needed. `vscaf check-config FILE` checks a file.
# `vscaf reload` makes a running daemon use a changed file. Keys marked "restart" need a restart of the daemon instead.
pool = "2-7"                      # pCPUs to hand out, whole cores
reserve = "0-1"                   # where resting domains and emulators run; unset: all CPUs outside the pool
metadata = true                   # also manage domains that are marked in their own libvirt metadata
uri = "qemu:///system"            # libvirt connection; restart
state_directory = "/var/lib/vscaf"          # for the journal of the settings that were found; restart
control_socket = "/run/vscaf/control.sock"  # used by `vscaf status` and other commands; restart
control_read_group = "vscaf"      # this group may read: status, events, policies, metrics; unset: only root
control_write_group = "vscaf-admin"  # this group may also change: policy, reload, release, ...; unset: only root
metrics_address = "127.0.0.1:9753"   # Prometheus metrics over HTTP, for all clients that reach it; unset: off; restart

period_ms = 250                   # observe and decide this often
deadline_ms = 400                 # a guest that has not shrunk after this time is contained
call_timeout_ms = 5000            # a libvirt call that takes longer is given up; restart
newcomer_ms = 2000                # how long a domain gets an equal share after a long rest or with other programs
exploration_percent = 1.0         # how much of the sum of speedups exploring may cost on average; 0: no exploring

rest = "share"                    # reserve | share | keep; unset: reserve if there is one, else share
rest_weight_percent = 100         # share of a domain's CPU weight while it rests over the pool; less: it wakes slowly
emulator = "reserve"              # reserve | partition: where emulator and I/O threads run; unset: reserve if any
smt = "core-exclusive"            # threads of one core never belong to two domains | thread: they may
foreign_changes = "mend"          # pins or counts changed by others are put right | respect: that domain is left alone
unplug = true                     # unplug vCPUs that were unused for long; only under KVM, elsewhere it never completes
unplug_after_s = 600              # how long they must be unused

record = false                    # record each decision for `vscaf replay`, in state_directory/record
record_most_mb = 100              # the most that recordings take there; the oldest are removed; 1 MB: 1,000,000 bytes

[policy]
name = "max-speedup-fitted"       # or another of `vscaf policy list`
options = {}                      # for example {most_of_equal = 2} or, for static, {allocations = {NAME = CPUS}}

[domains.NAME]                    # a table for each domain; its metadata override all keys except `managed`
minimum = 1                       # the fewest pCPUs it has while it computes
maximum = 4                       # the most pCPUs it ever has; unset: its own vCPU maximum
weight = 1.0                      # how much its speedup counts; some policies ignore it: check-config tells
priority = 0                      # -1000 to 1000: higher ones keep own pCPUs if more compute than there are chunks
rest = "keep"                     # overrides the rest above; unset: that one
managed = true                    # false: never touched, whatever its metadata say
"""
