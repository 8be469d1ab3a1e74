"""The agent on this machine, with its CPUs and its /proc, and real programs under vscaf-run, as root or other users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from rig import AGENT, BUILD, DEADLINE_S, PROGRAM, listens, wait_until

# A sanitizer's build of the shim cannot be preloaded into programs that are built without one.
PLAIN = BUILD.parent / "meson" if (BUILD.parent / "meson").is_dir() else BUILD
NPB = PLAIN / "images" / "npb"
SOMEBODY, SOMEBODY_ELSE = 54321, 54322  # users without a name

Status = dict[str, Any]


def user_of(user: int | None) -> dict[str, Any]:
    """Arguments for subprocess that run a command as that user, without other groups."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def ask(socket: Path | None, *options: str, user: int | None = None, agent: Path = AGENT, **environment: str) -> Status:
    """The output of `vscaf-agent --status --json`. `agent` is a program that `user` can execute."""
    place = [] if socket is None else ["--socket", str(socket)]
    deadline = time.monotonic() + DEADLINE_S
    while True:
        result = subprocess.run(
            [agent, "--status", "--json", *place, *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, **environment},
            **user_of(user),
        )
        # It waits 5 s for the answer, so an agent without CPU time that long is asked again.
        again = "too often" in result.stderr or "does not answer" in result.stderr
        if not again or time.monotonic() > deadline:
            break
        time.sleep(0.25)
    assert result.returncode == 0, result.stderr
    found: Status = json.loads(result.stdout)
    return found


def end(program: subprocess.Popen[str]) -> None:
    program.kill()
    program.wait()
    if program.stdout is not None:
        program.stdout.close()


class Machine:
    """A stand-alone agent in a directory of its own, and programs under it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.chmod(0o755)
        self.socket_path: Path | None = directory / "agent.sock"
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.programs: list[subprocess.Popen[str]] = []
        # Copies, because not every user can reach the build.
        self.bin = directory / "bin"
        self.bin.mkdir()
        for path in (AGENT, AGENT.parent / "vscaf-inspect", PROGRAM):  # the agent looks for it beside itself
            shutil.copy(path, self.bin)
        for path in (PLAIN / "guest-libgomp" / "vscaf-run", PLAIN / "guest-libgomp" / "libvscaf-gomp.so"):
            shutil.copy(path, self.bin)

    def start(
        self, *options: str, user: int | None = None, prefix: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        place = [] if self.socket_path is None else ["--socket", str(self.socket_path)]
        command = [*prefix, str(self.bin / "vscaf-agent"), "--standalone", *place, "--period-ms", "100", *options]
        cache = {"CACHE_DIRECTORY": str(self.directory / "cache")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stderr=log, env={**os.environ, **cache, **environment}, **user_of(user)
            )
        if self.socket_path is not None:
            path = self.socket_path
            wait_until(lambda: listens(path), "the agent's socket")
        return self.process

    def run(
        self, program: str, user: int | None = None, prefix: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """Starts a real program under vscaf-run."""
        place = {} if self.socket_path is None else {"VSCAF_SOCKET": str(self.socket_path)}
        if not (self.bin / program).exists():
            shutil.copy(NPB / program, self.bin)
        process = subprocess.Popen(
            [*prefix, self.bin / "vscaf-run", self.bin / program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **place, **environment},
            **user_of(user),
        )
        self.programs.append(process)
        return process

    def status(self, user: int | None = None, **environment: str) -> Status:
        return ask(self.socket_path, user=user, agent=self.bin / "vscaf-agent", **environment)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait(DEADLINE_S)
        self.process = None
        return status

    def close(self) -> None:
        for program in self.programs:
            end(program)
        status = self.stop() if self.process is not None else 0
        text = self.log.read_text() if self.log.exists() else ""
        assert status == 0, f"the agent ended with {status}:\n{text}"
        assert "runtime error" not in text and "Sanitizer" not in text, text
