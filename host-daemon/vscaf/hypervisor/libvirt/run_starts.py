"""When a domain's run began, which libvirt itself does not report.

libvirt numbers runs from the largest number that is in use when its daemon starts. So a domain that was stopped and
started again while libvirtd was down may have the same number. libvirt's QEMU driver writes a file with QEMU's pid at
the start of each run and removes it at the end. So the file's time differs for each run.
"""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SYSTEM = Path("/run/libvirt")


class RunStarts:
    """The starts of runs of libvirt at *uri*. They are known only for this host's own system QEMU driver."""

    def __init__(self, uri: str) -> None:
        self._directory: Path | None = None
        parts = urlsplit(uri)
        if parts.scheme in {"qemu", "qemu+unix"} and not parts.netloc and parts.path == "/system":
            (socket,) = parse_qs(parts.query).get("socket", [str(SYSTEM / "libvirt-sock")])[:1]
            self._directory = Path(socket).parent / "qemu"

    def started_ns(self, name: str) -> int:
        """When the present run of the domain *name* began, in nanoseconds of the wall clock. 0: not known."""
        if self._directory is None:
            return 0
        try:
            return (self._directory / f"{name}.pid").stat().st_mtime_ns
        except (OSError, ValueError):
            return 0
