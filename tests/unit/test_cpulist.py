"""CPU lists as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf.cpulist import format_cpu_list, parse_cpu_list


@given(st.frozensets(st.integers(0, 300)))
def test_there_and_back(cpus: frozenset[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0x1", "1-2-3", "99999999"])
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="CPU list"):
        parse_cpu_list(text)


def test_shortest() -> None:
    assert format_cpu_list({0, 1, 2, 5, 7, 8}) == "0-2,5,7-8"
    assert format_cpu_list(()) == ""
