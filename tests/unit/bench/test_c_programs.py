"""Where a bench looks for its C programs."""

from pathlib import Path

import pytest
from vscaf.bench import c_programs
from vscaf.bench.c_programs import c_program_directory, workload_directory


def test_what_a_build_lacks_is_that_of_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VSCAF_BUILD", raising=False)
    monkeypatch.setattr(c_programs, "INSTALLED", tmp_path / "installed")
    built = Path("build/meson/images/npb")
    assert workload_directory() == built, "nothing is there: the message names what can be built"
    (tmp_path / "installed" / "npb").mkdir(parents=True)
    (tmp_path / "build/meson/host-daemon").mkdir(parents=True)
    assert workload_directory() == tmp_path / "installed" / "npb"
    assert c_program_directory("host-daemon", ".") == Path("build/meson/host-daemon")
    (tmp_path / built).mkdir(parents=True)
    assert workload_directory() == built
    monkeypatch.setenv("VSCAF_BUILD", "/absent")
    assert workload_directory() == Path("/absent/images/npb")
