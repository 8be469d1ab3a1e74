"""libvirt's own event loop, in a thread of its own.

libvirt changes the descriptors and timers of its loop several times in each call. If asyncio was that loop, as with
libvirtaio, each change would wake it.
"""

import logging
import threading
import time

import libvirt

log = logging.getLogger(__name__)

AFTER_ERROR_S = 1.0  # an error that persists keeps no pCPU busy

_lock = threading.Lock()
_started = False


def start_events() -> None:
    """Starts libvirt's event loop, once in a process. Its callbacks are called in its thread.

    Call it before the first connection is opened. libvirtError if another loop was registered.
    """
    global _started  # noqa: PLW0603  (libvirt's registration is a process-wide fact)
    with _lock:
        if not _started:
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=_run, name="libvirt-events", daemon=True).start()
            _started = True


def _run() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError as error:  # without the loop, connections would die unnoticed
            log.error("libvirt's event loop: %s", error)
            time.sleep(AFTER_ERROR_S)
