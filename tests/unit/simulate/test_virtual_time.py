"""Virtual time moves from timer to timer, needs no wall time, and is the same in each run."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vscaf import clock
from vscaf.simulate.engine.virtual_time import StuckError, run_virtual


def test_a_day_takes_no_time() -> None:
    async def day() -> float:
        await asyncio.sleep(86_400.0)
        return clock.now_s()

    assert run_virtual(day()) == pytest.approx(86_400.0)


@given(st.lists(st.floats(0.0, 100.0), max_size=20))
def test_time_never_goes_back_and_sleepers_wake_in_order(delays: list[float]) -> None:
    woken: list[tuple[float, float]] = []

    async def sleeper(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        woken.append((clock.now_s(), delay_s))

    async def main() -> None:
        await asyncio.gather(*(sleeper(delay_s) for delay_s in delays))

    run_virtual(main())
    assert [now_s for now_s, _ in woken] == sorted(now_s for now_s, _ in woken)
    assert all(now_s == pytest.approx(delay_s, abs=1e-6) for now_s, delay_s in woken)


def test_timeouts_and_threads_work() -> None:
    async def main() -> list[object]:
        results: list[object] = []
        try:
            async with asyncio.timeout(3.0):
                await asyncio.Event().wait()
        except TimeoutError:
            results.append(round(clock.now_s(), 6))
        results.append(await asyncio.to_thread(lambda: 7))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        results.append(round(clock.now_s(), 6))
        return results

    assert run_virtual(main()) == [3.0, 7, 3.0]


def test_waiting_for_nothing_is_an_error_and_no_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError):
        run_virtual(main())


def test_what_is_left_behind_is_cancelled() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("cancelled")

    async def main() -> float:
        task = asyncio.get_running_loop().create_task(forever())
        await asyncio.sleep(1.0)
        assert not task.done()
        return clock.now_s()

    assert run_virtual(main()) == pytest.approx(1.0)
    assert ended == ["cancelled"]
