"""Programs are built from archives with the layout of the official NPB, and run as a guest would run them."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import npb_tree
import pytest
from npb_tree import BROKEN_PROGRAM, C_PROGRAM, FORTRAN_PROGRAM, HANGING_MAKEFILE, MISMATCHED_PROGRAM
from vscaf.bench.workloads import npb_source as module
from vscaf.bench.workloads.npb_source import npb_source, openmp_tree
from vscaf.errors import UsageError

SLOW = pytest.mark.slow  # compiles


@pytest.fixture(autouse=True)
def other_compilers(tmp_path, monkeypatch):
    """make's own defaults must not be used: they are other compilers, or missing, on some machines."""
    directory = tmp_path / "other-compilers"
    directory.mkdir()
    for name in ("f77", "cc"):
        (directory / name).write_text("#!/bin/sh\nexit 1\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


@pytest.fixture
def official(tmp_path):
    """An archive like NPB3.4.2.tar.gz: it also has the MPI and the serial version, which must not be looked at."""
    top = tmp_path / "NPB3.4.2"
    npb_tree.npb_tree(top, "3.4", {"CG": FORTRAN_PROGRAM, "IS": C_PROGRAM, "UA": BROKEN_PROGRAM})
    for other in ("NPB3.4-MPI", "NPB3.4-SER"):
        shutil.copytree(top / "NPB3.4-OMP", top / other)
        (top / other / "link").symlink_to("Makefile")
    (top / "Changes.log").write_text("3.4.2\n")
    return npb_tree.pack(top, tmp_path / "NPB3.4.2.tar.gz")


def build(source, tmp_path, npb_class="S"):
    """The workloads by name, and what was printed."""
    lines = []
    return {one.name: one for one in npb_source(source, npb_class, tmp_path / "cache", lines.append)}, "\n".join(lines)


def run(workload, directory):
    """Runs the workload's command in a directory that has its files and nothing else. Returns status and output."""
    for name, path in workload.files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, directory / name)
    environment = {"PATH": "/usr/bin:/bin"} | dict(workload.environment)
    done = subprocess.run(
        ["sh", "-c", f"exec {workload.command}"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def guest(tmp_path, name):
    directory = tmp_path / f"guest-{name}"
    directory.mkdir()
    return directory


@SLOW
def test_what_can_be_built_is_built_and_runs(official, tmp_path):
    found, said = build(official, tmp_path)
    assert sorted(found) == ["cg.S", "is.S"]
    assert "UA, class S: DOES NOT BUILD" in said
    assert "ua.f:2" in said  # where the compiler's error is
    for name, workload in found.items():
        status, output = run(workload, guest(tmp_path, name))
        assert workload.verified(status, output), output
        assert f"Class           = {'S':>24}" in output
        assert "-O3 -fopenmp" in output


@SLOW
def test_libraries_that_a_guest_may_lack_go_along(official, tmp_path):
    found, _ = build(official, tmp_path)
    assert {"cg.S.x", "lib/libgfortran.so.5", "lib/libgomp.so.1"} <= set(found["cg.S"].files)
    assert found["cg.S"].environment == {"LD_LIBRARY_PATH": "lib"}
    assert set(found["is.S"].files) == {"is.S.x", "lib/libgomp.so.1"}


@SLOW
def test_the_second_time_nothing_is_built(official, tmp_path, monkeypatch):
    before, _ = build(official, tmp_path)
    monkeypatch.setattr(module, "_make", lambda *_: pytest.fail("make was run again"))
    after, said = build(official, tmp_path)
    assert after == before
    assert "CG, class S: was built before" in said
    assert "UA, class S: DOES NOT BUILD" in said


@SLOW
def test_another_class_is_built_again(official, tmp_path):
    small, _ = build(official, tmp_path)
    large, _ = build(official, tmp_path, "W")
    assert sorted(large) == ["cg.W", "is.W"]
    _, output = run(large["cg.W"], guest(tmp_path, "large"))
    assert f"Class           = {'W':>24}" in output
    assert small["cg.S"].files["cg.S.x"].exists()


@SLOW
def test_a_changed_source_is_built_again(tmp_path):
    tree = npb_tree.npb_tree(tmp_path, "3.4", {"IS": C_PROGRAM})
    before, _ = build(tree, tmp_path)
    (tree / "IS/is.c").write_text(C_PROGRAM.replace("499500", "0"))
    after, _ = build(tree, tmp_path)
    status, output = run(after["is.S"], guest(tmp_path, "changed"))
    assert status == 0
    assert not after["is.S"].verified(status, output)
    assert after["is.S"].fingerprint() != before["is.S"].fingerprint()


@SLOW
def test_a_large_class_says_how_it_is_built(official, tmp_path):
    found, said = build(official, tmp_path, "C")
    assert "-mcmodel=medium" in said
    status, output = run(found["is.C"], guest(tmp_path, "large"))
    assert status == 0
    assert "-O3 -fopenmp -mcmodel=medium" in output
    assert "OMP_STACKSIZE" in found["cg.C"].environment


@SLOW
def test_a_class_that_npb_does_not_define_is_refused_by_npb(tmp_path):
    tree = npb_tree.npb_tree(tmp_path, "3.4", {"IS": C_PROGRAM})
    lines = []
    with pytest.raises(UsageError, match=r"none of the programs .* class F"):
        npb_source(tree, "F", tmp_path / "cache", lines.append)
    assert "class F is not defined for is" in "\n".join(lines)


@SLOW
@pytest.mark.parametrize("version", ["3.3", "3.4"])
def test_both_versions_are_built_though_they_pass_arguments_of_other_types(tmp_path, version):
    top = tmp_path / f"NPB{version}.1"
    npb_tree.npb_tree(top, version, {"FT": MISMATCHED_PROGRAM, "LU": FORTRAN_PROGRAM})
    found, said = build(npb_tree.pack(top, tmp_path / f"NPB{version}.1.tar.gz"), tmp_path)
    assert sorted(found) == ["ft.S", "lu.S"], said
    for name, workload in found.items():
        assert workload.verified(*run(workload, guest(tmp_path, name)))


@SLOW
@pytest.mark.parametrize("part", ["NPB3.4.2", "NPB3.4.2/NPB3.4-OMP"])
def test_a_directory_is_not_changed(official, tmp_path, part):
    directory = tmp_path / part
    left = tmp_path / "NPB3.4.2/NPB3.4-OMP/CG/cg.o"
    left.write_text("left from a build by another compiler\n")
    os.utime(left, (4e9, 4e9))  # so that make would not build it again
    before = sorted((path, path.stat().st_mtime_ns) for path in directory.rglob("*"))
    found, _ = build(directory, tmp_path)
    assert sorted(found) == ["cg.S", "is.S"]
    assert sorted((path, path.stat().st_mtime_ns) for path in directory.rglob("*")) == before


@SLOW
def test_the_bench_may_be_run_in_the_tree(tmp_path, monkeypatch):
    monkeypatch.chdir(npb_tree.npb_tree(tmp_path, "3.4", {"IS": C_PROGRAM}))
    for line in ("built: ", "was built before: "):
        lines = []
        (found,) = npb_source(Path(), "S", Path("build/npb"), lines.append)
        assert line in lines[0]
        assert all(file.is_absolute() for file in found.files.values())


@SLOW
def test_the_flags_of_a_make_around_do_not_come_in(official, tmp_path, monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", "n")  # would print the commands and run none
    found, _ = build(official, tmp_path)
    assert sorted(found) == ["cg.S", "is.S"]


def test_a_build_that_hangs_is_ended_and_tried_again(tmp_path, monkeypatch):
    tree = npb_tree.npb_tree(tmp_path, "3.4", {"CG": HANGING_MAKEFILE})
    monkeypatch.setattr(module, "BUILD_DEADLINE_S", 0.1)
    for _ in range(2):
        lines = []
        with pytest.raises(UsageError, match="none of the programs"):
            npb_source(tree, "S", tmp_path / "cache", lines.append)
        assert "CG, class S: DOES NOT BUILD: not done after" in lines[0]


@pytest.mark.parametrize("command", ["gfortran", "gcc", "make"])
def test_a_missing_compiler_is_named_with_its_package(tmp_path, monkeypatch, command):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == command else which(name))
    with pytest.raises(UsageError, match=f"{command} is missing.* install the package {command}"):
        build(tmp_path, tmp_path)


def test_other_versions_are_refused(official, tmp_path):
    serial = tmp_path / "NPB3.4.2/NPB3.4-SER"
    with pytest.raises(UsageError, match="not the OpenMP version"):
        openmp_tree(serial, serial)
    with pytest.raises(UsageError, match="no OpenMP version"):
        openmp_tree(serial / "CG", serial / "CG")
    npb_tree.npb_tree(tmp_path / "NPB3.3.1", "3.3", {})
    with pytest.raises(UsageError, match=r"several.*NPB3\.3\.1/NPB3\.3-OMP and NPB3\.4\.2/NPB3\.4-OMP"):
        openmp_tree(tmp_path, tmp_path)


def member(name, kind=tarfile.REGTYPE, target=""):
    one = tarfile.TarInfo(name)
    one.type, one.linkname = kind, target
    return one


@pytest.mark.parametrize(
    "bad",
    [
        member("../NPB3.4-OMP/outside"),
        member("NPB3.4-OMP/../../outside"),
        member("/tmp/NPB3.4-OMP/outside"),
        member("NPB3.4-OMP/link", tarfile.SYMTYPE, "/etc"),
        member("NPB3.4-OMP/link", tarfile.LNKTYPE, "NPB3.4-OMP/Makefile"),
        member("NPB3.4-OMP/device", tarfile.CHRTYPE),
    ],
    ids=lambda one: f"{one.name}-{one.type.decode()}",
)
def test_an_archive_that_reaches_outside_is_refused(tmp_path, bad):
    archive = npb_tree.pack_members(tmp_path / "bad.tar.gz", [member("NPB3.4-OMP/Makefile"), bad])
    with pytest.raises(UsageError, match="is not unpacked"):
        build(archive, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz", "cache", "other-compilers"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_is_no_archive_is_refused(tmp_path, official):
    text = tmp_path / "text.tar.gz"
    text.write_text("no archive\n")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(official.read_bytes()[:1000])
    for source in (text, cut, tmp_path / "missing.tar.gz"):
        with pytest.raises(UsageError, match="cannot be unpacked"):
            build(source, tmp_path)
    empty = npb_tree.pack_members(tmp_path / "empty.tar.gz", [member("other/Makefile")])
    with pytest.raises(UsageError, match="no OpenMP version"):
        build(empty, tmp_path)
