"""A private libvirtd with real QEMU guests, for `vscaf bench`, the demo and the tests. It never uses the machine's own
libvirtd."""

from vscaf.lab.errors import LabError
from vscaf.lab.guest import Guest
from vscaf.lab.private_libvirt import PrivateLibvirt
from vscaf.lab.runner import ClockOffset, Command, CommandResult

__all__ = ["ClockOffset", "Command", "CommandResult", "Guest", "LabError", "PrivateLibvirt"]
