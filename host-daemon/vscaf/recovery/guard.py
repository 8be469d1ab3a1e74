"""The guard: a small process that resumes suspended domains if the daemon ended without resuming them.

The daemon starts it, and starts another if it ends. The guard waits for the daemon's end and then reads the journal. So
it needs no messages, and it does not matter how the daemon ended: by kill -9, an unexpected error, an abort, or
normally. It only resumes domains. The next daemon does everything else. While the guard waits, it has imported no
module that needs much memory.
"""

import os
import select
import signal
import sys
import time

TRIES, TRIES_GAP_S = 30, 1.0  # a failure of libvirt may have ended the daemon, so libvirt may need time
# SIGUSR1: the daemon hands over. SIGABRT: the service's watchdog.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGABRT)


def wait_for_end(pid: int) -> None:
    """Returns once this process's parent *pid* has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if os.getppid() == pid:  # else it has ended already, and another process may have its pid
        select.select([descriptor], [], [])
    os.close(descriptor)


def resume(config_json: str) -> int:
    """Resumes the domains that are suspended according to the journal. Returns the exit status: 0 if none is left."""
    import asyncio  # noqa: PLC0415  (imported only now to save memory: see above)
    import logging  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    import msgspec  # noqa: PLC0415

    from vscaf.config import Config  # noqa: PLC0415
    from vscaf.errors import UsageError, VscafError  # noqa: PLC0415
    from vscaf.journal import JournalError, host_boot_id, read_journal  # noqa: PLC0415

    log = logging.getLogger("vscaf.recovery.guard")
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s guard: %(message)s", datefmt="%H:%M:%S"
    )
    config = msgspec.json.decode(config_json, type=Config)
    path = Path(config.state_directory) / "journal.json"
    reason = ""
    for _ in range(TRIES):
        try:
            content = read_journal(path)
            if (
                content is None
                or content.boot_id != host_boot_id()
                or not any(one.suspended for one in content.domains)
            ):
                return 0
            from vscaf.recovery.offline_restore import resume_suspended  # noqa: PLC0415  (needs libvirt)

            names = asyncio.run(resume_suspended(config))
        except (UsageError, JournalError) as error:
            log.info("nothing resumed: another process has the journal, or it cannot be used: %s", error)
            return 0
        except VscafError as error:
            reason = str(error)
            time.sleep(TRIES_GAP_S)
        else:
            if names:
                log.warning("the daemon has ended: resumed the domains that it had suspended: %s", ", ".join(names))
            return 0
    log.error("domains may still be suspended: %s: run `vscaf release`", reason)
    return 1


def main() -> None:
    """`python -m vscaf.recovery.guard PID CONFIGURATION`, as the daemon of that pid starts it."""
    for number in SIGNALS:  # they are meant for the daemon; the guard ends after the daemon anyway
        signal.signal(number, signal.SIG_IGN)
    wait_for_end(int(sys.argv[1]))
    sys.exit(resume(sys.argv[2]))


if __name__ == "__main__":
    main()
