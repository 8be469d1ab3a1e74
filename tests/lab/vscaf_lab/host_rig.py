"""What tests of `LibvirtHost` share, on libvirt's test driver and on real guests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from vscaf.errors import HypervisorUnreachable
from vscaf.hypervisor.libvirt.host import NOT_DESCRIBED, LibvirtHost
from vscaf.lab.polling import HANG_S
from vscaf.values import DomainSeen

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class HostRig:
    """A host under test."""

    host: LibvirtHost

    async def seen(self, name: str) -> DomainSeen:
        """The domain of this name, as it is observed now, its description included. TimeoutError after HANG_S."""
        async with asyncio.timeout(HANG_S):
            while True:
                seen = {one.name: one for one in await self.host.observe()}[name]
                if seen.rules_error != NOT_DESCRIBED:
                    return seen

    async def answered(
        self, call: Callable[Parameters, Awaitable[Result]], *args: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """The result of a call, which is repeated until libvirt answers it: a QEMU that gets no pCPU for a second
        counts as one that hangs. HypervisorUnreachable after HANG_S."""
        end_s = asyncio.get_running_loop().time() + HANG_S
        while True:
            try:
                return await call(*args, **named)
            except HypervisorUnreachable:
                if asyncio.get_running_loop().time() > end_s:
                    raise
            await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Waits until *condition* is true. TimeoutError after HANG_S."""
        async with asyncio.timeout(HANG_S):
            while not await condition():  # noqa: ASYNC110  (libvirt has no event of it)
                await asyncio.sleep(0.01)
