"""A systemctl with the service vscaf, which runs a real daemon: for the role host on a machine without systemd.

It does what the role relies on: the service is active when the daemon says so, and a daemon that has handed over is
followed by the next one. Of irqbalance it only says that it runs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vscaf.lab.polling import until

HANDED_OVER = 75
POLL_S = 0.1


class FakeSystemd:
    """In *directory*, with a command `systemctl` in its `bin`. The service is the ExecStart of the unit's drop-in."""

    def __init__(self, directory: Path, drop_in: Path) -> None:
        self.directory, self.drop_in = directory, drop_in

    def state(self) -> dict[str, str]:
        """What `systemctl show` prints."""
        try:
            state: dict[str, str] = json.loads((self.directory / "state").read_text(encoding="utf-8"))
        except FileNotFoundError:
            state = {"ActiveState": "inactive", "MainPID": "0"}
        return state

    @property
    def pid(self) -> int:
        return int(self.state()["MainPID"])

    def log(self) -> str:
        """What all daemons have logged."""
        return (self.directory / "log").read_text(encoding="utf-8")

    def commands(self) -> str:
        """What systemctl was called with, a line for each call."""
        return (self.directory / "commands").read_text(encoding="utf-8")

    def command(self, *arguments: str) -> int:
        """`systemctl ARGUMENT...`: its exit status."""
        with (self.directory / "commands").open("a", encoding="utf-8") as file:
            file.write(f"{' '.join(arguments)}\n")
        match [one for one in arguments if not one.startswith("-")]:
            case ["show", "vscaf"]:
                unit = self.drop_in.parent.with_suffix("")
                state = {"LoadState": "loaded" if unit.exists() else "not-found", **self.state()}
                print("\n".join(f"{name}={value}" for name, value in state.items()))
            case ["show", "irqbalance"]:
                print("LoadState=loaded\nActiveState=active\nMainPID=1")
            case ["restart", "irqbalance"]:
                pass
            case ["is-enabled", "vscaf"]:
                print("enabled")
            case ["kill", "vscaf"]:
                name = next(one for one in arguments if one.startswith("--signal=")).removeprefix("--signal=")
                os.kill(self.pid, signal.Signals[name])
            case ["start", "vscaf"]:
                with (self.directory / "log").open("a", encoding="utf-8") as log:
                    subprocess.Popen(
                        [sys.executable, __file__, str(self.directory), str(self.drop_in), "supervise"],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                until(lambda: self.state()["ActiveState"] in {"active", "failed"}, "the service has started")
                return 0 if self.state()["ActiveState"] == "active" else 1
            case ["stop", "vscaf"]:
                if self.pid:
                    os.kill(self.pid, signal.SIGTERM)
                until(lambda: self.state()["ActiveState"] not in {"active", "activating"}, "the service has ended")
            case ["daemon-reload"]:
                pass
            case _:
                print(f"this systemctl cannot do {arguments}", file=sys.stderr)
                return 1
        return 0

    def supervise(self) -> None:
        """Runs the service until a daemon ends without handing over."""
        while (status := self._run()) == HANDED_OVER:
            self._change("activating", 0)
        self._change("failed" if status else "inactive", 0)

    def _run(self) -> int:
        address = self.directory / "notify"
        address.unlink(missing_ok=True)
        command = re.findall("(?m)^ExecStart=(.+)", self.drop_in.read_text(encoding="utf-8"))[-1].split()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
            messages.bind(str(address))
            messages.settimeout(POLL_S)
            process = subprocess.Popen(command, env=os.environ | {"NOTIFY_SOCKET": str(address)})
            self._change("activating", process.pid)
            while process.poll() is None:
                try:
                    text = messages.recv(4096).decode()
                except TimeoutError:
                    continue
                if "READY=1" in text:
                    self._change("active", process.pid)
                elif "STOPPING=1" in text:
                    self._change("deactivating", process.pid)
        return process.wait()

    def _change(self, active: str, pid: int) -> None:
        new = self.directory / "state.new"
        new.write_text(json.dumps({"ActiveState": active, "MainPID": str(pid)}), encoding="utf-8")
        new.rename(self.directory / "state")


@contextmanager
def fake_systemd(directory: Path, drop_in: Path) -> Iterator[FakeSystemd]:
    """Until the end, when it stops the service."""
    binaries = directory / "bin"
    binaries.mkdir(parents=True)
    script = binaries / "systemctl"
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{directory}" "{drop_in}" "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    systemd = FakeSystemd(directory, drop_in)
    try:
        yield systemd
    finally:
        systemd.command("stop", "vscaf")


def main() -> None:
    """fake_systemd.py DIRECTORY DROP_IN ARGUMENT...: systemctl ARGUMENT..."""
    systemd = FakeSystemd(Path(sys.argv[1]), Path(sys.argv[2]))
    if sys.argv[3] == "supervise":
        systemd.supervise()
    else:
        sys.exit(systemd.command(*sys.argv[3:]))


if __name__ == "__main__":
    main()
