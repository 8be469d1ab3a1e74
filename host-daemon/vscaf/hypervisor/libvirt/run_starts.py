"""When a domain's run began, which libvirt itself does not tell.

libvirt numbers runs from the largest number that is in use when its daemon starts, so a domain that was stopped and
started again while that daemon was down may have the same number. Its QEMU driver writes a file with QEMU's pid at the
start of each run and removes it at the end, so the file's time is another one for each run.
"""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SYSTEM = Path("/run/libvirt")


class RunStarts:
    """The starts of runs of libvirt at *uri*; none are known but those of this host's own system QEMU driver."""

    def __init__(self, uri: str) -> None:
        self._directory: Path | None = None
        parts = urlsplit(uri)
        if parts.scheme in {"qemu", "qemu+unix"} and not parts.netloc and parts.path == "/system":
            (socket,) = parse_qs(parts.query).get("socket", [str(SYSTEM / "libvirt-sock")])[:1]
            self._directory = Path(socket).parent / "qemu"

    def started_ns(self, name: str) -> int:
        """When the present run of the domain *name* began, as nanoseconds of the clock; 0: that cannot be known."""
        if self._directory is None:
            return 0
        try:
            return (self._directory / f"{name}.pid").stat().st_mtime_ns
        except (OSError, ValueError):
            return 0
