"""Linux's steal governor, a driver of a guest's kernel, as a baseline. No released kernel had it in 2026."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from vscaf.bench.places.member import Member, run
from vscaf.bench.places.place import PlaceError

STEAL_GOVERNOR = "steal-governor"
_IS_ON = "[ -d /sys/module/steal_governor ]"
_LEAVE_OUT = f"leave {STEAL_GOVERNOR} out of --arrangements"


def refuse_without_steal_governor(guests: Sequence[Member]) -> None:
    """Raises PlaceError unless the bench can switch the governor of each guest on."""
    for guest in guests:
        if run(guest, _IS_ON).status == 0:
            raise PlaceError(
                f"guest {guest.name}: its steal governor is on already, so it is part of every arrangement: "
                f"`modprobe -r steal_governor` in the guest, or {_LEAVE_OUT}"
            )
        if run(guest, "modprobe --dry-run steal_governor").status != 0:
            raise PlaceError(
                f"guest {guest.name}: its kernel has no steal governor that can be loaded "
                f"(CONFIG_STEAL_GOVERNOR=m): {_LEAVE_OUT}"
            )


@contextmanager
def steal_governor_on(guests: Sequence[Member]) -> Iterator[None]:
    """The governor of each guest is on meanwhile. Raises PlaceError."""
    with ExitStack() as stack:
        for guest in guests:
            stack.callback(_switch, guest, f"! {_IS_ON} || modprobe --remove steal_governor")
            _switch(guest, "modprobe steal_governor")
        yield


def _switch(guest: Member, command: str) -> None:
    done = run(guest, command)
    if done.status != 0:
        raise PlaceError(f"guest {guest.name}: its steal governor could not be switched: {done.output[-300:]}")
