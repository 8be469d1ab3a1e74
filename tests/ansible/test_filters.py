"""The filters for a host's configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.cpulist import format_cpu_list, parse_cpu_list

SMT = "# comment\n0,0\n1,1\n2,2\n3,3\n4,0\n5,1\n6,2\n7,3\n"

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT)
VALUES = st.recursive(
    PLAIN, lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(TEXT, below, max_size=3))
)


@pytest.fixture(scope="module")
def filters(collections: Any) -> dict[str, Callable[..., str]]:
    import importlib  # noqa: PLC0415
    import sys  # noqa: PLC0415

    sys.path.insert(0, str(collections))
    loaded = importlib.import_module("ansible_collections.vscaf.vscaf.plugins.filter.host_config")
    found: dict[str, Callable[..., str]] = loaded.FilterModule().filters()
    return found


def test_a_pool_without_the_first_cores(filters: dict[str, Callable[..., str]]) -> None:
    assert filters["pool_cpus"]("all but 1", SMT) == "1-3,5-7"
    assert filters["pool_cpus"]("all but 0", SMT) == "0-7"
    assert filters["pool_cpus"]("all but 3", "0,0\n2,2\n5,5\n6,6\n") == "6"
    assert filters["pool_cpus"]("2-7,10", "") == "2-7,10"


@pytest.mark.parametrize("pool", ["all but 4", "all", "all but", "all but two", "all but -1"])
def test_a_pool_that_cannot_be(filters: dict[str, Callable[..., str]], pool: str) -> None:
    from ansible.errors import AnsibleFilterError  # noqa: PLC0415

    with pytest.raises(AnsibleFilterError, match=pool):
        filters["pool_cpus"](pool, SMT)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_masks(filters: dict[str, Callable[..., str]], cpus: set[int]) -> None:
    mask = filters["cpu_mask"](format_cpu_list(cpus))
    groups = mask.split(",")
    assert all(len(group) == 8 for group in groups[1:]) and len(groups[0]) <= 8
    assert int("".join(groups), 16) == sum(1 << cpu for cpu in cpus)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_a_pool_is_a_cpu_list_as_the_daemon_reads_it(filters: dict[str, Callable[..., str]], cpus: set[int]) -> None:
    lscpu = "".join(f"{cpu},{number}\n" for number, cpu in enumerate(sorted(cpus)))
    assert parse_cpu_list(filters["pool_cpus"]("all but 0", lscpu)) == cpus


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_toml_says_the_same(filters: dict[str, Callable[..., str]], values: dict[str, Any]) -> None:
    assert tomllib.loads(filters["to_toml"](values)) == values


def test_toml_leaves_out_what_is_null(filters: dict[str, Callable[..., str]]) -> None:
    assert filters["to_toml"]({"reserve": None, "pool": "2-7", "policy": {"name": "fair"}}) == (
        'pool = "2-7"\n\n[policy]\nname = "fair"\n'
    )
