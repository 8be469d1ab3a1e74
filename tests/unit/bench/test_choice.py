"""Which settings samples belong to."""

from pathlib import Path

import pytest
from vscaf.bench.places import own_pool
from vscaf.bench.places.choice import choose
from vscaf.bench.places.options import MOST_CPUS, PlaceOptions
from vscaf.bench.places.place import PlaceError
from vscaf.errors import UsageError


@pytest.mark.parametrize("no_vm", [True, False])
def test_samples_of_another_number_of_members_are_not_continued(tmp_path: Path, no_vm: bool) -> None:
    options = PlaceOptions(no_vm=no_vm)
    two, four = (choose(options, tmp_path, tmp_path, count).settings for count in (2, 4))
    assert two != four and two == choose(options, tmp_path, tmp_path, 2).settings


@pytest.mark.parametrize("no_vm", [True, False])
def test_the_pool_has_the_cpus_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_vm: bool) -> None:
    monkeypatch.setattr(own_pool.os, "sched_getaffinity", lambda _: set(range(100)))
    assert choose(PlaceOptions(no_vm=no_vm, cpus=6), tmp_path, tmp_path, 2).cpus == 6
    assert choose(PlaceOptions(no_vm=no_vm), tmp_path, tmp_path, 2).cpus == MOST_CPUS
    monkeypatch.setattr(own_pool.os, "sched_getaffinity", lambda _: {3, 5, 6})
    assert choose(PlaceOptions(no_vm=no_vm), tmp_path, tmp_path, 2).cpus == 3
    with pytest.raises(PlaceError, match=r"there are 3 CPUs, and 4 are needed.*--cpus"):
        own_pool.own_pool(4)


def test_guests_that_exist_have_their_cpus_from_the_pool(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name their CPUs by --pool"):
        choose(PlaceOptions(existing=("a", "b"), cpus=2), tmp_path, tmp_path, 2)
