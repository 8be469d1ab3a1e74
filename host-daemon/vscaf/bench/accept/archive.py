"""The one file to send back: the report and the logs, without the host's name."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPLACEMENT = "HOST"


def host_names() -> list[str]:
    """The names of this host: with and without its domain. libvirt logs the canonical one."""
    names = {socket.gethostname(), socket.getfqdn()}
    with contextlib.suppress(socket.gaierror):  # no name service knows it: then libvirt knows no other name either
        names |= {row[3] for row in socket.getaddrinfo(socket.gethostname(), None, flags=socket.AI_CANONNAME)}
    return sorted({part for name in names for part in (name, name.partition(".")[0])} - {"", "localhost"})


def scrubbed(text: str, names: Iterable[str]) -> str:
    """The text with each of these names, as a whole word, replaced."""
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", REPLACEMENT, text, flags=re.IGNORECASE)
    return text


def scrubbed_values(value: Any, names: Iterable[str]) -> Any:
    """JSON data with all texts scrubbed, but not the keys of objects."""
    if isinstance(value, str):
        return scrubbed(value, names)
    if isinstance(value, dict):
        return {key: scrubbed_values(one, names) for key, one in value.items()}
    return [scrubbed_values(one, names) for one in value] if isinstance(value, list) else value


def write_archive(archive: Path, report: Path, logs: Path, names: Iterable[str]) -> list[str]:
    """Writes the report and all files below *logs*, scrubbed, into an archive, as logs/. Returns the names of files.

    The report is taken as it is.
    """
    with tarfile.open(archive, "w:gz") as tar:
        _add(tar, report.name, report.read_bytes(), report)
        for path in sorted(logs.rglob("*")):
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="surrogateescape")
                name = scrubbed(str(Path("logs") / path.relative_to(logs)), names)
                _add(tar, name, scrubbed(text, names).encode("utf-8", "surrogateescape"), path)
        return tar.getnames()


def _add(tar: tarfile.TarFile, name: str, content: bytes, source: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mtime = int(source.stat().st_mtime)
    tar.addfile(entry, io.BytesIO(content))
