"""The control API: JSON over HTTP over a UNIX socket; what may be asked is in `messages`, who may ask in `peers`."""

from vscaf.control.client import NoDaemon, ask, ask_status, follow, tell
from vscaf.control.server import ControlServer, ControlTarget

__all__ = ["ControlServer", "ControlTarget", "NoDaemon", "ask", "ask_status", "follow", "tell"]
