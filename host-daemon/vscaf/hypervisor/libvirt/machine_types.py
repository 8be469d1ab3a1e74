"""Which of QEMU's machine types can plug vCPUs."""

import re

PLUGGING_ARCHES = frozenset({"x86_64", "i686"})
FIRST_PLUGGING = (2, 7)  # QEMU's version that can tell libvirt which vCPUs can be plugged
# A version is QEMU's. Distributions have types of their own (pc-q35-noble, pc-q35-rhel9.4.0); all in use are newer.
PC = re.compile(r"(?:pc(?:-q35|-i440fx)?|q35)(?:-(?:(?P<major>\d+)\.(?P<minor>\d+))?.*)?")


def plugs_vcpus(arch: str, machine: str) -> bool:
    """Whether QEMU can tell libvirt which vCPUs can be plugged on this machine type."""
    parsed = PC.fullmatch(machine)
    if arch not in PLUGGING_ARCHES or parsed is None:
        return False
    return parsed["major"] is None or (int(parsed["major"]), int(parsed["minor"])) >= FIRST_PLUGGING
