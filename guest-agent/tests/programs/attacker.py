"""What an unprivileged user may try against the agent and against other users' programs.

It needs only Python's standard library. The tests run its text as that user (`python3 -c TEXT NAME ARGUMENTS`). Each
attack prints one line of JSON. An attack that holds something then waits until its standard input ends.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MAGIC, VERSION, PAGE_BYTES = 0x46435356, 3, 36864
PTRACE_ATTACH, PIDFD_GETFD, MADV_REMOVE = 16, 438, 9
HANGS_S = 300
libc = ctypes.CDLL(None, use_errno=True)


def packet(name: bytes = b"attacker") -> bytes:
    return struct.pack("<II32s", MAGIC, VERSION, name)


def connect(path: str) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(HANGS_S)
    end.connect(path)
    return end


def join(path: str, name: bytes = b"attacker") -> tuple[socket.socket, int]:
    """Joins. Returns the connection and the page's file, or -1 instead of the file.
    The agent drops a connection that says nothing for 5 s, as a process without CPU time does. Then it tries again."""
    deadline = time.monotonic() + HANGS_S
    while True:
        end = connect(path)
        with suppress(ConnectionError):
            end.send(packet(name))
            answer, rights, _, _ = socket.recv_fds(end, 16, 1)
            if answer:
                return end, rights[0] if rights else -1
        end.close()
        if time.monotonic() > deadline:
            raise TimeoutError("every connection was closed without an answer")


def outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def call(name: str, *arguments: object) -> None:
    if getattr(libc, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def say(result: object) -> None:
    print(json.dumps(result), flush=True)


def wait() -> None:
    sys.stdin.read()


def look_at(pid: int) -> dict[str, str]:
    """Tries every way to open a process's descriptors and memory, and to end it."""

    def open_all(what: str) -> None:
        for path in Path(f"/proc/{pid}/{what}").iterdir():
            os.open(path, os.O_RDWR)

    results = {
        "fd": outcome(lambda: open_all("fd")),
        "map_files": outcome(lambda: open_all("map_files")),
        "mem": outcome(lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR)),
        "ptrace": outcome(lambda: call("ptrace", PTRACE_ATTACH, pid, None, None)),
    }
    pidfd = os.pidfd_open(pid)
    for number in range(3, 24):
        results[f"fd {number}"] = outcome(lambda n=number: os.open(f"/proc/{pid}/fd/{n}", os.O_RDWR))  # type: ignore[misc]
        results[f"pidfd_getfd {number}"] = outcome(lambda n=number: call("syscall", PIDFD_GETFD, pidfd, n, 0))  # type: ignore[misc]
    vector = (ctypes.c_size_t * 2)(4096, 8)
    results["process_vm_readv"] = outcome(lambda: call("process_vm_readv", pid, vector, 1, vector, 1, 0))
    for signal_number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGKILL):
        results[signal_number.name] = outcome(lambda n=signal_number: os.kill(pid, n))  # type: ignore[misc]
    return results


def look(*pids: str) -> None:
    say({f"{pid} {what}": result for pid in pids for what, result in look_at(int(pid)).items()})


def own_page(path: str) -> None:
    """Tries everything that the file of one's own page allows."""
    end, page = join(path)
    results = {
        "shrink": outcome(lambda: os.ftruncate(page, 0)),
        "grow": outcome(lambda: os.ftruncate(page, 1 << 30)),
        "seal": outcome(lambda: fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)),
        "file of its own": outcome(lambda: end.sendmsg([b"x"], [rights(os.open("/dev/zero", os.O_RDWR))])),
    }
    end.close()
    end, page = join(path)
    memory = mmap.mmap(page, PAGE_BYTES)
    say(results)
    for turn in range(300):
        memory[128:] = random.Random(turn).randbytes(PAGE_BYTES - 128)
        memory.madvise(MADV_REMOVE)  # a hole in the file
        if turn % 20 == 0:
            time.sleep(0.01)
    wait()


def rights(*files: int) -> tuple[int, int, bytes]:
    return (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files).tobytes())


def pin_pages(path: str, count: str) -> None:
    """Joins and leaves, and keeps the pages. Does the agent still pay for their memory?"""
    pages = []
    for _ in range(int(count)):
        end, page = join(path)
        if page >= 0:
            pages.append((page, mmap.mmap(page, PAGE_BYTES)))
        end.close()
    deadline = time.monotonic() + HANGS_S
    while any(os.fstat(page).st_blocks for page, _ in pages) and time.monotonic() < deadline:
        time.sleep(0.01)
    say({"pages": len(pages), "blocks": sum(os.fstat(page).st_blocks for page, _ in pages)})


def hold_silent(path: str, count: str) -> None:
    """Holds as many silent connections as it can, and replaces closed ones all the time."""
    held: list[socket.socket] = []
    say("ready")
    while not select.select([0], [], [], 0)[0]:
        while len(held) < int(count):
            try:
                end = connect(path)
            except OSError:
                break
            end.setblocking(False)
            held.append(end)
        kept = []
        for end in held:
            try:
                end.recv(100)
                end.close()
            except BlockingIOError:
                kept.append(end)
            except OSError:
                end.close()
        held = kept
        time.sleep(0.01)


def join_often(path: str, count: str) -> None:
    """One process joins many times and keeps all connections."""
    held = [join(path) for _ in range(int(count))]
    say({"pid": os.getpid(), "joined": sum(page >= 0 for _, page in held)})
    wait()


def join_for_the_dead(path: str, waits: str = "") -> None:
    """A child connects and exits, then its parent joins on that connection. Exits with 3 if it cannot join."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        end.connect(path)
        os._exit(0)
    os.waitpid(child, 0)
    if waits:
        say({"pid": child})
        sys.stdin.readline()
    end.settimeout(HANGS_S)
    answer = b""
    with suppress(ConnectionError):  # the agent may close before it answers
        end.send(packet())
        answer = end.recv(100)
    if waits:
        sys.exit(0 if answer else 3)
    say({"pid": child, "status": struct.unpack("<4I", answer)[2] if answer else -1, "closed": end.recv(100) == b""})


def die_after_join(path: str) -> None:
    """A child joins and is then killed. Its parent holds the connection."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        end.connect(path)
        end.send(packet())
        say({"joined": os.getpid() if len(end.recv(16)) == 16 else 0})
        signal.pause()
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    say({"gone": child})
    wait()


def flood_until_barred(path: str, times: str = "100000") -> None:
    """Joins and leaves until it can no longer connect, at most so many times."""
    for _ in range(int(times)):
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            end.connect(path)
            end.send(packet(b"flood"))
        except PermissionError:
            return say({"barred": True})
        except OSError:
            pass
        end.close()
    # The agent can tell whose a connection is only while its process lives. It accepts this one after all others.
    end = connect(path)
    with suppress(ConnectionError):
        end.send(packet(b"flood"))
        end.recv(16)
    return say({"barred": False})


def flood_of_the_dead(path: str, times: str) -> None:
    """The agent is held up. Children connect and end before it can look at them."""
    for _ in range(int(times)):
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child == 0:
            end.connect(path)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        end.close()
    say({"times": int(times)})


def flood(path: str, seconds: str, joins: str) -> None:
    """Connects, or joins and leaves, as fast as it can: for some seconds, and joins at least until it is refused."""
    results: dict[str, int] = {}
    end_time, refused = time.monotonic() + float(seconds), {"status 2", "EACCES", "EPIPE"}
    while time.monotonic() < end_time or (joins == "yes" and refused.isdisjoint(results)):
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.settimeout(HANGS_S)
        try:
            end.connect(path)
            if joins == "yes":
                end.send(packet(b"flood"))
                answer = end.recv(16)
                what = f"status {struct.unpack('<4I', answer)[2]}" if len(answer) == 16 else "closed"
            else:
                what = "connected"
        except OSError as error:
            what = errno.errorcode.get(error.errno or 0, "timeout")
        end.close()
        results[what] = results.get(what, 0) + 1
    say(results)


def garbage(path: str, seed: str, count: str) -> None:
    """Packets of every size, packets after the join, half-closed connections, answers that are not read."""
    source = random.Random(int(seed))
    sizes = [0, 1, 7, 8, 9, 39, 40, 41, 64, 4096, 65536, 150_000]
    sent = 0
    for _ in range(int(count)):
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end.settimeout(0.2)
        with suppress(OSError):
            end.connect(path)
            if source.random() < 0.3:
                end.send(packet(source.randbytes(32)))
            if source.random() < 0.2:
                end.shutdown(source.choice([socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR]))
            for _ in range(source.randrange(4)):
                data = bytearray(source.randbytes(source.choice([*sizes, source.randrange(200)])))
                if source.random() < 0.7:
                    data[:8] = packet()[:8][: len(data)]
                end.send(bytes(data), socket.MSG_DONTWAIT)
                sent += 1
            if source.random() < 0.3:
                end.recv(source.choice([1, 16, 100]))
        end.close()
    say({"sent": sent})


def attach(path: str, count: str) -> None:
    """Sends many descriptors with the join and after it. One of them is a TCP socket whose last close takes hours.
    A child sends it and exits, which does not linger. So the last reference is the agent's, if the agent takes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    results: dict[str, int] = {}
    held: list[object] = []
    for turn in range(int(count)):
        end = connect(path)
        if turn % 2:
            end.send(packet())
        for data in (packet(), b"", b"x"):
            child = os.fork()
            if child == 0:
                files = [os.dup(1) for _ in range(100)]
                lingering = socket.socket()
                lingering.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                lingering.connect(listener.getsockname())
                lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
                lingering.setblocking(False)
                with suppress(BlockingIOError):
                    while True:
                        lingering.send(b"x" * 65536)
                try:
                    end.sendmsg([data], [rights(*files, lingering.fileno())])
                except OSError as error:
                    os._exit(error.errno or 255)
                os._exit(0)
            held.append(listener.accept())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            what = errno.errorcode.get(status, "done")
            results[what] = results.get(what, 0) + 1
        held.append(end)
        if turn % 3:
            end.close()
    say(results)
    wait()


def replace(path: str) -> None:
    """Tries to put something else in place of the agent's socket."""
    there = Path(path)
    run = there.parent

    def bind() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own:
            own.bind(path)

    say(
        {
            "unlink": outcome(there.unlink),
            "rename": outcome(lambda: there.rename(run / "old")),
            "bind": outcome(bind),
            "make": outcome((run / "new").touch),
            "link": outcome(lambda: (run / "link").symlink_to("/")),
            "rename directory": outcome(lambda: run.rename(run.with_name("old"))),
            "chmod": outcome(lambda: there.chmod(0o777)),
            "list": outcome(lambda: os.removexattr(path, "system.posix_acl_access")),
        }
    )


def named(path: str, name: str) -> None:
    """Joins under the given name, which is in hexadecimal."""
    held = join(path, bytes.fromhex(name))
    say({"joined": held[1] >= 0})
    wait()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
