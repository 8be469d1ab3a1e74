"""The clock of these tests waits for a call that works, and goes on while a call hangs."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from vscaf.errors import HypervisorUnreachable
from vscaf.hypervisor.libvirt.calls import Call, start

from .hosts import Rig, with_host
from .patient_loop import STEP_S, WORKING_S


def test_a_call_that_works_takes_little_time(loop_runner: asyncio.Runner) -> None:
    """The call acts as if it got no CPU. The loop selects again and again, and no time-out passes."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        go_on = threading.Event()
        working = start(Call("works"), lambda _call: go_on.wait())
        before_s = loop.time()
        sleeping = asyncio.create_task(asyncio.sleep(2 * WORKING_S))
        while loop.time() - before_s < WORKING_S:  # noqa: ASYNC110  (time passes in the loop)
            await asyncio.sleep(0)  # other things happen meanwhile
        stood_s = loop.time()
        for _ in range(20):
            await asyncio.to_thread(time.sleep, STEP_S / 10)
        assert loop.time() - stood_s <= STEP_S and not sleeping.done()
        go_on.set()
        assert await working
        await sleeping

    loop_runner.run(work())


def test_time_passes_while_a_call_hangs(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        rig.faults.inject("pinVcpu", "a", hang=True)
        before_s = asyncio.get_running_loop().time()
        with pytest.raises(HypervisorUnreachable):
            await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        assert asyncio.get_running_loop().time() - before_s >= 0.1

    with_host(tmp_path, loop_runner, {"a": (1, 1)}, work, timeout_s=0.1)


def test_a_late_call_is_late_by_this_clock(tmp_path: Path, loop_runner: asyncio.Runner) -> None:
    async def work(rig: Rig) -> None:
        (a,) = await rig.host.observe()
        rig.faults.inject("pinVcpu", "a", late_s=0.1)
        before_s = asyncio.get_running_loop().time()
        await rig.host.pin_vcpus(a.key, {0: frozenset({0})})
        assert asyncio.get_running_loop().time() - before_s >= 0.1

    with_host(tmp_path, loop_runner, {"a": (1, 1)}, work)
