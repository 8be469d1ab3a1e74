"""The configuration: what is refused and with which message, and that its help is complete."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from vscaf.config import HELP, Config, DomainConfig, PolicyConfig, load_config, parse_address
from vscaf.errors import UsageError


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "vscaf.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_a_pool_is_enough(tmp_path: Path) -> None:
    config = load(tmp_path, 'pool = "2-3"\n')
    assert config == Config(pool="2-3")
    assert config.domains == {} and config.metadata
    assert config.reserve_cpus(frozenset(range(6))) == {0, 1, 4, 5}


def test_a_reserve_of_its_own(tmp_path: Path) -> None:
    config = load(tmp_path, 'pool = "2-3"\nreserve = "0,9"\nrest = "share"\n[domains.a]\nrest = "keep"\n')
    assert config.reserve_cpus(frozenset(range(6))) == {0}, "an offline CPU is in the reserve"


CASES = {
    'reserve = "3-4"': ["reserve", "CPU 3", "in the pool too", "take it out"],
    'reserve = ""': ["reserve", "names no CPU", "write it like"],
    'reserve = "x"': ["reserve", "'x'", "write it like"],
    'metrics_address = "9753"': ["metrics_address", "no port", "127.0.0.1:9753"],
    'metrics_address = "127.0.0.1:0"': ["metrics_address", "no port"],
    'metrics_address = "127.0.0.1:65536"': ["metrics_address", "no port"],
    'metrics_address = "localhost:9753"': ["metrics_address", "localhost", "127.0.0.1:9753"],
    'metrics_address = "::1:9753"': ["metrics_address", "[::1]:9753"],
    'metrics_address = "[::g]:9753"': ["metrics_address", "::g"],
    'foreign_changes = "ignore"': ["foreign_changes", "ignore", "--help-config"],
    'emulator = "pool"': ["emulator", "pool", "--help-config"],
    'smt = "core"': ["smt", "core", "--help-config"],
    'stop = "leave"': ["stop", "--help-config"],
    'control_read_group = ""': ["control_read_group", "--help-config"],
    "unplug_after_s = 0": ["unplug_after_s", ">= 1", "--help-config"],
    'unplug = "yes"': ["unplug", "bool"],
    "metadata = false": ["no [domains.NAME]", "metadata = false", "set one"],
    "domains.a.priority = 1001": ["priority", "<= 1000"],
    "domains.a.priority = -1001": ["priority", ">= -1000"],
    "domains.a = {minimum = 3, maximum = 2}": ["domain a", "3", "2", "lower"],
    'uri = ""': ["uri", "qemu:///system"],
}


@pytest.mark.parametrize("line", CASES)
def test_refused_in_one_line(line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load(tmp_path, f'pool = "2-3"\n{line}\n')
    message = str(refused.value)
    assert message.startswith(f"config {tmp_path}/vscaf.toml: ") and "\n" not in message
    for word in CASES[line]:
        assert word in message


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9753", ("127.0.0.1", 9753)), ("[::1]:1", ("::1", 1)), ("0.0.0.0:65535", ("0.0.0.0", 65535))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("content", [b'pool = "\xff"', b"x = " + b"[" * 100_000], ids=["not UTF-8", "too deep"])
def test_what_no_parser_reads_is_refused_too(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "vscaf.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"not TOML: .*: fix that line"):
        load_config(path)


TABLES: list[tuple[tuple[str, ...], type[msgspec.Struct], set[str]]] = [
    ((), Config, {"policy", "domains"}),
    (("policy",), PolicyConfig, set()),
    (("domains", "NAME"), DomainConfig, set()),
]


@pytest.mark.parametrize(("where", "struct", "tables"), TABLES)
def test_the_help_names_every_key_with_its_default(
    where: tuple[str, ...], struct: type[msgspec.Struct], tables: set[str], tmp_path: Path
) -> None:
    load(tmp_path, HELP)
    shown: Any = tomllib.loads(HELP)
    for name in where:
        shown = shown[name]
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert set(shown) == set(fields), "the help and the structs have different keys"
    for name in set(fields) - tables:
        (line,) = _lines_of(where, name)
        assert "#" in line, f"{name} has no explanation"
        field = fields[name]
        if field.required:
            continue
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        if default is None:
            assert "unset:" in line, f"{name}: the help must say what it is if unset"
        else:
            assert shown[name] == default, f"{name}: the help shows another default"


def _lines_of(where: tuple[str, ...], name: str) -> list[str]:
    section = HELP.split("\n[")[0] if not where else HELP.split(f"\n[{'.'.join(where)}]")[1].split("\n[")[0]
    return [line for line in section.splitlines() if re.match(rf"{name} = ", line)]
