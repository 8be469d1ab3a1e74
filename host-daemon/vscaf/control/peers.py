"""The process at the other end of a control connection, and what it may do.

The kernel recorded these ids at connect(): SO_PEERCRED for user and primary group, SO_PEERGROUPS for the supplementary
groups. Other sources would be wrong. The peer's /proc/PID/status may belong to another process once the pid is used
again. getgrouplist() returns what the user database grants, not what the process has, and may wait for a directory
server.
"""

import errno
import grp
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from vscaf.errors import UsageError

SO_PEERGROUPS = 59  # <asm-generic/socket.h>; the socket module has no name for it
_CREDENTIALS = struct.Struct("iII")
_GROUPS_BYTES = 1024  # the most that socket.getsockopt takes: 256 groups


class Access(IntEnum):
    """What a peer may do. Each level includes the one before."""

    NONE = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that connected, with its ids at that time."""

    pid: int
    uid: int
    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Root, the daemon's own user and the write group may write. The read group may read. None: no such group."""

    own_uid: int
    read_gid: int | None = None
    write_gid: int | None = None

    def of(self, peer: Peer) -> Access:
        """What *peer* may do."""
        if peer.uid in (0, self.own_uid) or self.write_gid in peer.groups:
            return Access.WRITE
        return Access.READ if self.read_gid in peer.groups else Access.NONE

    @property
    def socket_mode(self) -> tuple[int, int]:
        """The socket's permissions and group (-1: unchanged): the narrowest that let all permitted users connect.

        A file has only one group. If two groups may connect, every user can, and the server refuses the others.
        """
        groups = {gid for gid in (self.read_gid, self.write_gid) if gid is not None}
        if not groups:
            return 0o600, -1
        return (0o660, groups.pop()) if len(groups) == 1 else (0o666, -1)


def peer_of(connection: socket.socket) -> Peer:
    """The process that opened *connection*, a UNIX socket."""
    pid, uid, gid = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError as error:
        # More groups than fit, or a kernel before 4.13: only the primary group counts, which may refuse too much.
        if error.errno not in (errno.ERANGE, errno.ENOPROTOOPT):
            raise
        packed = b""
    return Peer(pid, uid, frozenset({gid, *(group for (group,) in struct.iter_unpack("I", packed))}))


def group_id(key: str, name: str | None) -> int | None:
    """The number of group *name*, from the configuration's *key*. UsageError if there is no such group."""
    if name is None:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise UsageError(f"{key}: this host has no group {name!r}: add it: `groupadd --system {name}`") from error
