"""One guest's agent, seen from the host: connects to its channel, keeps its last words, sends allocations.

The guest is not trusted: lines are bounded, decoded strictly, and read no faster than a fixed rate, so that a flood
fills the guest's own buffers. Nothing that it sends makes this side grow or wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from vscaf import __version__
from vscaf.agentlink import messages
from vscaf.agentlink.lines import LineSplitter, TokenBucket

log = logging.getLogger(__name__)

RECONNECT_S = 0.25
MESSAGES_PER_SECOND = 100.0
MESSAGES_AT_ONCE = 200.0
UNREAD_LIMIT_BYTES = 64 * 1024  # what the guest has not read yet; beyond it the channel is opened anew
HELLO_RETRY_S = 1.0


class AgentLink:
    """The channel at *path* of domain *name*. `on_news` is called on the loop when the guest said something new."""

    def __init__(self, name: str, path: Path, on_news: Callable[[], None]) -> None:
        self.name = name
        self.path = path
        self.hello: messages.GuestHello | None = None
        self.report: messages.Report | None = None
        self.report_at_s = float("-inf")
        self.bad_lines = 0
        self.acknowledged: int | None = None  # the newest sequence that this run of the agent has acknowledged
        self.generation = 0  # grows with every hello of the guest: what was allocated before is void
        self._on_news = on_news
        self._online: tuple[int, ...] | None = None
        self._waiting: tuple[int, asyncio.Future[messages.Ack | None]] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._bad_line_logged = False

    def start(self) -> None:
        """Starts to connect, and goes on until stop()."""
        self._task = asyncio.create_task(self._run(), name=f"agent link {self.name}")

    async def stop(self) -> None:
        """Ends the link. Harmless when called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def connected(self) -> bool:
        """Whether the agent has answered since the channel was opened."""
        return self._writer is not None and self.hello is not None

    @property
    def online(self) -> tuple[int, ...] | None:
        """The guest's online CPUs as it last said; None: unknown."""
        return self._online

    def age_s(self) -> float:
        """Seconds since the last report."""
        return time.monotonic() - self.report_at_s

    async def allocate(self, allocate: messages.Allocate, timeout_s: float) -> messages.Ack | None:
        """Sends *allocate* and waits for its acknowledgement; None when it does not come in time or cannot come.

        One at a time: a second call ends the wait of the first.
        """
        self._end_wait(None)
        if not self.connected or not self.send(allocate):
            return None
        future: asyncio.Future[messages.Ack | None] = asyncio.get_running_loop().create_future()
        self._waiting = (allocate.sequence, future)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return None

    def _end_wait(self, ack: messages.Ack | None) -> None:
        if self._waiting is not None and not self._waiting[1].done():
            self._waiting[1].set_result(ack)
        self._waiting = None

    def send(self, message: messages.HostHello | messages.Allocate | messages.WireError) -> bool:
        """Sends without waiting; False when the guest does not read or is not there."""
        writer = self._writer
        if writer is None or writer.is_closing():
            return False
        if writer.transport.get_write_buffer_size() > UNREAD_LIMIT_BYTES:
            log.warning("domain %s: its agent does not read; its channel is opened anew", self.name)
            writer.transport.abort()
            return False
        writer.write(messages.encode(message))
        return True

    async def _run(self) -> None:
        said = False
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self.path)
            except OSError as error:
                if not said:
                    log.info("domain %s: no agent channel at %s yet (%s)", self.name, self.path, error.strerror)
                    said = True
                await asyncio.sleep(RECONNECT_S)
                continue
            self._writer = writer
            try:
                await self._converse(reader)
            except OSError as error:
                log.info("domain %s: agent channel lost (%s)", self.name, error.strerror or error)
            finally:
                self._forget()
                writer.transport.abort()
            await asyncio.sleep(RECONNECT_S)

    def _forget(self) -> None:
        self._writer = None
        self.hello = None
        self.report = None
        self.report_at_s = float("-inf")
        self._online = None
        self.acknowledged = None
        self._end_wait(None)
        self._on_news()

    async def _converse(self, reader: asyncio.StreamReader) -> None:
        splitter = LineSplitter(messages.LINE_LIMIT_BYTES)
        bucket = TokenBucket(MESSAGES_PER_SECOND, MESSAGES_AT_ONCE)
        greeted_at_s = float("-inf")
        # What was in flight when the channel was opened may begin in the middle of a line: ended here, and not held
        # against the guest.
        first = True
        while True:
            now_s = time.monotonic()
            if self.hello is None and now_s - greeted_at_s >= HELLO_RETRY_S:
                # A daemon that died in mid-line left a half line in the guest: end it, or the hello would stick to it.
                if self._writer is not None and greeted_at_s == float("-inf"):
                    self._writer.write(b"\n")
                self.send(messages.HostHello(daemon=f"vscaf {__version__}", versions=[messages.WIRE_VERSION]))
                greeted_at_s = now_s
            try:
                async with asyncio.timeout(HELLO_RETRY_S):
                    data = await reader.read(16 * 1024)
            except TimeoutError:
                continue
            if not data:
                return
            oversize = splitter.oversize
            for line in splitter.feed(data):
                pause_s = bucket.wait_s(time.monotonic())
                if pause_s > 0:
                    await asyncio.sleep(pause_s)
                self._take(line, forgive=first)
                first = False
            for _ in range(splitter.oversize - oversize):
                self._count_bad("a line of 64 KiB or more")

    def _take(self, line: bytes, forgive: bool) -> None:
        try:
            message = messages.decode_from_guest(line)
        except messages.BadLine as error:
            if error.version is not None:
                mend = (
                    f"this daemon speaks version {messages.WIRE_VERSION}, not {error.version}: update the host's vscaf"
                )
                self.send(messages.WireError(message=mend))
            if not forgive:
                self._count_bad(str(error))
            return
        if isinstance(message, messages.GuestHello):
            self.hello = message
            self.report = None
            self.acknowledged = None
            self.generation += 1
            self._online = tuple(message.cpus.online)
            log.info("domain %s: agent connected (%s)", self.name, message.agent)
            self._on_news()
        elif isinstance(message, messages.Report):
            self._take_report(message)
        elif isinstance(message, messages.Ack):
            self._online = tuple(message.online)
            self.acknowledged = message.sequence
            if self._waiting is not None and self._waiting[0] == message.sequence:
                self._end_wait(message)
            else:
                self._on_news()
        else:
            log.warning("domain %s: its agent says: %.200s", self.name, message.message)

    def _take_report(self, report: messages.Report) -> None:
        before = self.report
        self.report = report
        self.report_at_s = time.monotonic()
        if report.sequence:
            self.acknowledged = report.sequence
        changed = before is None or before.demand != report.demand or self._online != tuple(report.online)
        self._online = tuple(report.online)
        if changed:
            self._on_news()

    def _count_bad(self, why: str) -> None:
        self.bad_lines += 1
        if not self._bad_line_logged:
            self._bad_line_logged = True
            log.warning(
                "domain %s: its agent sent a line that is no message (%.200s); ignored, further ones only counted",
                self.name,
                why,
            )
