"""Access to the control API by user and group, and the socket itself."""

import asyncio
import grp
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from control_recorder import Recorder, group_of, mode_of, on_server, serving
from hypothesis import given
from hypothesis import strategies as st
from vscaf.control import server as server_module
from vscaf.control.client import NoDaemon, get_status, post
from vscaf.control.peers import Access, AccessPolicy, Peer, peer_of
from vscaf.control.server import ControlServer
from vscaf.errors import UsageError, VscafError
from vscaf.events import EventLog
from vscaf.lab.polling import HANG_S
from vscaf.lab.polling import soon as until

UNPRIVILEGED = Peer(pid=1, uid=1000, groups=frozenset({1000}))


def test_access_by_credentials() -> None:
    rules = AccessPolicy(own_uid=500, read_gid=7, write_gid=8)
    assert rules.of(UNPRIVILEGED) is Access.NONE
    assert rules.of(Peer(1, 1000, frozenset({1000, 7}))) is Access.READ
    assert rules.of(Peer(1, 1000, frozenset({8}))) is Access.WRITE
    assert rules.of(Peer(1, 1000, frozenset({7, 8}))) is Access.WRITE
    assert rules.of(Peer(1, 0, frozenset())) is Access.WRITE
    assert rules.of(Peer(1, 500, frozenset())) is Access.WRITE
    assert AccessPolicy(own_uid=0).of(UNPRIVILEGED) is Access.NONE
    assert AccessPolicy(own_uid=0).of(Peer(1, 1000, frozenset({0}))) is Access.NONE, "group root gives no access"


@given(st.sets(st.integers(0, 4)), st.integers(0, 3), st.none() | st.integers(0, 4), st.none() | st.integers(0, 4))
def test_write_includes_read_and_groups_only_add(
    groups: set[int], uid: int, read_gid: int | None, write_gid: int | None
) -> None:
    rules = AccessPolicy(own_uid=1, read_gid=read_gid, write_gid=write_gid)
    access = rules.of(Peer(1, uid, frozenset(groups)))
    assert (access is Access.WRITE) == (uid in (0, 1) or write_gid in groups)
    assert (access >= Access.READ) == (access is Access.WRITE or read_gid in groups)
    mode, gid = rules.socket_mode
    if access is not Access.NONE and uid > 1:
        assert mode & 0o006 or (mode & 0o060 and gid in groups), "who may ask can connect"
    assert mode & 0o006 == 0 or len({read_gid, write_gid} - {None}) == 2, "no wider open than it must be"


def test_the_kernel_says_who_connected(directory: Path) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_of(one) == Peer(os.getpid(), os.geteuid(), frozenset({os.getegid(), *os.getgroups()}))


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(120)
try:
    s.connect(sys.argv[1])
    lines = [f"{sys.argv[2]} {sys.argv[3]} HTTP/1.1", "Host: v", "Connection: close", "Content-Length: 0", "", ""]
    s.sendall("\\r\\n".join(lines).encode())
    while piece := s.recv(65536):
        sys.stdout.write(piece.decode())
except OSError as error:
    print(error.strerror)
"""


async def as_somebody(path: Path, method: str, what: str, *gids: int) -> str:
    """The answer to a process of another user in the groups *gids*. The first one is its primary group."""

    def asked() -> str:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", ASK, str(path), method, what],
            user=54321,
            group=gids[0],
            extra_groups=gids[1:],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=True,
        )
        return done.stdout

    return await asyncio.to_thread(asked)


@as_root
def test_groups_over_the_socket(directory: Path) -> None:
    """Real processes of another user: supplementary groups count like the primary group, and no other group counts."""
    readers, writers = grp.getgrnam("daemon"), grp.getgrnam("games")

    async def work(path: Path, target: Recorder, _: EventLog) -> None:
        assert mode_of(path) == 0o666
        for gids in ((54321, readers.gr_gid), (readers.gr_gid,)):
            assert " 200 " in await as_somebody(path, "GET", "/v1/status", *gids)
            refused = await as_somebody(path, "POST", "/v1/off", *gids)
            assert " 403 " in refused and "uid 54321 may not write" in refused and "group games" in refused
        assert target.requests == []
        stranger = await as_somebody(path, "GET", "/v1/status", 54321)
        assert " 403 " in stranger and "may not read" in stranger and "group daemon" in stranger
        assert " 200 " in await as_somebody(path, "POST", "/v1/off", 54321, writers.gr_gid)
        assert target.requests == [("off",)]

    on_server(directory, work, read_group="daemon", write_group="games")


@as_root
def test_a_reload_gives_and_takes_access_at_once(directory: Path) -> None:
    readers = grp.getgrnam("daemon").gr_gid

    async def work(path: Path, target: Recorder, events: EventLog) -> None:
        events.record("started", None)
        target.groups = ("daemon", None)
        await post(path, "/v1/reload")
        assert (mode_of(path), group_of(path)) == (0o660, readers)
        assert " 200 " in await as_somebody(path, "GET", "/v1/status", readers)
        follower = asyncio.create_task(as_somebody(path, "GET", "/v1/events?follow=1", readers))
        await until(lambda: bool(events._news._waiters))  # it follows
        target.groups = ("daemon", "no-such")
        with pytest.raises(UsageError, match=r"control_write_group.*no-such"):
            await post(path, "/v1/reload")
        assert " 200 " in await as_somebody(path, "GET", "/v1/status", readers), (
            "a refused reload has changed the access"
        )
        target.groups = (None, None)
        await post(path, "/v1/reload")
        assert mode_of(path) == 0o600
        assert "Permission denied" in await as_somebody(path, "GET", "/v1/status", readers)
        events.record("secret", None)
        seen = await follower  # the stream ends
        assert "started" in seen and "secret" not in seen
        assert target.requests == [("reload",)] * 2

    on_server(directory, work)


def test_a_socket_that_is_gone_cannot_be_given_to_a_group(directory: Path) -> None:
    async def main() -> None:
        async with serving(directory / "s") as (server, _, _):
            (directory / "s").unlink()
            server.allow(None, None)
            with pytest.raises(VscafError, match="No such file or directory: restart the daemon to change groups"):
                server.allow("daemon", None)
            assert server._rules.read_gid is None

    asyncio.run(main())


@as_root
def test_one_group_alone_owns_the_socket(directory: Path) -> None:
    async def work(path: Path, _: Recorder, __: EventLog) -> None:
        assert mode_of(path) == 0o660
        assert group_of(path) == grp.getgrnam("daemon").gr_gid
        assert "Permission denied" in await as_somebody(path, "GET", "/v1/status", 54321)
        assert " 200 " in await as_somebody(path, "GET", "/v1/status", 54321, grp.getgrnam("daemon").gr_gid)

    on_server(directory, work, read_group="daemon")


@as_root
def test_strangers_cannot_use_up_the_daemon(directory: Path) -> None:
    """They get few connections, and only for a short time. Meanwhile members and root can connect."""
    hold = (
        "import socket,sys,time\nall = []\n"
        "for _ in range(200):\n s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); all.append(s)\n"
        "print('there', flush=True)\ntime.sleep(60)"
    )

    async def main() -> None:
        async with serving(directory / "s", read_group="daemon", write_group="games") as (server, _, __):
            holder = await asyncio.create_subprocess_exec(
                "/usr/bin/python3",
                "-c",
                hold,
                str(directory / "s"),
                user=54321,
                group=54321,
                extra_groups=[],
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                assert holder.stdout is not None
                async with asyncio.timeout(HANG_S):
                    assert await holder.stdout.readline() == b"there\n"
                assert await get_status(directory / "s")
                assert server._connections["strangers"] <= server_module.CONNECTIONS_OF_STRANGERS
                await until(lambda: not server._connections["strangers"])
            finally:
                holder.kill()
                await holder.wait()

    asyncio.run(main())


def test_without_groups_the_socket_is_closed_to_others(directory: Path) -> None:
    async def work(path: Path, _: Recorder, __: EventLog) -> None:
        assert mode_of(path) == 0o600

    on_server(directory, work)


def test_a_group_that_does_not_exist(directory: Path) -> None:
    with pytest.raises(UsageError, match=r"control_write_group.*no group 'no-such'.*groupadd"):
        ControlServer(directory / "s", Recorder(), EventLog(), write_group="no-such")


def test_a_dead_daemons_socket_is_replaced_and_a_living_ones_is_not(directory: Path) -> None:
    async def main() -> None:
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(str(directory / "s"))
        dead.close()
        async with serving(directory / "s"):
            second = ControlServer(directory / "s", Recorder(), EventLog())
            with pytest.raises(UsageError, match="another daemon listens"):
                await second.start()
            await second.stop()
            assert await get_status(directory / "s")
        assert not (directory / "s").exists()

    asyncio.run(main())


def test_a_socket_that_is_there_can_be_connected_to(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that waits until the socket appears and then connects is not refused."""
    path = directory / "s"
    seen = []

    def connect_if_there(*_arguments: object) -> None:
        if path.exists():
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
                seen.append(mode_of(path))

    for step in ("chown", "chmod", "rename"):
        real = getattr(os, step)

        def watched(*arguments: object, real: Callable[..., None] = real, **named: object) -> None:
            connect_if_there()
            real(*arguments, **named)
            connect_if_there()

        monkeypatch.setattr(os, step, watched)

    async def work(_path: Path, _: Recorder, __: EventLog) -> None:
        connect_if_there()

    on_server(directory, work)
    assert seen and set(seen) == {0o600}
    assert [one.name for one in directory.iterdir()] == []


@pytest.mark.parametrize("name", ["s", "~"])
def test_a_file_that_is_no_socket_is_kept(directory: Path, name: str) -> None:
    """At the socket's path, and at the temporary path where the server makes the socket."""
    (directory / name).write_text("precious", encoding="utf-8")

    async def main() -> None:
        server = ControlServer(directory / "s", Recorder(), EventLog())
        with pytest.raises(UsageError, match="not a socket"):
            await server.start()
        await server.stop()

    asyncio.run(main())
    assert (directory / name).read_text(encoding="utf-8") == "precious"


def test_a_socket_that_cannot_be_made(directory: Path) -> None:
    (directory / "file").write_text("", encoding="utf-8")

    async def main() -> None:
        with pytest.raises(UsageError, match=r"control socket .*control_socket"):
            await ControlServer(directory / "file" / "s", Recorder(), EventLog()).start()

    asyncio.run(main())


def test_off_is_answered_although_the_server_ends_at_once(directory: Path) -> None:
    async def main() -> None:
        target = Recorder()
        server = ControlServer(directory / "s", target, EventLog())
        await server.start()
        asked = asyncio.create_task(post(directory / "s", "/v1/off"))
        async with asyncio.timeout(HANG_S):
            await until(lambda: bool(target.requests), poll_s=0)
            await server.stop()
            assert await asked == {}

    asyncio.run(main())


def test_nobody_there_and_somebody_who_does_not_answer(directory: Path) -> None:
    async def main() -> None:
        with pytest.raises(NoDaemon, match="is `vscaf daemon` running"):
            await get_status(directory / "absent")
        with socket.socket(socket.AF_UNIX) as stopped:
            stopped.bind(str(directory / "stopped"))
            with pytest.raises(NoDaemon):
                await get_status(directory / "stopped")
            stopped.listen()
            with pytest.raises(VscafError, match=r"no answer in 0\.2 s") as silent:
                await get_status(directory / "stopped", 0.2)
            assert not isinstance(silent.value, NoDaemon), "a daemon that is stopped still holds the domains"

    asyncio.run(main())
