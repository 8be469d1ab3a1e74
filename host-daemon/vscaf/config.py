"""The daemon's configuration file (TOML): its keys, their defaults, and what is wrong with a bad one."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vscaf.cpulist import parse_cpu_list
from vscaf.errors import UsageError

Milliseconds = Annotated[int, Meta(ge=10, le=60_000)]
Share = Annotated[str, Meta(pattern="^(reserve|share|keep)$")]


class DomainConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one domain may have. Bounds are pCPUs; an unset `maximum` is the domain's own vCPU maximum."""

    minimum: Annotated[int, Meta(ge=1)] = 1
    maximum: Annotated[int, Meta(ge=1)] | None = None
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    rest: Share | None = None


class PolicyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which policy decides, and the options it is given as they stand."""

    name: str = "max-speedup"
    options: dict[str, Any] = {}


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file.

    `pool` is a CPU list; every other table key is optional. `rest` says where resting domains run: on the host's CPUs
    outside the pool ("reserve"), over the pool at `rest_weight_percent` of their weight ("share"), or not at all:
    they keep their CPUs ("keep"). Unset: "reserve" where there is a reserve, else "share".
    """

    pool: str
    domains: dict[str, DomainConfig]
    uri: str = "qemu:///system"
    state_directory: str = "/var/lib/vscaf"
    control_socket: str = "/run/vscaf/control.sock"
    period_ms: Milliseconds = 250
    deadline_ms: Milliseconds = 400
    call_timeout_ms: Milliseconds = 5000
    newcomer_ms: Milliseconds = 2000
    rest: Share | None = None
    rest_weight_percent: Annotated[int, Meta(ge=1, le=100)] = 100
    policy: PolicyConfig = PolicyConfig()

    @property
    def pool_cpus(self) -> frozenset[int]:
        return parse_cpu_list(self.pool)

    def rest_of(self, name: str) -> str | None:
        """Where domain *name* rests by this file; None: by what the host has."""
        return self.domains[name].rest or self.rest


def load_config(path: Path) -> Config:
    """The configuration in *path*. UsageError, one line naming the key and the mend, for a bad one."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"config {path}: {error.strerror}: give a readable file with --config") from error
    try:
        config = msgspec.toml.decode(text, type=Config)
    except msgspec.ValidationError as error:
        raise UsageError(f"config {path}: {error}: see `vscaf daemon --help-config` for the keys") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"config {path}: not TOML: {error}: mend that line") from error
    try:
        pool = config.pool_cpus
    except ValueError as error:
        raise UsageError(f'config {path}: pool: {error}: write it like "2-7,10"') from error
    if not pool:
        raise UsageError(f'config {path}: pool names no CPU: write it like "2-7,10"')
    for name, domain in config.domains.items():
        if domain.maximum is not None and domain.minimum > domain.maximum:
            raise UsageError(
                f"config {path}: domain {name}: minimum {domain.minimum} is above maximum {domain.maximum}: "
                "lower the one or raise the other"
            )
    return config


HELP = """\
# vscaf daemon configuration (TOML). Only `pool` and one [domains.NAME] are needed.
pool = "2-7"                      # pCPUs to hand out, whole cores; the rest of the host is the reserve
uri = "qemu:///system"            # libvirt connection
state_directory = "/var/lib/vscaf"          # the journal of what was found
control_socket = "/run/vscaf/control.sock"  # `vscaf status` asks here
period_ms = 250                   # observe and decide this often
deadline_ms = 400                 # a guest that has not shrunk by then is contained
call_timeout_ms = 5000            # a libvirt call that takes longer is given up
newcomer_ms = 2000                # a domain that starts computing gets an equal share this long
rest_weight_percent = 100         # of its own CPU weight while it rests over the pool; less makes it slow to wake
rest = "share"                    # reserve | share | keep; unset: reserve where the host has one, else share

[policy]
name = "max-speedup"              # unmanaged | static | equipartition | max-speedup | an installed plug-in
options = {}                      # static: options.allocations = { NAME = CPUS }

[domains.NAME]                    # a table for each domain that vscaf manages
minimum = 1                       # pCPUs it always has while it computes
maximum = 4                       # pCPUs it never exceeds; unset: its own vCPU maximum
weight = 1.0                      # how much its speedup counts
rest = "keep"                     # overrides the rest above
"""
