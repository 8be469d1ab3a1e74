"""A small process beside the daemon: where that ends without having resumed what it has suspended, this one does.

The daemon starts it, and starts another if it ends. It waits for the daemon's end and then reads the journal. So nobody
has to tell it anything, and it does not matter how the daemon ended: by kill -9, an error that nobody has thought of,
an abort, or in good order. It resumes domains and does nothing else: the rest is the next daemon's. While it waits it
has imported nothing that takes memory.
"""

import os
import select
import signal
import sys
import time

TRIES, TRIES_GAP_S = 30, 1.0  # libvirt may be what ended the daemon
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT)  # SIGABRT: the service's watchdog


def wait_for_end(pid: int) -> None:
    """Returns once this process's parent *pid* has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if os.getppid() == pid:  # else it had ended before, and the number may be another's
        select.select([descriptor], [], [])
    os.close(descriptor)


def resume(config_json: str) -> int:
    """Resumes what the journal says is suspended. The exit status: 0 where nothing is left to be resumed."""
    import asyncio  # noqa: PLC0415  (all of these only now: see above)
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
    words = ""
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
            log.info("left to whoever has the journal: %s", error)
            return 0
        except VscafError as error:
            words = str(error)
            time.sleep(TRIES_GAP_S)
        else:
            if names:
                log.warning("the daemon is gone: resumed what it had suspended: %s", ", ".join(names))
            return 0
    log.error("domains may still be suspended: %s: run `vscaf release`", words)
    return 1


def main() -> None:
    """`python -m vscaf.recovery.guard PID CONFIGURATION`, as the daemon of that pid starts it."""
    for number in SIGNALS:  # they are meant for the daemon: whoever ends that ends this
        signal.signal(number, signal.SIG_IGN)
    wait_for_end(int(sys.argv[1]))
    sys.exit(resume(sys.argv[2]))


if __name__ == "__main__":
    main()
