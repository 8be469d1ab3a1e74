"""Occupancy that is summed while samples come in."""

from vscaf.occupancy.sampler import Sample
from vscaf.occupancy.timeline import Bins, Track, track


def sample(
    at_s: float, run_s: float, *, thread: int = 1, domain: str = "a", cpu: int = 0, wait_s: float = 0.0
) -> Sample:
    return Sample(at_s, at_s, domain, 0, thread, frozenset({cpu}), cpu, int(run_s * 1e9), int(wait_s * 1e9))


SAMPLES = [
    sample(100.0, 5.0),
    sample(100.5, 5.25, wait_s=0.25),
    sample(101.0, 5.25, wait_s=0.25),
    sample(101.5, 5.75, cpu=3, wait_s=0.25),
]


def test_time_is_counted_where_and_when_it_was_used() -> None:
    used = {0: {"a": [0.5, 0.0, 0.0, 0.0]}, 3: {"a": [0.0, 0.0, 1.0, 0.0]}}
    waited = {0: {"a": [0.5, 0.0, 0.0, 0.0]}, 3: {"a": [0.0] * 4}}
    assert track(SAMPLES, 0.5) == Track(100.0, 0.5, used, waited)


def test_waiting_is_counted_where_a_thread_wants_to_run() -> None:
    """Two threads of `a` and one of `b` want pCPU 3, which one of them has; `b` waited long before it was watched."""
    found = track(
        [
            *(sample(100.0, 0.0, thread=1, cpu=3), sample(100.5, 0.5, thread=1, cpu=3)),
            *(sample(100.0, 0.0, thread=2, cpu=3), sample(100.5, 0.0, thread=2, cpu=3, wait_s=0.5)),
            *(
                sample(100.0, 0.0, thread=3, domain="b", cpu=0, wait_s=9.0),
                sample(100.5, 0.0, thread=3, domain="b", cpu=3, wait_s=9.25),
            ),
        ],
        0.5,
    )
    assert found.shares == {3: {"a": [1.0, 0.0], "b": [0.0, 0.0]}}
    assert found.waits == {3: {"a": [1.0, 0.0], "b": [0.5, 0.0]}}


def test_samples_that_come_in_parts_give_the_same() -> None:
    bins = Bins(0.5, 100.0)
    for one in SAMPLES:
        bins.add([one])
    assert bins.track() == track(SAMPLES, 0.5)


def test_old_bins_can_be_forgotten() -> None:
    bins = Bins(0.5, 100.0)
    bins.add(SAMPLES)
    before = bins.track(first=2)
    bins.forget(101.0)
    assert bins.track(first=2) == before and before.start_s == 101.0
    assert bins.track().shares[0]["a"] == [0.0] * 4 and bins.track().waits[0]["a"] == [0.0] * 4
    bins.add([sample(102.0, 6.0, cpu=3, wait_s=0.25)])
    assert bins.track(first=3).shares[3]["a"] == [0.5, 0.0], "the thread's last sample was kept"


def test_domains_that_are_gone_are_forgotten() -> None:
    bins = Bins(0.5, 100.0)
    bins.add([*SAMPLES, sample(100.0, 0.0, thread=2, domain="gone"), sample(100.5, 0.5, thread=2, domain="gone")])
    assert bins.domains == {"a", "gone"}
    bins.forget(101.5)
    assert bins.domains == {"a"} and bins.pcpus == {0, 3}
    assert bins.track().shares == {0: {"a": [0.0] * 4}, 3: {"a": [0.0] * 4}}


def test_a_thread_number_that_is_used_again_is_another_thread() -> None:
    assert track([sample(1.0, 9.0), sample(1.5, 0.25)], 0.5).shares == {}
    assert track([sample(1.0, 0.0), sample(1.5, 0.25, domain="b")], 0.5).shares == {}
