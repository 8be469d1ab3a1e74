"""The acceptance: its judgements with made-up values, order and time of its parts, and the file to send back."""

import io
import json
import os
import re
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from vscaf.bench.accept import acceptance, counters, papi, siblings, splits, unplug
from vscaf.bench.accept.archive import host_names, scrubbed, scrubbed_values, write_archive
from vscaf.bench.accept.context import Context, Part, end_guests
from vscaf.bench.accept.counters import Learned, Program, Reports
from vscaf.bench.accept.host import Host, read_host
from vscaf.bench.accept.papi import found_papi
from vscaf.bench.accept.part import Deadline, Outcome, Result, Verdict, end_of_first
from vscaf.bench.accept.siblings import Pins
from vscaf.bench.accept.unplug import AGAIN, PLUGGED, UNPLUGGED, Look, Phase
from vscaf.bench.c_programs import workload_directory
from vscaf.bench.samples import ALONE, Execution, ProgramSample, RunKey, Sample
from vscaf.errors import UsageError

SMT = Host(True, tuple((cpu, cpu + 8) for cpu in range(8)))
PLAIN = Host(True, tuple((cpu,) for cpu in range(8)))
TWO = Host(False, ((0,), (1,)))


# The host


def test_a_host_is_read_in_whole_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 4, 5})
    for cpu, together in {0: "0,4", 1: "1,5", 2: "2,6", 4: "0,4", 5: "1,5"}.items():
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(together + "\n")
    assert read_host(True, tmp_path).cores == ((0, 4), (1, 5)), "CPU 6 may not be used, so its core is left out"


def test_pools_have_equal_cores():
    hybrid = Host(True, ((0, 1), (2, 3), (4,), (5,)))
    assert hybrid.threads == 2
    assert hybrid.pool(4) == [0, 1, 2, 3]
    assert SMT.pool(2) == [0, 8, 1, 9]


@pytest.mark.parametrize(
    ("part", "host", "why"),
    [
        (unplug, TWO, None),
        (unplug, Host(True, ((0, 1),)), "two guests need 2 cores"),
        (counters, TWO, None),
        (counters, Host(True, ((0,),)), "two CPUs"),
        (siblings, SMT, None),
        (siblings, PLAIN, "no SMT"),
        (siblings, Host(True, ((0, 1),)), "two cores"),
        (splits, PLAIN, None),
        (splits, SMT, None),
        (splits, Host(False, PLAIN.cores[:4]), None),
        (splits, TWO, "may use 2 CPUs of 2 cores"),
        (splits, Host(True, SMT.cores[:2]), "may use 4 CPUs of 2 cores"),
        (splits, Host(True, PLAIN.cores[:3]), "may use 3 CPUs of 3 cores"),
    ],
)
def test_what_a_host_cannot_show(part, host, why):
    obstacle = part.obstacle(host)
    assert obstacle is None if why is None else obstacle is not None and why in obstacle


# Unplug


def phases(*looks):
    names = (PLUGGED, UNPLUGGED, AGAIN)
    return [Phase(name, wanted, Look(*look), 3.0) for name, wanted, look in zip(names, (4, 2, 4), looks, strict=False)]


ALL, HALF = (4, "0-3", "0-3"), (2, "0-1", "0-1")


def test_unplug_passes_if_all_three_changes_came_about():
    verdict = unplug.judge(phases(ALL, HALF, ALL), accelerated=True)
    assert verdict.outcome is Outcome.PASSED and "4 to 2 to 4" in verdict.reason
    assert [phase["took_s"] for phase in verdict.figures["phases"]] == [3.0] * 3


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        (((1, "0", "0"),), "plugged"),
        (((4, "0-3", "0-1"),), "0-1 online"),
        ((ALL, (4, "0-3", "0-1")), "libvirt counted 4"),
        ((ALL, (2, "0-3", "0-1")), "CPUs 0-3 were present"),
        ((ALL, HALF, HALF), "plugged again"),
        ((ALL, HALF), "not tried: plugged again"),
    ],
)
def test_unplug_fails_at_the_first_change_that_did_not_come_about(looks, why):
    verdict = unplug.judge(phases(*looks), accelerated=True)
    assert verdict.outcome is Outcome.FAILED and why in verdict.reason


def test_unplug_says_what_the_daemon_showed_when_it_gave_up():
    program = {"name": "cg.W", "running": True, "team": 1, "malleable": "full"}
    domain = {"state": "cooperating", "agent": "connected", "demand": 1, "allocation": 1, "processes": [program]}
    given_up = Phase(PLUGGED, 4, Look(1, "0", "0"), 3.0, unplug.describe(domain))
    reason = unplug.judge([given_up], accelerated=True).reason
    assert reason.endswith(
        "; the daemon showed state cooperating, agent connected, demand 1, allocation 1, "
        "programs: cg.W (running, team 1, full)"
    )
    assert "programs: none" in unplug.describe({**domain, "processes": []})


def test_unplug_is_not_possible_without_kvm_but_a_plug_is_judged():
    verdict = unplug.judge(phases(ALL), accelerated=False)
    assert verdict.outcome is Outcome.NOT_POSSIBLE and "without KVM" in verdict.reason
    assert unplug.judge(phases((1, "0", "0")), accelerated=False).outcome is Outcome.FAILED


# Counters


def process(name="ep.W", metric="ipc", counters=True, points=((4, 3.6, 0.1),)):
    return {
        "name": name,
        "learning": {"metric": metric, "counters": counters},
        "points": [{"p": p, "speedup": speedup, "standard_error": error} for p, speedup, error in points],
    }


def test_only_points_of_the_program_its_team_and_its_metric_count():
    reports = Reports("ep.W", 4, "ipc")
    reports.take([{"name": "ep.W", "learning": None, "points": []}])
    assert not reports.metrics
    reports.take([process(metric="rate"), process(name="cg.W"), process(points=((2, 1.9, 0.1),))])
    assert reports.learned is None and reports.metrics == {"ipc", "rate"}
    reports.take([process(points=((2, 1.9, 0.1), (4, 3.5, 0.2)))])
    assert reports.learned == Learned(3.5, 0.2) and not reports.precise()
    reports.take([process(points=((4, 3.6, 0.05),))])
    assert reports.learned == Learned(3.6, 0.05) and reports.precise()
    reports.take([process(metric="rate", counters=False)])
    assert reports.no_counters


@pytest.mark.parametrize(
    ("ipc", "outcome"),
    [
        (Learned(3.1, 0.05), Outcome.PASSED),
        (Learned(2.5, 0.05), Outcome.FAILED),
        (Learned(3.9, 0.05), Outcome.FAILED),
        (Learned(2.0, 0.6), Outcome.PASSED),
        (None, Outcome.FAILED),
    ],
)
def test_the_learned_speedup_must_be_the_measured_one(ipc, outcome):
    right = Program("ep.W", 4, Learned(3.9, 0.1), None, 3.9)
    verdict = counters.judge([right, Program("is.A", 4, ipc, Learned(2.9, 0.1), 3.0)])
    assert verdict.outcome is outcome
    assert "is.A" in verdict.reason and "rate 2.90 +- 0.10" in verdict.reason and "measured 3.00" in verdict.reason
    assert verdict.figures["programs"][0]["ipc"]["speedup"] == 3.9


@pytest.mark.parametrize(
    ("papi", "sources", "why"),
    [
        ([], ["software"], r"no PMU and this host has no PAPI"),
        (["libpapi.so.7.0"], ["software"], r"no PMU$"),
        ([], ["cpu", "software"], r": this host has no PAPI"),
        (["libpapi.so.7.0"], ["cpu"], r"PAPI counts nothing"),
    ],
)
def test_why_there_are_no_counters(papi, sources, why):
    verdict = counters.without_counters(papi, sources, ["rate"])
    assert verdict.outcome is Outcome.NOT_POSSIBLE
    assert verdict.reason.startswith('the shim reported "counters": false and metric rate')
    assert re.search(why, verdict.reason)


def test_papi_is_found_in_the_list_of_libraries():
    cached = (
        "641 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibpapi.so.7.0 (libc6,x86-64) => /lib/x86_64-linux-gnu/libpapi.so.7.0\n"
        "\tlibpapi.so.7.0 (libc6,x32) => /libx32/i386-linux-gnu/libpapi.so.7.0\n"
        "\tlibpaper.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libpaper.so.1\n"
    )
    assert found_papi(cached) == {"libpapi.so.7.0": Path("/lib/x86_64-linux-gnu/libpapi.so.7.0")}


def test_what_papi_needs_comes_along_without_the_c_library(monkeypatch):
    monkeypatch.setattr(papi, "found_papi", lambda _cached: {"libpapi.so.7.0": workload_directory() / "cg.S"})
    found = papi.papi_libraries()
    assert found.keys() >= {"libpapi.so.7.0", "libgomp.so.1"} and found["libgomp.so.1"].is_file()
    assert not any(name.startswith(("libc.", "libm.", "ld-linux")) for name in found)


# Siblings

CORES = ((0, 8), (1, 9), (2, 10), (3, 11))


def pinned(*cpus, online=None):
    pins = {vcpu: cpu if isinstance(cpu, tuple) else (cpu,) for vcpu, cpu in enumerate(cpus)}
    return Pins(2, tuple(range(len(cpus))) if online is None else online, pins)


def test_siblings_pass_if_every_guest_core_is_on_a_core_of_its_own():
    reading = {"first": pinned(0, 8, 9, 1), "second": pinned(2, 10, (2, 3, 10, 11), (2,), online=(0, 1))}
    verdict = siblings.judge([reading] * 3, CORES)
    assert verdict.outcome is Outcome.PASSED and "3 readings" in verdict.reason


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (pinned(2, 3), "second: the siblings of guest core 0 are on CPUs 2-3"),
        (pinned(2, 2), "second: the siblings of guest core 0 are on CPUs 2"),
        (pinned((2, 10), (2, 10)), "second: vCPU 0 may run on CPUs 2,10 instead of one"),
        (pinned(1, 9), "first and second share the core of CPUs 1,9"),
        (pinned(2, tuple(range(12))), "second: vCPU 1 may run on CPUs 0-11 instead of one"),
        (pinned(12, 13), "second: vCPU 0 may run on CPUs 12, outside the pool"),
        (pinned(2, 10, online=(0,)), "second had no two siblings online"),
    ],
)
def test_siblings_fail_if_one_reading_is_wrong(second, why):
    first = pinned(0, 8, 1, 9)
    right = {"first": first, "second": pinned(2, 10)}
    verdict = siblings.judge([right, {"first": first, "second": second}], CORES)
    assert verdict.outcome is Outcome.FAILED and verdict.reason.startswith(why)


def test_a_guest_has_the_hosts_threads():
    element = siblings.cpu_element(SMT, 8)
    assert "cores='4' threads='2'" in element and "topoext" not in element
    amd = siblings.cpu_element(Host(True, SMT.cores, frozenset({"topoext"})), 8)
    assert "<feature policy='require' name='topoext'/>" in amd


# Splits

ROUNDS = range(1, 4)


def rounds(*values):
    return dict(zip(ROUNDS, values, strict=False))


BY_SPLIT = {(1, 3): rounds(4.0, 4.0, 4.0), (2, 2): rounds(3.0, 3.1, 4.5), (3, 1): rounds(2.0, 2.0, 2.0)}


def test_splits_compare_with_the_best_split_of_all_rounds():
    verdict = splits.judge(rounds(3.9, 3.8, 4.1), BY_SPLIT, (1, 3))
    assert verdict.outcome is Outcome.PASSED
    assert "1+3, which is unequal" in verdict.reason and "the policy held 1+3 longest" in verdict.reason
    assert verdict.figures["policy_to_best"] == [0.975, 0.95, 1.025]
    assert verdict.figures["best_is"] == "unequal"
    equal = splits.judge(rounds(3.9, 3.8, 4.1), {**BY_SPLIT, (2, 2): rounds(4.1, 4.1, 4.1)}, None)
    assert equal.figures["best_is"] == "equal" and "which is equal" in equal.reason


@pytest.mark.parametrize(
    ("policy", "wrong", "why"),
    [
        (rounds(3.5, 3.5, 3.5), (), "the sum of speedups was 0.88"),
        (rounds(3.5, 3.8, 3.9), (), "not decided: "),
        (rounds(3.9, 3.9), (), "not decided in fewer than 3 rounds"),
        ({}, (), "the time was over before one undisturbed round"),
        (rounds(3.9, 3.9, 3.9), ("cg.A",), "the verification of cg.A failed"),
    ],
)
def test_splits_fail_unless_it_is_shown_that_the_policy_is_near_the_best(policy, wrong, why):
    verdict = splits.judge(policy, BY_SPLIT, None, wrong)
    assert verdict.outcome is Outcome.FAILED and verdict.reason.startswith(why)


def test_a_round_without_all_splits_does_not_count():
    cut = {**BY_SPLIT, (3, 1): rounds(2.0, 2.0)}
    assert splits.judge(rounds(3.9, 3.9, 3.9), cut, None).reason.startswith("not decided in fewer")


def test_the_best_split_is_not_known_while_one_has_no_undisturbed_run():
    found = {("static", split): BY_SPLIT[split] for split in ((1, 3), (2, 2))}
    verdict = splits.judge(rounds(3.9, 3.9, 3.9), splits.of_splits(found, list(BY_SPLIT)), None, disturbed=3)
    assert verdict.outcome is Outcome.FAILED and "disturbed 3 runs" in verdict.reason
    assert splits.of_splits({("static", split): one for split, one in BY_SPLIT.items()}, list(BY_SPLIT)) == BY_SPLIT


def test_splits_are_in_whole_cores():
    assert splits.core_splits(4, 2) == [(2, 6), (4, 4), (6, 2)]


def sample(number, workloads, arrangement, runs, *, threads=0, allocations=(), verified=True, disturbed=False):
    """Each program is run so often in 10 s."""
    programs = tuple(
        ProgramSample(
            name,
            name,
            tuple(Execution(i * 10 / many, (i + 1) * 10 / many, verified) for i in range(many)),
            10.0,
        )
        for name, many in zip(workloads, runs, strict=True)
    )
    key = RunKey(number, workloads, arrangement, threads, allocations)
    return Sample(key, 1, "", (0.0, 10.0), programs, disturbed=disturbed)


def test_sums_of_speedups_by_arrangement_and_round():
    pair = ("cg", "ep")
    samples = [
        sample(1, ("cg",), ALONE, (2,), threads=1),
        sample(1, ("ep",), ALONE, (5,), threads=1),
        sample(1, ("ep",), ALONE, (20,)),
        sample(1, pair, "static", (3, 15), allocations=(1, 3)),
        sample(2, pair, "static", (3, 10), allocations=(1, 3), verified=False),
        sample(1, pair, splits.POLICY, (4, 10)),
    ]
    found = splits.sums(samples, pair)
    assert found[("static", (1, 3))] == pytest.approx({1: 4.5, 2: 0.0})
    assert found[(splits.POLICY, ())] == pytest.approx({1: 4.0})
    assert splits.unverified(samples) == ["cg", "ep"] and splits.unverified(samples[:4]) == []


def test_runs_that_stay_disturbed_do_not_count():
    pair = ("cg", "ep")
    alone = [sample(1, (one,), ALONE, (5,), threads=1) for one in pair]
    together = [sample(number, pair, splits.POLICY, (5, 5), disturbed=number == 2) for number in ROUNDS]
    assert splits.sums([*alone, *together], pair) == {(splits.POLICY, ()): pytest.approx({1: 2.0, 3: 2.0})}
    assert splits.sums([alone[0], sample(1, ("ep",), ALONE, (5,), threads=1, disturbed=True), *together], pair) == {}
    verdict = splits.judge(rounds(3.9, 3.8), BY_SPLIT, None, disturbed=1)
    assert verdict.outcome is Outcome.FAILED and "other processes disturbed 1 runs" in verdict.reason
    assert "disturbed 1 runs" in splits.judge({}, {}, None, disturbed=1).reason


def test_the_split_that_was_held_longest():
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def event(after_s, domain, to, kind="allocation"):
        return {"time": (start + timedelta(seconds=after_s)).isoformat(), "kind": kind, "domain": domain, "to": to}

    def held(*events):
        return splits.held_longest(events, ("a", "b"), start + timedelta(seconds=20))

    together = [event(0, "a", "0-3"), event(8, "a", "0-1"), event(8, "b", "2-3")]
    assert held() is None
    assert held(event(0, "a", "0-3")) is None, "b had nothing"
    assert held(*together) == (2, 2)
    changed = [*together, event(11, "a", "0"), event(11, "b", "1-3"), event(12, None, None, "policy")]
    assert held(*changed) == (1, 3), "until the end"
    assert held(*changed, event(12, "a", "rest"), event(12, "b", "0-3")) == (2, 2)


# The parts together


def part(name, budget_s, *, possible=True, work=lambda _context: Verdict(Outcome.PASSED, "done")):
    return Part(name, f"shows {name}", budget_s, lambda _host: None if possible else "no", work)


def test_a_part_may_use_what_earlier_parts_left():
    assert end_of_first([10.0, 20.0, 30.0], 100.0) == 50.0
    now = 0.0

    def once(one, deadline):
        nonlocal now
        seen[one.name] = deadline.left_s()
        now += 5.0
        return Result(one.name, Outcome.PASSED, "", 5.0, {}, [], [])

    seen = {}
    parts = [part("a", 10.0), part("b", 20.0, possible=False), part("c", 30.0)]
    results = acceptance.run_parts(parts, TWO, 100.0, lambda one, end: once(one, Deadline(end._end_s, lambda: now)))
    assert seen == {"a": 70.0, "c": 95.0}, "b cannot run, so its time is free"
    assert [(one.part, one.outcome, one.reason) for one in results][1] == ("b", Outcome.NOT_POSSIBLE, "no")


def test_a_step_ends_within_the_parts_time():
    now = 0.0
    deadline = Deadline(10.0, lambda: now)
    assert deadline.within(3.0).left_s() == 3.0 and deadline.within(30.0).left_s() == 10.0
    now = 11.0
    assert deadline.left_s() == 0.0


def context(tmp_path, left_s=60.0):
    return Context(TWO, tmp_path, tmp_path / "logs", tmp_path, Deadline(left_s, lambda: 0.0), lambda _text: None)


def test_an_error_is_the_result_of_its_part(tmp_path):
    def broken(one):
        one.commands.append("a command")
        raise OSError("no such\nthing")

    result = acceptance.run_part(part("a", 1.0, work=broken), context(tmp_path))
    assert (result.outcome, result.reason) == (Outcome.FAILED, "OSError: no such thing")
    assert result.commands == ["a command"]
    assert "broken" in (tmp_path / "logs" / "error.txt").read_text()
    late = acceptance.run_part(part("a", 1.0, work=broken), context(tmp_path, 0.0))
    assert late.reason == "its time was over: OSError: no such thing"


def test_a_reason_is_shown_as_it_is():
    reason = "no [/usr/lib/x] and no [red]"
    console = Console(file=io.StringIO(), width=200)
    console.print(acceptance.table([part("a", 1.0)], [Result("a", Outcome.FAILED, reason, 1.0, {}, [], [])]))
    assert reason in console.file.getvalue()


def test_at_the_end_of_its_time_the_guests_of_a_lab_are_ended_and_libvirtd_is_not(tmp_path):
    run = tmp_path / "run" / "qemu"
    run.mkdir(parents=True)
    guest, libvirtd = (subprocess.Popen(["sleep", "1000"]) for _ in range(2))
    try:
        (run / "first.pid").write_text(f"{guest.pid}\n")
        (run / "driver.pid").write_text(f"{libvirtd.pid}\n")
        end_guests(tmp_path)
        assert guest.wait(600) < 0 and libvirtd.poll() is None
    finally:
        for child in (guest, libvirtd):
            child.kill()
            child.wait()


def test_all_budgets_fit_into_15_minutes():
    assert sum(one.budget_s for one in acceptance.PARTS) <= acceptance.TOTAL_S < 15 * 60


def test_parts_by_name():
    assert [one.name for one in acceptance.chosen(())] == ["unplug", "counters", "siblings", "splits"]
    assert [one.name for one in acceptance.chosen(("splits", "unplug"))] == ["unplug", "splits"]
    with pytest.raises(UsageError, match="there is no part pmu: the parts are unplug, counters"):
        acceptance.chosen(("pmu",))


# The file


def test_the_hosts_name_is_replaced_where_it_is_a_word():
    text = "hostname: node7, NODE7.example.org; node72 and my-node7"
    assert scrubbed(text, ["node7", "node7.example.org"]) == "hostname: HOST, HOST; node72 and my-HOST"
    assert scrubbed_values({"node7": ["node7", 7, None]}, ["node7"]) == {"node7": ["HOST", 7, None]}


def test_the_archive_is_complete_and_without_the_hosts_name(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    monkeypatch.setattr("socket.getfqdn", lambda: "node7.example.org")
    canonical = [(0, 0, 0, "node7.cluster", ("10.0.0.7", 0)), (0, 0, 0, "", ("10.0.0.7", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_arguments, **_options: canonical)
    names = host_names()
    assert names == ["node7", "node7.cluster", "node7.example.org"]
    logs = acceptance.empty_logs(tmp_path)
    (logs / "unplug" / "qemu").mkdir(parents=True)
    (logs / "unplug" / "libvirtd.log").write_bytes(b"hostname: node7.example.org \xff\n")
    (logs / "unplug" / "qemu" / "node7.log").write_text("started\n")
    report = tmp_path / "accept.json"
    report.write_text(json.dumps({"results": []}))
    files = write_archive(tmp_path / "a.tar.gz", report, logs, names)
    assert files == ["accept.json", "logs/unplug/libvirtd.log", "logs/unplug/qemu/HOST.log"]
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        contents = {name: tar.extractfile(name).read() for name in files}
        assert {(member.uname, member.gname) for member in tar.getmembers()} == {("", "")}
    assert contents["logs/unplug/libvirtd.log"] == b"hostname: HOST \xff\n"
    assert msgspec.json.decode(contents["accept.json"]) == {"results": []}


def test_only_logs_of_an_acceptance_are_removed(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mine").touch()
    (acceptance.empty_logs(tmp_path) / "earlier").touch()
    assert list(acceptance.empty_logs(tmp_path).iterdir()) == [] and (tmp_path / "logs" / "mine").exists()
