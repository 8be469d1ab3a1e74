"""Who is at the other end of a control connection, and what they may do.

All of it is the kernel's record of the moment of connect(): SO_PEERCRED for user and primary group, SO_PEERGROUPS for
the supplementary groups. The peer's /proc/PID/status would be another process's once the pid is used again, and
getgrouplist() says what the user database grants, not what the process has, and may wait for a directory server.
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
    """What a peer may do; each includes the one before."""

    NONE = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that connected: its ids when it did."""

    pid: int
    uid: int
    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Write for root, the daemon's own user and one group; read for another group too. None: no such group."""

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
        """Permissions of the socket and its group (-1: unchanged), as narrow as lets everybody in who may do anything.

        A file has one group: where two may connect everybody can, and is refused by the server unless in one of them.
        """
        groups = {gid for gid in (self.read_gid, self.write_gid) if gid is not None}
        if not groups:
            return 0o600, -1
        return (0o660, groups.pop()) if len(groups) == 1 else (0o666, -1)


def peer_of(connection: socket.socket) -> Peer:
    """The process that made *connection*, a UNIX socket."""
    pid, uid, gid = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, _GROUPS_BYTES)
    except OSError as error:
        # More groups than fit, or a kernel before 4.13: the primary group alone counts, which can only refuse.
        if error.errno not in (errno.ERANGE, errno.ENOPROTOOPT):
            raise
        packed = b""
    return Peer(pid, uid, frozenset({gid, *(group for (group,) in struct.iter_unpack("I", packed))}))


def group_id(key: str, name: str | None) -> int | None:
    """The number of group *name*, of the configuration's *key*. UsageError where there is no such group."""
    if name is None:
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise UsageError(f"{key}: this host has no group {name!r}: make it with `groupadd --system {name}`") from error
