"""A private libvirtd with real QEMU guests, for tests and the demo. It never uses the machine's own libvirtd."""

from vscaf_lab.errors import LabError
from vscaf_lab.guest import Guest
from vscaf_lab.private_libvirt import PrivateLibvirt
from vscaf_lab.runner import ClockOffset, Command, CommandResult
from vscaf_lab.sampler import Sample, Sampler

__all__ = [
    "ClockOffset",
    "Command",
    "CommandResult",
    "Guest",
    "LabError",
    "PrivateLibvirt",
    "Sample",
    "Sampler",
]
