"""The host's side of the channel to one guest's agent: connects, keeps the last reports, sends allocations.

The guest is not trusted. Lines are bounded, decoded strictly, and read no faster than a fixed rate, so a flood
fills the guest's own buffers. Nothing that the guest sends makes this side use more memory or wait.
"""

import asyncio
import logging
import math
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path

from vscaf import __version__, clock
from vscaf.agentlink import messages
from vscaf.agentlink.hub import AgentHub, running_hub
from vscaf.agentlink.interface import Link
from vscaf.agentlink.lines import LineSplitter, TokenBucket

log = logging.getLogger(__name__)

RECONNECT_S = 0.25  # doubled while it fails
RECONNECT_MOST_S = 2.0
HELLO_RETRY_S = 1.0  # doubled while no agent answers
HELLO_RETRY_MOST_S = 8.0
READ_BYTES = 16 * 1024
BYTES_OF_WORK = 4096  # cost about as much as one short line
WORK_PER_SECOND = 100.0
WORK_AT_ONCE = 200.0
NEWS_PER_SECOND = 1.0  # as often as a guest's demand may change; other changes are seen at the next look
NEWS_AT_ONCE = 8.0
NOTICES_PER_SECOND = 0.1
NOTICES_AT_ONCE = 5.0
UNREAD_LIMIT_BYTES = 64 * 1024  # if the guest leaves more unread, the channel is closed and opened again
UNREAD_S = 1.0  # if data is unsent for longer than this, the guest does not read
STALE_REPORT_S = 2.5  # an agent with nothing new to say reports once a second
SEQUENCES_KEPT = 64

_NO_LINE = b"\n"  # no line begins so
_QUIET_FIELD = f'"{messages.QUIET}"'.encode()

NO_CHANNEL = "no channel"
NO_ANSWER = "no agent answers"
CONNECTED = "connected"
NOT_READING = "does not read"
STALE = "stale"


class AgentLink:
    """The channel at *path* of domain *name*, from start() to stop(), served by *hub* (unset: the running loop's).

    `on_news` is called on the loop, at most once per message: when an agent sent hello or its first report, when its
    demand or its online CPUs changed, when it acknowledged the newest allocation, and when the channel was lost. The
    first acknowledgement of each allocation always causes a call. Calls that a guest causes by itself are limited to
    NEWS_PER_SECOND, and NEWS_AT_ONCE at once. Further changes are seen at the next look.

    `hello`, `report`: the guest's last ones on this connection. `demand`: that of the last report; None: there is none.
    A report whose text before `busy` is that of the last one says nothing new about demand, online CPUs and allocation.
    The rest of it is decoded and checked when `report` is read, unless another report has come by then.

    `generation` grows with each hello of the guest. A hello makes everything that was sent before void, `acknowledged`
    included. `acknowledged`: the number of the allocation in force, as the guest last reported it; None if that number
    was not sent since its hello. `bad_lines`: lines that were not a valid message. `throttled`: how often reading was
    paused because the guest sent too much. `fault`: an unexpected error in this link. The reader resets it to None.
    """

    def __init__(self, name: str, path: Path, on_news: Callable[[], None], hub: AgentHub | None = None) -> None:
        self.name = name
        self.path = path
        self.hello: messages.GuestHello | None = None
        self.report_at_s = float("-inf")
        self._woken_at_s = float("-inf")  # when an allocation was sent to it while it was quiet
        self.acknowledged: int | None = None
        self.generation = 0
        self.bad_lines = 0
        self.throttled = 0
        self.fault: Exception | None = None
        self.paused = False
        self._on_news = on_news
        self._hub = hub
        self._report: messages.Report | None = None
        self._report_line = b""  # _report was decoded from it
        self._same_state = _NO_LINE  # how a report begins that says the same as _report up to `busy`
        self._undecoded = b""  # the newest such report; empty: _report is the newest
        self._online: tuple[int, ...] | None = None
        self._online_reported = False  # _online comes from the last report
        self._socket: socket.socket | None = None
        self._started = False
        self._unreachable = "not tried yet"
        self._opened_at_s = float("-inf")
        self._reconnect_s = RECONNECT_S
        self._hello_retry_s = HELLO_RETRY_S
        self._timer: asyncio.TimerHandle | None = None  # to connect, or to greet
        self._resumer: asyncio.TimerHandle | None = None
        self._lines = LineSplitter(messages.LINE_LIMIT_BYTES)
        self._more = False  # _lines may hold complete lines
        self._amid_line = False  # _lines holds, or has dropped, the beginning of a line
        self._oversize = 0  # of its lines, counted as bad
        # Units of work that the guest may still send: a token bucket that is filled only when it is empty.
        self._allowance = WORK_AT_ONCE
        self._refilled_s = clock.now_s()
        self._news = TokenBucket(NEWS_PER_SECOND, NEWS_AT_ONCE)
        self._notices = TokenBucket(NOTICES_PER_SECOND, NOTICES_AT_ONCE)
        self._first_line = True
        self._sent: deque[int] = deque(maxlen=SEQUENCES_KEPT)
        self._answered: int | None = None  # the newest allocation that was acknowledged once
        self._unsent = b""
        self._unsent_since_s = float("inf")
        self._cut_off = False
        self._bad_line_logged = False
        self._fault_logged = False

    def start(self) -> None:
        """Connects, and connects again after each loss, until stop()."""
        if self._hub is None:
            self._hub = running_hub()
        self._started = True
        self._connect()

    async def stop(self) -> None:
        """Ends the link. Harmless when called twice."""
        self._started = False
        self._close()

    @property
    def connected(self) -> bool:
        """Whether the agent has answered since the channel was opened."""
        return self._socket is not None and self.hello is not None

    @property
    def agent_version(self) -> str | None:
        """The agent's name and version, as it says. None: it has not answered on this connection."""
        return self.hello.agent if self.hello is not None else None

    @property
    def condition(self) -> str:
        """The condition of the agent as text: "not reachable: WHY", NO_ANSWER, CONNECTED, NOT_READING or STALE.

        Not reachable: no process listens at the path. NO_ANSWER: the channel is open, but no agent has sent hello.
        NOT_READING: the guest does not read what is sent. STALE: an agent was connected, but sends no reports any more.
        """
        if self._socket is None and not self._cut_off:
            return f"not reachable: {self._unreachable}"
        now_s = clock.now_s()
        if self._cut_off or now_s - self._unsent_since_s > UNREAD_S:
            return NOT_READING
        if self.hello is None:
            return NO_ANSWER
        return STALE if min(self.age_s(), now_s - self._opened_at_s) > STALE_REPORT_S else CONNECTED

    @property
    def report(self) -> messages.Report | None:
        """The guest's last report on this connection. None: there is none yet."""
        line, self._undecoded = self._undecoded, b""
        if line and line != self._report_line:
            try:
                message = messages.decode_from_guest(line)
            except messages.BadLine as error:
                self._count_bad(str(error))
            else:
                assert isinstance(message, messages.Report)  # it begins like one
                self._report, self._report_line = message, line
        return self._report

    @report.setter
    def report(self, report: messages.Report | None) -> None:
        self._report, self._report_line = report, b""
        self._same_state, self._undecoded = _NO_LINE, b""

    @property
    def demand(self) -> int | None:
        """The demand in the last report. None: there is none yet."""
        return self._report.demand if self._report is not None else None

    @property
    def online(self) -> tuple[int, ...] | None:
        """The guest's online CPUs, as it last reported them. None: unknown."""
        return self._online

    @property
    def quiet(self) -> bool:
        """Whether no report is due until something changes: the last one says so, and it applied the last allocate."""
        report = self._report  # a report that says `quiet` is always decoded at once
        return report is not None and report.quiet is True and (not self._sent or self.acknowledged == self._sent[-1])

    def age_s(self) -> float:
        """Seconds since the last report, or since an allocation woke a quiet agent. 0 while it is quiet."""
        return 0.0 if self.quiet else clock.now_s() - max(self.report_at_s, self._woken_at_s)

    def send(self, message: messages.HostHello | messages.Allocate | messages.WireError) -> bool:
        """Sends without waiting. False if the guest does not read or is not connected."""
        if self._socket is None:
            return False
        if len(self._unsent) > UNREAD_LIMIT_BYTES:
            log.warning("domain %s: its agent does not read; its channel is closed and opened again", self.name)
            self._cut_off = True
            self._disconnect("the agent does not read")
            return False
        if isinstance(message, messages.Allocate):
            if self.quiet:
                self._woken_at_s = clock.now_s()  # it must answer
            self._sent.append(message.sequence)
            self._same_state = _NO_LINE  # the same report may acknowledge this allocation
        self._put(messages.encode(message))
        return self._socket is not None

    # Called by the hub.

    def serve(self, now_s: float, most: float) -> tuple[float, bool]:
        """Reads once if no lines are held, and processes lines for *most* units of work, or a little more."""
        if self._more:
            work = self._take_held(now_s, most, 0.0)
        else:
            data = self._receive()
            work = len(data) / BYTES_OF_WORK
            if not self._amid_line and data.find(b"\n") == len(data) - 1 >= 0:  # one complete line: the usual case
                work += 1.0
                self._take(data[:-1], now_s)
            else:
                self._lines.push(data)
                work = self._take_held(now_s, most, work)
        if self._socket is None:
            return work, False
        self._allowance -= work
        if self._allowance < 0.0:
            self._refill(now_s)
        return work, self._more and not self.paused

    def _take_held(self, now_s: float, most: float, work: float) -> float:
        lines = self._lines
        self._more = True
        while work < most:
            line = lines.pop()
            if line is None:
                self._more = False
                break
            work += 1.0
            self._take(line, now_s)
            if self._socket is None:
                return work
        self._amid_line = lines.amid_line
        while self._oversize < lines.oversize:
            self._oversize += 1
            self._count_bad("a line of 64 KiB or more")
        return max(work, 1.0)

    def _refill(self, now_s: float) -> None:
        """Fills the allowance for the time that has passed. If it is still negative, reading is paused for as long."""
        self._allowance = min(WORK_AT_ONCE, self._allowance + (now_s - self._refilled_s) * WORK_PER_SECOND)
        self._refilled_s = now_s
        if self._allowance < 0.0:
            self._pause(-self._allowance / WORK_PER_SECOND)

    def flush(self) -> None:
        """Sends the data that could not be sent before."""
        unsent, self._unsent = self._unsent, b""
        self._put(unsent)

    def hung_up(self) -> None:
        """The other end has closed the channel."""
        self._disconnect("it was closed")

    def broken(self, error: Exception) -> None:
        """Serving the link raised an unexpected error: the connection is closed and opened again."""
        self.fault = error
        if not self._fault_logged:
            self._fault_logged = True
            log.error("domain %s: its agent's channel failed, please report this", self.name, exc_info=error)
        self._disconnect("a message could not be processed")

    # The connection.

    def _connect(self) -> None:
        assert self._hub is not None
        channel = None
        try:
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            channel.connect(str(self.path))
            self._hub.add(channel.fileno(), self)
        except OSError as error:
            if channel is not None:
                channel.close()
            why = error.strerror or str(error)
            if why != self._unreachable:
                self._unreachable = why
                log.info("domain %s: no agent channel at %s yet (%s)", self.name, self.path, why)
            self._connect_later()
            return
        self._socket = channel
        self._unreachable = ""
        self._opened_at_s = clock.now_s()
        # Data that was in flight when the channel was opened may begin in the middle of a line. That first line is not
        # counted as a bad line of the guest.
        self._first_line = True
        self._lines = LineSplitter(messages.LINE_LIMIT_BYTES)
        self._oversize = 0
        self._more = self._amid_line = False
        self._hello_retry_s = HELLO_RETRY_S
        # A daemon that died in the middle of a line left half a line in the guest. This ends it before the hello.
        self._put(b"\n")
        self._send_hello()

    def _connect_later(self) -> None:
        delay_s, self._reconnect_s = self._reconnect_s, min(2 * self._reconnect_s, RECONNECT_MOST_S)
        self._set_timer(delay_s, self._connect)

    def _send_hello(self) -> None:
        if self._socket is None or self.hello is not None:
            return
        hello = messages.HostHello(
            daemon=f"vscaf {__version__}",
            versions=[messages.WIRE_VERSION],
            capabilities=[messages.QUIET, messages.SPARSE],
        )
        if not self.send(hello):
            return
        delay_s, self._hello_retry_s = self._hello_retry_s, min(2 * self._hello_retry_s, HELLO_RETRY_MOST_S)
        self._set_timer(delay_s, self._send_hello)

    def _set_timer(self, delay_s: float, work: Callable[[], None]) -> None:
        """Sets the only timer. One that was set before is cancelled, so that none is lost."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay_s, work)

    def _receive(self) -> bytes:
        assert self._socket is not None
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError as error:
            self._disconnect(error.strerror or str(error))
            return b""
        if not data:
            self._disconnect("it was closed")
        return data

    def _put(self, data: bytes) -> None:
        """Sends *data* after the unsent data, and keeps what the channel does not accept."""
        assert self._socket is not None and self._hub is not None
        was_unsent = bool(self._unsent) or self._unsent_since_s < math.inf
        if not self._unsent:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self._disconnect(error.strerror or str(error))
                return
        self._unsent += data
        if bool(self._unsent) != was_unsent:
            self._unsent_since_s = clock.now_s() if self._unsent else math.inf
            self._watch()

    def _watch(self) -> None:
        if self._socket is not None and self._hub is not None:
            self._hub.watch(self._socket.fileno(), reading=not self.paused, writing=bool(self._unsent))

    def _pause(self, wait_s: float) -> None:
        self.paused = True
        self.throttled += 1
        self._watch()
        self._resumer = asyncio.get_running_loop().call_later(wait_s, self._resume)

    def _resume(self) -> None:
        self._resumer = None
        self.paused = False
        self._watch()

    def _disconnect(self, why: str) -> None:
        """Closes the connection, forgets what was received on it, and opens another one after a delay."""
        if self._socket is None:
            return
        log.info("domain %s: agent channel lost (%s)", self.name, why)
        self._unreachable = why
        self._close()
        self._connect_later()
        self._forget()

    def _close(self) -> None:
        for timer in (self._timer, self._resumer):
            if timer is not None:
                timer.cancel()
        self._timer = self._resumer = None
        self.paused = False
        self._unsent, self._unsent_since_s = b"", math.inf
        channel, self._socket = self._socket, None
        if channel is not None:
            assert self._hub is not None
            self._hub.remove(channel.fileno())
            channel.close()

    def _forget(self) -> None:
        self.hello = None
        self.report = None
        self.report_at_s = float("-inf")
        self._online = None
        self.acknowledged = None
        self._sent.clear()
        self._on_news()

    # Messages of the guest.

    def _take(self, line: bytes, now_s: float) -> None:
        if line.startswith(self._same_state) and _QUIET_FIELD not in line:
            self._undecoded, self.report_at_s = line, now_s
            return
        ignored, self._first_line = self._first_line, False
        try:
            message = messages.decode_from_guest(line)
        except messages.BadLine as error:
            if error.version is not None and self._notices.allows(now_s):
                hint = (
                    f"this daemon speaks version {messages.WIRE_VERSION}, not {error.version}: update the host's vscaf"
                )
                self.send(messages.WireError(message=hint))
            if not ignored:
                self._count_bad(str(error))
            return
        if isinstance(message, messages.Report):
            self._take_report(message, line, now_s)
        elif isinstance(message, messages.Ack):
            self._take_ack(message, now_s)
        elif isinstance(message, messages.GuestHello):
            self._take_hello(message, now_s)
        elif self._notices.allows(now_s):
            log.warning("domain %s: its agent reports an error: %.200r", self.name, message.message)

    def _take_hello(self, hello: messages.GuestHello, now_s: float) -> None:
        if self._notices.allows(now_s):
            log.info("domain %s: agent connected (%.200r)", self.name, hello.agent)
        self.hello = hello
        self.report = None
        self.report_at_s = float("-inf")
        self.acknowledged = None
        self.generation += 1
        self._opened_at_s = now_s
        self._online = tuple(hello.cpus.online)
        self._sent.clear()
        self._cut_off = False
        self._reconnect_s = RECONNECT_S
        self._notify(now_s)

    def _take_report(self, report: messages.Report, line: bytes, now_s: float) -> None:
        before = self._report
        acknowledged = report.sequence if report.sequence in self._sent else None
        self.report_at_s = now_s
        self._report, self._report_line, self._undecoded = report, line, b""
        state = messages.encoded_state(report)
        if report.quiet is True:
            self._same_state = _NO_LINE  # the same report without `quiet` says that it is no longer quiet
        else:
            self._same_state = state if line.startswith(state) else line
        if (
            before is not None
            and before.demand == report.demand
            and self.acknowledged == acknowledged
            and before.online == report.online
            and self._online_reported
        ):
            return
        online = tuple(report.online)
        changed = (
            before is None
            or before.demand != report.demand
            or self.acknowledged != acknowledged
            or self._online != online
        )
        self.acknowledged = acknowledged
        self._online = online
        self._online_reported = True
        if changed:
            self._notify(now_s)

    def _take_ack(self, ack: messages.Ack, now_s: float) -> None:
        if ack.sequence not in self._sent:
            return  # not an allocation that was sent since its hello
        self._same_state = _NO_LINE
        self._online = tuple(ack.online)
        self._online_reported = False
        news = self.acknowledged != ack.sequence == self._sent[-1]
        self.acknowledged = ack.sequence
        if news:
            self._notify(now_s)

    def _notify(self, now_s: float) -> None:
        """Calls on_news, unless the guest has caused too many calls by itself."""
        acknowledged = self.acknowledged
        if acknowledged is not None and acknowledged == self._sent[-1] != self._answered:
            self._answered = acknowledged  # the first acknowledgement of an allocation is not limited
        elif not self._news.allows(now_s):
            return
        self._on_news()

    def _count_bad(self, why: str) -> None:
        self.bad_lines += 1
        if not self._bad_line_logged:
            self._bad_line_logged = True
            log.warning(
                "domain %s: its agent sent an invalid message (%.200r): ignored; further ones are only counted",
                self.name,
                why,
            )


def condition_of(link: Link | None) -> str:
    """The condition of a domain's link. *link* None: the domain has no channel for an agent."""
    return NO_CHANNEL if link is None else link.condition
