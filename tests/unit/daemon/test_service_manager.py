"""The daemon's messages to systemd, over a real datagram socket."""

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from vscaf.daemon.service_manager import STOPPING, feed_watchdog, notify, ready, reloading


@contextmanager
def a_manager(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        yield manager


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_each_message_arrives_whole(tmp_path: Path, abstract: bool) -> None:
    name = f"{tmp_path}/notify"
    environment = {"NOTIFY_SOCKET": f"@{name}" if abstract else name}
    with a_manager(f"\0{name}" if abstract else name) as manager:
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        notify(*ready("pool 2-7"), environment=environment)
        notify(*reloading(), environment=environment)
        notify(STOPPING, environment=environment)
        assert manager.recv(256) == b"READY=1\nSTATUS=pool 2-7"
        reload, monotonic = manager.recv(256).decode().splitlines()
        assert manager.recv(256) == b"STOPPING=1"
    assert reload == "RELOADING=1" and int(monotonic.removeprefix("MONOTONIC_USEC=")) >= before_us


def test_nobody_to_tell_is_no_error(tmp_path: Path) -> None:
    notify(STOPPING, environment={})
    notify(STOPPING, environment={"NOTIFY_SOCKET": f"{tmp_path}/absent"})


def test_a_manager_that_does_not_read_delays_nothing(tmp_path: Path) -> None:
    with a_manager(f"{tmp_path}/notify"):
        for _ in range(2000):  # many more than a socket keeps
            notify(STOPPING, environment={"NOTIFY_SOCKET": f"{tmp_path}/notify"})


def test_no_descriptor_is_left_for_the_message(tmp_path: Path) -> None:
    with a_manager(f"{tmp_path}/notify") as manager:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            notify(STOPPING, environment={"NOTIFY_SOCKET": f"{tmp_path}/notify"})
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            manager.recv(64)


def test_the_watchdog_hears_of_a_loop_that_turns(tmp_path: Path) -> None:
    with a_manager(f"{tmp_path}/notify") as manager:

        async def work() -> list[bytes]:
            environment = {"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "20000"}
            feeding = asyncio.create_task(feed_watchdog(environment))
            heard = [await asyncio.to_thread(manager.recv, 64) for _ in range(3)]
            feeding.cancel()
            return heard

        assert asyncio.run(work()) == [b"WATCHDOG=1"] * 3
    asyncio.run(feed_watchdog({}))  # without a watchdog it ends at once


def test_the_watchdog_does_not_hear_of_a_loop_that_hangs(tmp_path: Path) -> None:
    with a_manager(f"{tmp_path}/notify") as manager:
        manager.setblocking(False)

        async def work() -> int:
            feeding = asyncio.create_task(feed_watchdog({"NOTIFY_SOCKET": f"{tmp_path}/notify", "WATCHDOG_USEC": "2"}))
            await asyncio.sleep(0)
            messages = 0
            with pytest.raises(BlockingIOError):
                while True:
                    manager.recv(64)
                    messages += 1
            time.sleep(0.01)  # noqa: ASYNC251  (the loop hangs, for 5,000 times as long as the watchdog allows)
            with pytest.raises(BlockingIOError):
                manager.recv(64)
            feeding.cancel()
            return messages

        assert asyncio.run(work()) == 1
