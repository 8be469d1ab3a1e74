"""What counts as a change by somebody else."""

from dataclasses import replace

from vscaf.core.reconcile.drift import foreign_changes
from vscaf.core.reconcile.state import Affinity

ALL, LESS = frozenset({0, 1, 2, 3}), frozenset({0, 1, 2})


def affinity(pins: frozenset[int], online: frozenset[int]) -> Affinity:
    return Affinity({0: pins, 1: pins}, pins, {1: pins}, 100, online)


def test_a_pcpu_that_goes_offline_or_comes_back_is_no_change_by_somebody() -> None:
    assert not foreign_changes(affinity(ALL, ALL), affinity(LESS, LESS))
    assert not foreign_changes(affinity(LESS, LESS), affinity(ALL, ALL))
    assert not foreign_changes(affinity(ALL, frozenset()), affinity(LESS, LESS)), "not known what was online before"


def test_pins_that_somebody_changed_are_found_whatever_is_online() -> None:
    parts = {"vcpus", "emulator", "iothreads"}
    for online in (ALL, frozenset[int]()):
        assert foreign_changes(affinity(ALL, online), affinity(LESS, online)).keys() == parts
    moved = affinity(frozenset({1, 2}), LESS)
    assert foreign_changes(affinity(ALL, ALL), moved).keys() == parts, "CPU 0 is online"
    one = replace(affinity(LESS, LESS), vcpus={0: LESS, 1: frozenset({0})}, shares=50)
    assert foreign_changes(affinity(ALL, ALL), one) == {
        "vcpus": "the pins of vCPU 1",
        "shares": "its CPU weight (100 -> 50)",
    }
