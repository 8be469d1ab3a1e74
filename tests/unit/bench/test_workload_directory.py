"""Programs that the user has built: which files of a directory are workloads, and what goes along."""

import os
import shutil
import subprocess

import pytest
from vscaf.bench.places.lab import image_with
from vscaf.bench.workloads.directory import directory
from vscaf.errors import UsageError

MAIN = '#include <stdio.h>\nint main(void) { puts(" Verification = SUCCESSFUL"); return 0; }\n'
PARALLEL = "#include <omp.h>\nint main(void) {\n#pragma omp parallel\n  omp_get_wtime();\n  return 0;\n}\n"


def compile_c(text, output, *options):
    """A C program, or a library."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-x", "c", "-", "-o", output, *options]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)


@pytest.fixture
def programs(tmp_path):
    (tmp_path / "programs").mkdir()
    return tmp_path / "programs"


def read(path):
    """The workloads by name, and the lines that were printed."""
    lines = []
    return {one.name: one for one in directory(path, lines.append)}, lines


def test_programs_are_found_by_their_names_and_the_rest_is_named(programs):
    compile_c(MAIN, programs / "cg.A.x")
    for name in ("lu-hp.W", "bt_blk.B.x", "cg.X.x", "cg.A.y", "readme"):
        shutil.copy(programs / "cg.A.x", programs / name)
    shutil.copy(programs / "cg.A.x", programs / "ep.S.x")
    (programs / "ep.S.x").chmod(0o644)
    (programs / "ft.S.x").mkdir()
    (programs / "is.S.x").write_text("#!/bin/sh\n")
    (programs / "is.S.x").chmod(0o755)
    found, lines = read(programs)
    assert {name: one.command for name, one in found.items()} == {
        "cg.A": "./cg.A.x",
        "lu-hp.W": "./lu-hp.W",
        "bt_blk.B": "./bt_blk.B.x",
    }
    assert all(one.npb for one in found.values())
    named = {line.split(" is ignored: ")[0].rpartition("/")[2]: line for line in lines}
    assert sorted(named) == ["cg.A.y", "cg.X.x", "ep.S.x", "ft.S.x", "is.S.x", "readme"]
    assert "not executable" in named["ep.S.x"]
    assert "not a compiled program" in named["is.S.x"]
    assert "its name is not like" in named["readme"]


def test_the_c_library_stays_and_other_libraries_go_along(programs, tmp_path, monkeypatch):
    libraries = tmp_path / "elsewhere"
    compile_c("int answer(void) { return 42; }\n", libraries / "libanswer.so", "-shared", "-fPIC")
    options = [f"-L{libraries}", "-Wl,--no-as-needed", "-lanswer", "-lm", "-lgomp"]
    compile_c("int answer(void); int main(void) { return answer() - 42; }\n", programs / "cg.A.x", *options)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    found, lines = read(programs)
    one = found["cg.A"]
    assert set(one.files) == {"cg.A.x", "lib/libanswer.so", "lib/libgomp.so.1"}
    assert one.environment == {"LD_LIBRARY_PATH": "lib"}
    assert lines == []
    monkeypatch.delenv("LD_LIBRARY_PATH")
    (tmp_path / "guest" / "lib").mkdir(parents=True)
    for name, file in one.files.items():
        shutil.copy(file, tmp_path / "guest" / name)
    shell = ["sh", "-c", f"exec {one.command}"]
    assert subprocess.run(shell, cwd=tmp_path / "guest", env=os.environ | one.environment, check=False).returncode == 0
    with pytest.raises(UsageError, match=r"cg\.A\.x needs libanswer\.so, which this host lacks"):
        read(programs)


def test_all_files_are_in_the_image_of_the_guests(programs, tmp_path):
    compile_c(PARALLEL, programs / "cg.S.x", "-fopenmp")
    image = tmp_path / "image"
    image.mkdir()
    (image / "vmlinuz").touch()
    (image / "initrd.img").write_bytes(b"")
    found, _ = read(programs)
    made = image_with(image, list(found.values()), tmp_path / "new")
    archive = (made / "initrd.img").read_bytes()
    unpack = ["cpio", "--extract", "--make-directories", "--quiet"]
    (tmp_path / "guest").mkdir()
    subprocess.run(unpack, input=archive, cwd=tmp_path / "guest", check=True)
    files = {path.relative_to(tmp_path / "guest") for path in (tmp_path / "guest").rglob("*") if path.is_file()}
    assert {str(path) for path in files} == {"workloads/cg.S.x", "workloads/lib/libgomp.so.1"}
    assert os.access(tmp_path / "guest/workloads/cg.S.x", os.X_OK)


def test_a_program_that_needs_only_the_c_library_needs_no_environment(programs):
    compile_c(MAIN, programs / "ep.S", "-lm")
    found, _ = read(programs)
    assert set(found["ep.S"].files) == {"ep.S"}
    assert found["ep.S"].environment == {}


def test_a_static_program_is_accepted_and_its_own_libgomp_is_told(programs):
    compile_c(PARALLEL, programs / "cg.S.x", "-fopenmp", "-static")
    compile_c(MAIN, programs / "ep.S.x", "-static")
    found, lines = read(programs)
    assert sorted(found) == ["cg.S", "ep.S"]
    assert found["cg.S"].environment == {}
    (line,) = lines
    assert line.startswith("cg.S: ")
    assert "static" in line
    assert "vscaf cannot resize it" in line


def test_a_program_for_another_machine_is_refused(programs):
    compile_c(MAIN, programs / "cg.A.x")
    content = bytearray((programs / "cg.A.x").read_bytes())
    content[18:20] = (0xF3).to_bytes(2, "little")  # EM_RISCV
    (programs / "cg.A.x").write_bytes(content)
    with pytest.raises(UsageError, match="is not a program for this machine"):
        read(programs)


def test_a_directory_without_programs_is_refused(programs, tmp_path):
    with pytest.raises(UsageError, match="no program with a name like"):
        read(programs)
    with pytest.raises(UsageError, match="no such directory"):
        read(tmp_path / "missing")
