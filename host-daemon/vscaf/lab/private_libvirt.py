"""Private libvirtd and virtlogd, with their own sockets, state, log, cache and configuration.

Each daemon runs in a mount namespace in which private directories are mounted over the five paths that libvirt uses.
These directories are in one run directory with a short name, because a UNIX socket's path has at most 107 bytes. Other
processes reach the socket through the run directory. There is no systemd, no D-Bus and no driver except QEMU's. The lab
does not see or change the machine's own libvirt.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import libvirt

from vscaf.lab import cgroups, processes
from vscaf.lab.errors import LabError
from vscaf.occupancy.qemu import thread_ids

# Private directory inside the run directory -> the path that it is mounted over, only for the lab's daemons.
BINDS = {
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
    "etc": "/etc/libvirt",
}
RUN_PREFIX = "vl-"
ACCOUNT, ACCOUNT_NUMBER = "libvirt-qemu", 64055  # Debian's and Ubuntu's; QEMU itself runs as root here
START_DEADLINE_S = 60.0
END_PATIENCE_S = 10.0
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Mounts must not leave the new namespace. In a chroot "/" is not a mount point and cannot be made private. Entering the
# namespace again leads to its true root, where that works. Arguments: the binds as pairs, "--", the daemon.
LAUNCH = """
set -e
mount --make-rprivate / 2>/dev/null || nsenter --mount=/proc/self/ns/mnt -- mount --make-rprivate /
if [ -n "$LAB_HOSTNAME" ]; then hostname "$LAB_HOSTNAME"; fi
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
exec "$@"
"""

LIBVIRTD_CONF = """
unix_sock_group = "root"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
stdio_handler = "logd"
"""


def accepts(path: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> bool:
    """Whether a process listens at the socket. A daemon makes the file a moment before it listens."""
    with socket.socket(socket.AF_UNIX, kind) as client:
        try:
            client.connect(os.fsencode(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True


class PrivateLibvirt:
    """Context manager: real libvirtd and virtlogd until its end. Needs root.

    `logs`: directory for the logs (default: removed with the run directory). `cache`: a directory that keeps QEMU's
    capabilities and the result of the KVM probe between runs, which saves about 9 and 20 s. Both are made if missing.
    `hostname`: gives this libvirtd another host name and UUID, as on another machine. Domains can be moved between two
    labs only if one of them has it. Raises LabError if a daemon is not installed or does not start.
    """

    def __init__(self, logs: Path | None = None, cache: Path | None = None, hostname: str | None = None) -> None:
        self._logs = logs
        self.cache = cache
        self._hostname = hostname
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._connection: libvirt.virConnect | None = None
        self._binds: list[tuple[Path, str]] = []
        self._signals = ExitStack()
        self.directory = Path()

    @property
    def uri(self) -> str:
        """The libvirt URI for any process of this machine."""
        return f"qemu+unix:///system?socket={self.directory}/run/libvirt-sock"

    @property
    def logs(self) -> Path:
        """The directory for the logs of libvirtd, virtlogd, QEMU and the consoles."""
        return self._logs.resolve() if self._logs is not None else self.directory / "log"

    @property
    def connection(self) -> libvirt.virConnect:
        """The lab's own connection; opened again if the daemon was restarted."""
        if self._connection is None or not self._connection.isAlive():
            self._connection = libvirt.open(self.uri)
        return self._connection

    @property
    def libvirtd_pid(self) -> int:
        """The pid of libvirtd."""
        return self._daemons["libvirtd"].pid

    def socket_path(self, name: str) -> Path:
        """A path for a UNIX socket in the run directory.

        Raises LabError if it is longer than the kernel accepts.
        """
        path = self.directory / name
        if len(os.fsencode(path)) > 107:
            raise LabError(f"the socket path {path} is longer than 107 bytes: choose a shorter domain name")
        return path

    def __enter__(self) -> PrivateLibvirt:
        if os.geteuid() != 0:
            raise LabError("a private libvirtd needs root: run this as root, or with sudo")
        self._signals.enter_context(processes.signals_exit())
        try:
            sweep()
            self._make_directory()
            self._start("virtlogd", self.directory / "run" / "virtlogd-sock")
            self._start("libvirtd", self.directory / "run" / "libvirt-sock")
            self._answer()
            self._keep_cache()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def virtlogd_pid(self) -> int:
        """The pid of virtlogd."""
        return self._daemons["virtlogd"].pid

    def kill_libvirtd(self, number: int = signal.SIGKILL) -> None:
        """Ends libvirtd with a signal (default: SIGKILL); the guests go on."""
        self._kill("libvirtd", number)

    def kill_virtlogd(self) -> None:
        """kill -9 of virtlogd. Console output is lost until start_virtlogd and the next start of a guest."""
        self._kill("virtlogd", signal.SIGKILL)

    def start_virtlogd(self) -> None:
        """Starts virtlogd again after kill_virtlogd."""
        self._start("virtlogd", self.directory / "run" / "virtlogd-sock")

    def _kill(self, name: str, number: int) -> None:
        daemon = self._daemons.pop(name)
        daemon.send_signal(number)
        daemon.wait()

    def start_libvirtd(self) -> None:
        """Starts libvirtd again after kill_libvirtd; returns when it answers."""
        self._start("libvirtd", self.directory / "run" / "libvirt-sock")
        self._connection = None
        self._answer()

    def restart_libvirtd(self) -> None:
        """kill -9 and start again."""
        self.kill_libvirtd()
        self.start_libvirtd()

    def _make_directory(self) -> None:
        base = "/run" if os.access("/run", os.W_OK) else tempfile.gettempdir()
        self.directory = Path(tempfile.mkdtemp(prefix=RUN_PREFIX, dir=base))
        (self.directory / "owner").write_text(f"{os.getpid()} {processes.start_time(os.getpid())}\n")
        for name, target in BINDS.items():
            (self.directory / name).mkdir(mode=0o755)
            Path(target).mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        self._binds = [(self.logs if part == "log" else self.directory / part, path) for part, path in BINDS.items()]
        self._binds += _private_accounts(self.directory)
        etc = self.directory / "etc"
        identity = f'host_uuid = "{uuid.uuid4()}"\n' if self._hostname is not None else ""
        (etc / "libvirtd.conf").write_text(LIBVIRTD_CONF + identity)
        (etc / "qemu.conf").write_text(QEMU_CONF)
        (etc / "virtlogd.conf").write_text('log_outputs = "3:file:/var/log/libvirt/virtlogd.log"\n')
        drivers = self.directory / "drivers"
        drivers.mkdir()
        for path in Path("/usr/lib").glob("*/libvirt/connection-driver/libvirt_driver_qemu.so"):
            (drivers / path.name).symlink_to(path)
        if not any(drivers.iterdir()):
            raise LabError(
                "libvirt's QEMU driver is not installed: install libvirt-daemon-driver-qemu (or libvirt-daemon)"
            )
        kept = self.cache / "capabilities" if self.cache is not None else None
        if kept is not None and kept.is_dir():
            shutil.copytree(kept, self.directory / "cache" / "qemu" / "capabilities")

    def _start(self, name: str, endpoint: Path) -> None:
        program = shutil.which(name, path=SYSTEM_PATH)
        if program is None:
            package = "libvirt-daemon-log (or libvirt-daemon)" if name == "virtlogd" else "libvirt-daemon"
            raise LabError(f"{name} is not installed: install the package {package}")
        endpoint.unlink(missing_ok=True)
        binds = [str(path) for pair in self._binds for path in pair]
        daemon = [program, "--config", f"/etc/libvirt/{name}.conf", "--pid-file", str(self.directory / f"{name}.pid")]
        environment = {
            "PATH": SYSTEM_PATH,
            "HOME": "/root",
            "LC_ALL": "C",
            "LAB_HOSTNAME": self._hostname or "",
            "LIBVIRT_DRIVER_DIR": str(self.directory / "drivers"),
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.directory}/no-dbus",
        }
        output = self.logs / f"{name}.out"
        first_cpu = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))] if name == "libvirtd" else []
        own_name = ["--uts"] if self._hostname is not None else []
        unshare = ["unshare", "--mount", *own_name, "--propagation", "unchanged", "--"]
        with output.open("ab") as file:
            process = subprocess.Popen(
                [*first_cpu, *unshare, "sh", "-c", LAUNCH, "lab", *binds, "--", *daemon],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
                start_new_session=True,  # Ctrl-C must only reach this process, which ends the daemons in order
            )
        self._daemons[name] = process
        end_s = time.monotonic() + START_DEADLINE_S
        while not accepts(endpoint):
            if process.poll() is not None or time.monotonic() > end_s:
                log_text = "".join(
                    path.read_text(errors="replace")[-1000:]
                    for path in (output, self.logs / f"{name}.log")
                    if path.exists()
                )
                raise LabError(
                    f"{name} did not start (status {process.returncode}); see {self.logs}; it said: {log_text}"
                )
            time.sleep(processes.POLL_S)

    def _answer(self) -> None:
        """Waits until libvirtd answers, then lets it run on every CPU again.

        It starts on one CPU because on some machines CPUID depends on the CPU that reads it. libvirt would then take
        the kept capabilities for those of another machine, and probe QEMU again.
        """
        self.connection.getVersion()
        for thread in thread_ids(self.libvirtd_pid):
            try:
                os.sched_setaffinity(thread, os.sched_getaffinity(0))
            except ProcessLookupError:
                continue  # a thread of libvirtd's pool has ended

    def _keep_cache(self) -> None:
        """Keeps QEMU's capabilities for the next run. Each file appears complete, because labs run at the same time."""
        made = self.directory / "cache" / "qemu" / "capabilities"
        if self.cache is None or not made.is_dir():
            return
        kept = self.cache / "capabilities"
        kept.mkdir(parents=True, exist_ok=True)
        for path in made.glob("*.xml"):
            scratch = kept / f".{path.name}.{os.getpid()}"
            shutil.copy2(path, scratch)
            scratch.rename(kept / path.name)

    def _end(self) -> None:
        """Ends every domain and daemon, and removes the run directory. If a step fails, the others are still done."""
        try:
            if self.directory != Path():
                if self._connection is not None:
                    self._destroy_domains()
                for name in ("libvirtd", "virtlogd"):
                    if name in self._daemons:
                        processes.end_child(self._daemons.pop(name), END_PATIENCE_S)
                clear(self.directory)
        finally:
            self._signals.close()

    def _destroy_domains(self) -> None:
        """Asks libvirtd to end the domains. `clear` ends those that libvirtd cannot end."""

        def destroy() -> None:
            try:
                for domain in self.connection.listAllDomains():
                    domain.destroy()
                self.connection.close()
            except libvirt.libvirtError as error:
                print(f"lab: libvirtd could not end the domains ({error}): ending them by pid", file=sys.stderr)

        # In a thread, because a daemon that hangs must not delay the end.
        thread = threading.Thread(target=destroy, daemon=True)
        thread.start()
        thread.join(END_PATIENCE_S)
        self._connection = None


def _private_accounts(directory: Path) -> list[tuple[Path, str]]:
    """libvirtd's QEMU driver does not start without the accounts that it was built for. The package
    libvirt-daemon-system would make them. If the machine has none, the daemons see private copies of the account files
    with these accounts. Returns the copies and the paths that they are mounted over."""
    lines = {
        "/etc/passwd": [f"{ACCOUNT}:x:{ACCOUNT_NUMBER}:{ACCOUNT_NUMBER}::/nonexistent:/usr/sbin/nologin"],
        "/etc/group": [f"{group}:x:{ACCOUNT_NUMBER + i}:" for i, group in enumerate((ACCOUNT, "kvm"))],
    }
    binds = []
    for file, added in lines.items():
        text = Path(file).read_text()
        present = {line.split(":")[0] for line in text.splitlines()}
        missing = [line for line in added if line.split(":")[0] not in present]
        if missing:
            private = directory / Path(file).name
            private.write_text(text.rstrip("\n") + "\n" + "\n".join(missing) + "\n")
            binds.append((private, file))
    return binds


def clear(directory: Path) -> None:
    """Ends the processes in a lab's pid files if they belong to it; removes its cgroups and its directory."""
    left: list[Path] = []
    for pid_file in [*directory.glob("run/qemu/*.pid"), *directory.glob("*.pid")]:
        pid = processes.read_pid(pid_file)
        if pid is not None and processes.sees_mounts_of(pid, directory):
            left += cgroups.domain_directories(pid)
            processes.end(pid, END_PATIENCE_S)
    cgroups.remove(left)
    shutil.rmtree(directory)


def sweep() -> None:
    """Clears the labs whose owner was killed before it could do so."""
    for base in ("/run", tempfile.gettempdir()):
        for directory in Path(base).glob(f"{RUN_PREFIX}*"):
            try:
                with (directory / "owner").open() as file:
                    owner, started = file.read().split()
                    if str(processes.start_time(int(owner))) == started:
                        continue
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    print(f"lab: clearing {directory}, whose owner {owner} is gone", file=sys.stderr)
                    clear(directory)
            except (FileNotFoundError, ValueError, BlockingIOError):
                # It is just being made, is no lab, or is being cleared by another lab that starts now.
                continue
