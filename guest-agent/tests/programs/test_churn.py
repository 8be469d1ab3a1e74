"""A thousand real programs join and crash. Nothing leaks, and the agent never shares out more CPUs than there are."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from rig import PROGRAM, Message, Rig, wait_until

JOINS = 1000
AT_ONCE = 8
CPUS = 16
HANGS_S = 3600


class Observer(threading.Thread):
    """Reads every report and checks that the shares add up. (The rig checks each report against the schema.)"""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig
        self.stopping = threading.Event()
        self.reports = 0
        self.most = 0
        self.wrong: list[Message] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                self.look(json.loads(self.rig.line()))
        except BaseException as error:  # noqa: BLE001  (raised in the test)
            self.failure = error

    def look(self, report: Message) -> None:
        if report["type"] != "report":
            return
        self.reports += 1
        teams = [process["team"] for process in report["processes"] if process["running"]]
        self.most = max(self.most, len(teams))
        if sum(teams) > max(len(report["online"]), len(teams)) or any(team < 1 for team in teams):
            self.wrong.append(report)

    def finish(self) -> None:
        self.stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure


class Crowd:
    """Programs that are killed at random moments, some before they have joined."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self.rig = rig
        self.random = random.Random(seed)
        self.living: list[tuple[float, subprocess.Popen[str]]] = []
        self.started = self.joined = 0

    def start(self) -> None:
        process = subprocess.Popen([PROGRAM, self.rig.socket_path], stdin=-1, stdout=-1, text=True)
        self.started += 1
        if self.random.random() < 0.8:
            assert process.stdout is not None
            greeting = process.stdout.readline().strip()
            assert greeting == "joined", greeting
            self.joined += 1
        if self.random.random() < 0.3:
            assert process.stdin is not None
            process.stdin.write(f"garbage {self.started}\nbegin\n")
            process.stdin.flush()
        self.living.append((time.monotonic() + self.random.uniform(0.0, 0.1), process))

    def kill_due(self, all_of_them: bool = False) -> None:
        now = time.monotonic()
        for due, process in list(self.living):
            if all_of_them or due <= now:
                process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    stream.close()
                self.living.remove((due, process))


def figures(pid: int) -> dict[str, int]:
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "pages": Path(f"/proc/{pid}/maps").read_text().count("memfd:vscaf-page"),
        "anonymous_kib": int(status.split("RssAnon:")[1].split()[0]),
        "shared_kib": int(status.split("RssShmem:")[1].split()[0]),
    }


@pytest.mark.timeout(HANGS_S)
@pytest.mark.long
def test_a_thousand_joins_and_crashes() -> None:
    seed = int(os.environ.get("VSCAF_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"VSCAF_SEED={seed}")
    with tempfile.TemporaryDirectory(prefix="vscaf-") as directory:
        rig = Rig(Path(directory), CPUS, CPUS)
        crowd = Crowd(rig, seed)
        try:
            rig.start()
            assert rig.process is not None
            pid = rig.process.pid
            rig.line()  # its hello: now it has opened all that it keeps open
            # In each period it opens a file for a moment, which must not count.
            idle = min(figures(pid)["descriptors"] for _ in range(3) if rig.message("report"))

            def all_gone() -> bool:
                now = figures(pid)
                return now["pages"] == 0 and now["descriptors"] <= idle

            for _ in range(100):  # the agent makes its one-time allocations
                crowd.start()
                crowd.kill_due(all_of_them=True)
            wait_until(all_gone, "the agent to let go of the first programs")
            before = figures(pid)
            sanitized = "libasan" in Path(f"/proc/{pid}/maps").read_text()
            observer = Observer(rig)
            observer.start()
            began = time.monotonic()
            crowd.started = crowd.joined = 0
            while crowd.joined < JOINS:
                if len(crowd.living) < AT_ONCE:
                    crowd.start()
                crowd.kill_due()
            took_s = time.monotonic() - began
            crowd.kill_due(all_of_them=True)
            wait_until(all_gone, "the agent to let go of the last programs")
            observer.finish()
            after = figures(pid)
        finally:
            crowd.kill_due(all_of_them=True)
            rig.close()
    print(f"{crowd.started} started, {crowd.joined} joined, {60 * crowd.joined / took_s:.0f} a minute")
    print(f"{observer.reports} reports, up to {observer.most} ran at once; {before} -> {after}")
    assert observer.wrong == []
    assert observer.reports > 20 and observer.most > 1
    assert after["shared_kib"] == before["shared_kib"] == 0
    # A sanitizer keeps more memory. It looks for leaks itself when the agent ends.
    assert after["anonymous_kib"] < before["anonymous_kib"] + (65536 if sanitized else 2048)
