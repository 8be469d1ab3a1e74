"""Runs the fuzz targets in parallel, and prints what they found and covered. Exit status 1: something was found.

`make fuzz` runs it. README.md has the details. It needs only the standard library.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "wire" / "golden"
SOURCES = HERE.parent / "src"
TARGETS = {"lines": 600, "messages": 1500, "page": 600, "join": 400, "inspect": 8192, "record": 1024}
"""The targets, each with the longest input to try. Longer inputs take more time and find nothing more."""
# The sources that the targets should reach. Their coverage is printed.
FUZZED = {
    *("agent/agent", "agent/messages", "cpus/cpus", "host/allocation", "host/line_buffer", "host/wire"),
    *("pages/learned", "pages/sections_in_flight", "pages/threads", "programs/clients", "programs/long_section"),
    *("split/cpu_budget", "split/cpu_load", "split/shares", "split/split"),
}
OBJECTS = {
    "free": "void work(void *data) { *(int *)data = 1; }",
    "calls": "double sin(double); void work(double *data) { *data = sin(*data); }",
    "loop": "int omp_get_thread_num(void); void work(int *data) { for (int i = 0; i < 9; i++) "
    "data[omp_get_thread_num()] += i; }",
    "private": "static _Thread_local int kept; void work(int *data) { *data = kept++; }",
    "pointer": "void work(void (*function)(void)) { function(); }",
    "switch": "int f(int); int work(int a) { switch (a) { case 0: return f(7); case 1: return f(2); case 2: return 5; "
    "case 3: return f(9); case 4: return f(1); default: return a; } }",
}
"""Sources of small objects, as seeds of inspect."""
HANGS_S = 1200  # an input takes ms, but libFuzzer measures real time and machines can be busy
KEPT_INPUTS, KEPT_BYTES = 50, 2048  # the most inputs of a target in the repository, and the longest
STAT = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)/")


@dataclass(frozen=True)
class Run:
    """The result of one target."""

    target: str
    status: int
    executions: int
    edges: int
    features: int
    inputs: int
    log: Path


def seeds(target: str, directory: Path) -> None:
    """Writes golden lines as inputs of the message layer: each alone, then all with time and sections between."""
    directory.mkdir(parents=True, exist_ok=True)
    if target == "inspect":
        objects(directory)
    if target == "record":
        records(directory)
    if target != "messages":
        return
    host = (GOLDEN / "host.jsonl").read_bytes().splitlines()
    bad = [json.loads(line)[1].encode(errors="surrogatepass") for line in (GOLDEN / "bad.jsonl").open()]
    for number, line in enumerate([*host, *bad]):
        (directory / f"golden-{number:03}").write_bytes(line + b"\n")
    (directory / "golden-all").write_bytes(b"\n\x01\x0a\n\x02\x00\n\x03\x00\n".join(host) + b"\n")


def objects(directory: Path) -> None:
    """Writes small ELF objects, each with one section that is asked for, as if the compiler had outlined it."""
    for name, source in OBJECTS.items():
        made = directory / f"{name}.so"
        renamed = source.replace(" work(", " work_omp_fn_0(")
        command = [
            "clang",
            "-x",
            "c",
            "-",
            "-O2",
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-fno-stack-protector",
            "-fno-builtin",
        ]
        command += [
            "-fno-asynchronous-unwind-tables",
            "-Wl,-z,noseparate-code,--build-id=none,-z,norelro",
            "-o",
            str(made),
        ]
        subprocess.run(command, input=renamed.encode(), check=True)
        subprocess.run(["objcopy", "--redefine-sym", "work_omp_fn_0=work._omp_fn.0", str(made)], check=True)
        made.write_bytes(b"\0" + made.read_bytes())


def records(directory: Path) -> None:
    """Writes records with no section, and with one that needs its own number."""
    magic, section_bytes = 0x3144524356414353, 24 + 8 + 64 + 96 + 64
    for count in (0, 1, 2):
        head = struct.pack("<QIIII32s64s", magic, 1, section_bytes, 1, count, b"s" * 32, b"")
        sections = (struct.pack("<QQQII64s96s64s", i, i, 9, 3 | 5 << 8, 0, b"", b"f", b"sin") for i in range(count))
        (directory / f"record-{count}").write_bytes(head + b"".join(sections))


def run(target: str, build: Path, seconds: int, extra: list[str]) -> Run:
    """Runs one target for that many seconds in a directory of its own. What it finds goes to build/found."""
    place = build / "run" / target
    if place.exists():
        shutil.rmtree(place)
    work, golden = place / "corpus", place / "golden"
    work.mkdir(parents=True)
    seeds(target, golden)
    found = build / "found"
    found.mkdir(exist_ok=True)
    command = [
        str(program(build, target)),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={found}/{target}-",
        f"-max_len={TARGETS[target]}",
        "-print_final_stats=1",
        "-close_fd_mask=2",
        f"-timeout={HANGS_S}",
        "-rss_limit_mb=1024",
        *([f"-dict={HERE / 'wire.dict'}"] if target in {"lines", "messages"} else []),
        *extra,
        str(work),
        str(HERE / "corpus" / target),
        str(golden),
    ]
    log = place / "log"
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(place / "profile")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stderr=output, env=environment)
        try:
            status = process.wait(seconds + 2 * HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            output.write(b"killed: it did not end by itself\n")
            status = -1
    text = log.read_text(errors="replace")
    executed, covered = STAT.search(text), COVERED.findall(text)
    edges, features, inputs = map(int, covered[-1]) if covered else (0, 0, 0)
    return Run(target, status, int(executed[1]) if executed else 0, edges, features, inputs, log)


def program(build: Path, target: str) -> Path:
    return build / "guest-agent" / "fuzz" / f"fuzz-{target}"


def keep(target: str, build: Path) -> None:
    """Merges the last run and the corpus without inputs that reach nothing new. Small ones go into the corpus."""
    place, corpus = build / "run" / target, HERE / "corpus" / target
    merged = place / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    command = [str(program(build, target)), "-merge=1", "-close_fd_mask=2", str(merged), str(corpus)]
    command += [str(place / "golden"), str(place / "corpus")]
    environment = {**os.environ, "LLVM_PROFILE_FILE": os.devnull}
    subprocess.run(command, cwd=place, check=True, stderr=subprocess.DEVNULL, env=environment)
    inputs = sorted(merged.iterdir(), key=lambda path: path.stat().st_size)
    inputs = [path for path in inputs if path.stat().st_size <= KEPT_BYTES]
    # Inputs of every size: the smallest alone reach only what is easy to reach.
    chosen = inputs[:: -(-len(inputs) // KEPT_INPUTS)] if inputs else []
    for path in corpus.glob("[0-9a-f]" * 40):
        path.unlink()
    for path in chosen:
        shutil.copy(path, corpus / path.name)
    print(f"  {target}: {len(chosen)} of {len(inputs)} inputs kept")


def tool(name: str) -> str | None:
    """The path of llvm-profdata or llvm-cov of clang's own version."""
    said = subprocess.run(["clang", "--print-prog-name", name], capture_output=True, text=True, check=False)
    path = said.stdout.strip()
    return path if said.returncode == 0 and shutil.which(path) else shutil.which(name)


def coverage(build: Path, runs: list[Run]) -> dict[str, tuple[int, int]]:
    """The number of covered lines and of all lines, by source. Empty if LLVM's tools are not installed."""
    profdata, cov = tool("llvm-profdata"), tool("llvm-cov")
    profiles = [
        str(build / "run" / run.target / "profile") for run in runs if (build / "run" / run.target / "profile").exists()
    ]
    if profdata is None or cov is None or not profiles:
        return {}
    merged = build / "run" / "merged.profdata"
    subprocess.run([profdata, "merge", "-sparse", "-o", str(merged), *profiles], check=True)
    programs = [str(program(build, run.target)) for run in runs]
    objects = [part for program in programs[1:] for part in ("-object", program)]
    export = subprocess.run(
        [cov, "export", "-summary-only", f"-instr-profile={merged}", programs[0], *objects],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = {}
    for file in json.loads(export.stdout)["data"][0]["files"]:
        path = Path(file["filename"]).resolve()
        name = str(path.relative_to(SOURCES).with_suffix("")) if path.is_relative_to(SOURCES) else ""
        if path.suffix == ".c" and name in FUZZED and file["summary"]["lines"]["count"]:
            lines[f"{name}.c"] = (file["summary"]["lines"]["covered"], file["summary"]["lines"]["count"])
    return lines


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True, help="what tests/build-c DIRECTORY clang fuzz built")
    parser.add_argument("--seconds", type=int, default=60, help="seconds for all targets together (default: 60)")
    parser.add_argument("--target", choices=list(TARGETS), help="run this target alone")
    parser.add_argument("--libfuzzer", action="append", default=[], help="an option for libFuzzer: --libfuzzer=-seed=1")
    parser.add_argument("--keep", action="store_true", help="do not fuzz: take what the last run found into the corpus")
    options = parser.parse_args()
    build = options.build.resolve()
    targets = [options.target] if options.target else list(TARGETS)
    if options.keep:
        for target in targets:
            keep(target, build)
        return 0
    workers = min(len(os.sched_getaffinity(0)), len(targets))
    each = max(1, options.seconds * workers // len(targets))
    print(f"vscaf: fuzzing {', '.join(targets)}: {each} s each, {workers} at a time ...", flush=True)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        runs = list(pool.map(lambda target: run(target, build, each, options.libfuzzer), targets))
    for one in runs:
        print(
            f"  {one.target:9}{one.executions:>10} executions{one.edges:>7} edges{one.features:>7} features"
            f"{one.inputs:>6} inputs{'' if one.status == 0 else '   FAILED'}"
        )
    lines = coverage(build, runs)
    if lines:
        print(
            "  lines covered, in %: "
            + ", ".join(f"{name} {100 * hit / all_:.0f}" for name, (hit, all_) in lines.items())
        )
        hit, all_ = (sum(pair[i] for pair in lines.values()) for i in (0, 1))
        print(f"  together {100 * hit / all_:.1f} % of {all_} lines")
    else:
        print("  no coverage: install the package llvm")
    failed = [one for one in runs if one.status != 0 or one.executions == 0]
    for one in failed:
        text = one.log.read_text(errors="replace")
        artifact = re.findall(r"Test unit written to (\S+)", text)
        print(f"vscaf: fuzz-{one.target} failed (status {one.status}); the end of {one.log}:", file=sys.stderr)
        print("\n".join(text.splitlines()[-40:]), file=sys.stderr)
        for path in artifact:
            print(
                f"vscaf: the input: {path}; again: {program(build, one.target)} {path}",
                file=sys.stderr,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
