"""Which keys differ between two configurations, and which of them need a restart."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.config import HELP, Config, DomainConfig, PolicyConfig
from vscaf.control.messages import ConfigChange
from vscaf.daemon.config_changes import RESTART_KEYS, config_changes, need_restart

README = Path(__file__).parents[3] / "host-daemon/README.md"
KEYS = {field.name for field in msgspec.structs.fields(Config)}


def lines(before: Config, after: Config) -> list[str]:
    return [f"{one.key}: {one.before} -> {one.after}" for one in config_changes(before, after)]


def test_each_key_that_differs_is_one_change() -> None:
    before = Config(pool="0-3", domains={"a": DomainConfig(maximum=2), "b": DomainConfig()})
    after = Config(
        pool="0-5",
        reserve="6",
        unplug=False,
        exploration_percent=0.5,
        domains={"a": DomainConfig(minimum=2, weight=2.0), "b": DomainConfig()},
    )
    assert lines(before, after) == [
        "pool: 0-3 -> 0-5",
        "reserve: None -> 6",
        "exploration_percent: 1.0 -> 0.5",
        "unplug: true -> false",
        "domains.a.minimum: 1 -> 2",
        "domains.a.maximum: 2 -> None",
        "domains.a.weight: 1.0 -> 2.0",
    ]
    assert config_changes(after, after) == []


def test_a_table_that_comes_or_goes_is_one_change() -> None:
    before = Config(pool="0", domains={"a": DomainConfig(), "a.b": DomainConfig(maximum=3)})
    after = Config(pool="0", domains={"a": DomainConfig(), "c": DomainConfig(managed=False)})
    rest = "weight=1.0 priority=0 managed="
    assert lines(before, after) == [
        f'domains."a.b": minimum=1 maximum=3 {rest}true -> None',
        f"domains.c: None -> minimum=1 {rest}false",
    ]


def test_a_policy_and_each_of_its_options() -> None:
    before = Config(pool="0", policy=PolicyConfig(name="static", options={"allocations": {"a": 2}, "x": "1"}))
    after = Config(pool="0", policy=PolicyConfig(name="gang", options={"x": 1, "slice_s": 2.0}))
    assert lines(before, after) == [
        "policy.name: static -> gang",
        'policy.options.allocations: {"a": 2} -> None',
        'policy.options.x: "1" -> 1',
        "policy.options.slice_s: None -> 2.0",
    ]


def test_keys_that_need_a_restart_are_named() -> None:
    def changes(**keys: Any) -> list[ConfigChange]:
        return config_changes(Config(pool="0"), Config(pool="0", **keys))

    assert need_restart(changes(period_ms=100, control_read_group="x")) == []
    assert need_restart(changes(period_ms=100, uri="test:///x", metrics_address="127.0.0.1:1")) == [
        "uri",
        "metrics_address",
    ]
    assert RESTART_KEYS <= KEYS


DOMAINS = st.dictionaries(
    st.text(max_size=4),
    st.builds(
        DomainConfig,
        minimum=st.integers(1, 2),
        maximum=st.none() | st.integers(1, 3),
        weight=st.sampled_from([1.0, 2.0]),
        rest=st.sampled_from([None, "keep"]),
        managed=st.booleans(),
    ),
    max_size=3,
)
POLICIES = st.builds(
    PolicyConfig,
    name=st.sampled_from(["a", "b"]),
    options=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)
CONFIGS = st.builds(
    Config,
    pool=st.sampled_from(["0", "1"]),
    reserve=st.sampled_from([None, "", "2"]),
    unplug=st.booleans(),
    policy=POLICIES,
    domains=DOMAINS,
)


@given(CONFIGS, CONFIGS)
def test_equal_configurations_have_no_changes_and_others_have_some(before: Config, after: Config) -> None:
    changes = config_changes(before, after)
    assert (changes == []) == (before == after)
    assert len({one.key for one in changes}) == len(changes)
    back = {(one.key, one.after, one.before) for one in config_changes(after, before)}
    assert back == {(one.key, one.before, one.after) for one in changes}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_help_and_readme_say_whether_a_key_needs_a_restart(key: str) -> None:
    own, *tables = HELP.split("\n[")
    shown = [*own.splitlines(), *(table.splitlines()[0] for table in tables)]
    (line,) = [line for line in shown if re.match(rf"{key}( = |(\.NAME)?\])", line)]
    assert line.endswith("; restart") == (key in RESTART_KEYS)
    table = README.read_text(encoding="utf-8").split("\n## Reload\n")[1].split("\n## ")[0]
    (row,) = [row for row in table.splitlines() if row.startswith("|") and f"`{key}`" in row.split("|")[1]]
    assert ("restart" in row.split("|")[2]) == (key in RESTART_KEYS)
