"""Which settings samples belong to."""

from pathlib import Path

import pytest
from vscaf.bench.places.choice import choose
from vscaf.bench.places.options import PlaceOptions


@pytest.mark.parametrize("no_vm", [True, False])
def test_samples_of_another_number_of_members_are_not_continued(tmp_path: Path, no_vm: bool) -> None:
    options = PlaceOptions(no_vm=no_vm)
    two, four = (choose(options, tmp_path, tmp_path, count).settings for count in (2, 4))
    assert two != four and two == choose(options, tmp_path, tmp_path, 2).settings
