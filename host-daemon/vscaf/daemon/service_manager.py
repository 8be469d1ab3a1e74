"""What the daemon tells systemd about itself, by the protocol of sd_notify(3). Without systemd it tells nobody."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Mapping

STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


def notify(*assignments: str, environment: Mapping[str, str] = os.environ) -> None:
    """Sends *assignments*, such as "READY=1", as one message to the socket that NOTIFY_SOCKET names, if there is one.

    It never waits and never fails: a service manager that does not read must not stop the daemon.
    """
    address = environment.get("NOTIFY_SOCKET")
    if not address:
        return
    with (
        contextlib.suppress(OSError),  # systemd may not read now, or this process has no descriptor left
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager,
    ):
        # "@" stands for the zero byte of an abstract name.
        manager.sendto("\n".join(assignments).encode(), "\0" + address[1:] if address.startswith("@") else address)


def ready(status: str) -> tuple[str, ...]:
    """The daemon works. *status* is for people: `systemctl status` shows it."""
    return "READY=1", f"STATUS={status}"


def reloading() -> tuple[str, ...]:
    """The daemon reads its configuration again. `ready` must follow, however that ends."""
    return "RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


async def feed_watchdog(environment: Mapping[str, str] = os.environ) -> None:
    """Tells the watchdog, if the service has one, that the loop that runs this turns: twice in the allowed time."""
    allowed_us = environment.get("WATCHDOG_USEC")
    if not allowed_us:
        return
    while True:
        notify(WATCHDOG, environment=environment)
        await asyncio.sleep(int(allowed_us) / 2e6)
