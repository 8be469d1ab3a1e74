# Copyright: the vscaf developers
# SPDX-License-Identifier: Apache-2.0
"""Filters for the configuration of a host: pool_cpus, cpu_mask and to_toml."""

from __future__ import annotations

import json
import re

from ansible.errors import AnsibleFilterError

ALL_BUT = re.compile(r"all but ([0-9]+)")


def pool_cpus(pool: str, lscpu: str) -> str:
    """The CPU list for *pool*: itself, or for "all but N" all CPUs except those of the first N cores.

    lscpu: output of `lscpu --parse=CPU,CORE`, a line for each online CPU. Raises AnsibleFilterError.
    """
    if "all" not in pool:
        return pool
    asked = ALL_BUT.fullmatch(pool.strip())
    if asked is None:
        raise AnsibleFilterError(f'the pool is "{pool}": write a CPU list like "2-7" or "all but 2"')
    lines = [line for line in lscpu.splitlines() if line.strip() and not line.startswith("#")]
    core_of = {int(cpu): core for cpu, core in (line.split(",")[:2] for line in lines)}
    cores = sorted(set(core_of.values()), key=lambda core: min(cpu for cpu, one in core_of.items() if one == core))
    kept = int(asked.group(1))
    if kept >= len(cores):
        raise AnsibleFilterError(f'the pool is "{pool}", but this host has {len(cores)} cores: nothing would be left')
    return cpu_list(cpu for cpu, core in core_of.items() if core not in cores[:kept])


def cpu_list(cpus) -> str:
    """The kernel's list of CPU numbers, like "2-7,10"."""
    ranges = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def cpu_mask(cpus: str) -> str:
    """The kernel's mask for a CPU list: hexadecimal, in groups of 32 bits. Raises AnsibleFilterError."""
    mask = 0
    try:
        for part in cpus.split(","):
            low, _dash, high = part.partition("-")
            for cpu in range(int(low), int(high or low) + 1):
                mask |= 1 << cpu
    except ValueError as error:
        raise AnsibleFilterError(f'"{cpus}" is no CPU list: write it like "0-1,8"') from error
    digits = f"{mask:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[index : index + 8] for index in range(0, len(digits), 8)).lstrip("0") or "0"


def to_toml(values: dict) -> str:
    """A TOML document of *values*. What is None is left out. Raises AnsibleFilterError for what TOML cannot hold."""
    return "".join(f"{line}\n" for line in _table((), values))


def _table(path: tuple, values: dict):
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    for key, value in values.items():
        if value is not None and key not in tables:
            yield f"{_string(str(key))} = {_value(value)}"
    for key, value in tables.items():
        below = (*path, str(key))
        yield ""
        yield f"[{'.'.join(map(_string, below))}]"
        yield from _table(below, value)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _string(value, quoted=True)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_string(str(key))} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{{', '.join(pairs)}}}"
    raise AnsibleFilterError(f"{value!r} cannot be written in the configuration: it is a {type(value).__name__}")


def _string(text: str, quoted: bool = False) -> str:
    """A key or a value. JSON's strings are TOML's, except that TOML also escapes DEL."""
    if not quoted and re.fullmatch(r"[A-Za-z0-9_-]+", text):
        return text
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class FilterModule:
    """The filters of this file."""

    def filters(self):
        return {"pool_cpus": pool_cpus, "cpu_mask": cpu_mask, "to_toml": to_toml}
