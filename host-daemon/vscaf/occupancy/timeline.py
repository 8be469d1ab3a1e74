"""Timelines: which domain ran on which pCPU over time, from the kernel's accounting of vCPU threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vscaf.occupancy.sampler import Sample


@dataclass(frozen=True)
class Track:
    """Shares of pCPU time: `shares[pcpu][domain]` is a value in 0..1 for each bin of *bin_s* seconds from `start_s`.

    `waits[pcpu][domain]`: likewise, how many of the domain's threads were ready to run and waited for the pCPU, on
    average. Empty if that is not known.
    """

    start_s: float
    bin_s: float
    shares: Mapping[int, Mapping[str, list[float]]]
    waits: Mapping[int, Mapping[str, list[float]]] = field(default_factory=dict)


class _Sums:
    """Seconds by pCPU, domain and number of a bin."""

    def __init__(self) -> None:
        self.by_pcpu: dict[int, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))

    def add(self, pcpu: int, domain: str, index: int, seconds: float) -> None:
        bins = self.by_pcpu[pcpu][domain]
        bins[index] = bins.get(index, 0.0) + seconds

    def forget(self, first: int) -> None:
        """Drops the bins before *first*."""
        for by_domain in self.by_pcpu.values():
            for name, bins in list(by_domain.items()):
                for index in [index for index in bins if index < first]:
                    del bins[index]
                if not bins:
                    del by_domain[name]

    def shares(self, bin_s: float, bins: range, domains: Sequence[str]) -> dict[int, dict[str, list[float]]]:
        """The parts of the bins' time."""
        return {
            pcpu: {name: [by_domain.get(name, {}).get(index, 0.0) / bin_s for index in bins] for name in domains}
            for pcpu, by_domain in sorted(self.by_pcpu.items())
        }


class Bins:
    """Sums the CPU time that threads used, and the time for which they waited for a pCPU, by pCPU, domain and bin of
    *bin_s* seconds, for samples that come over time.

    The time between two samples of a thread is put into the bin of its middle, on the pCPU where it last ran or waits.
    """

    def __init__(self, bin_s: float, start_s: float) -> None:
        self.bin_s = bin_s
        self.start_s = start_s
        self.last_s = start_s
        self._before: dict[int, Sample] = {}
        self._used = _Sums()
        self._waited = _Sums()

    @property
    def domains(self) -> set[str]:
        """The domains that were sampled, but for what was forgotten."""
        return {one.domain for one in self._before.values()}.union(*self._used.by_pcpu.values())

    @property
    def pcpus(self) -> set[int]:
        """The pCPUs on which a domain ran, also those of what was forgotten."""
        return set(self._used.by_pcpu)

    def add(self, samples: Iterable[Sample]) -> None:
        """Takes in samples. Those of a thread come in order of time."""
        for after in samples:
            self.last_s = max(self.last_s, after.monotonic_s)
            before = self._before.get(after.thread)
            self._before[after.thread] = after
            if before is None or after.domain != before.domain or after.run_ns < before.run_ns:
                continue  # its first sample, or another thread with the number of one that has ended
            middle_s = (before.monotonic_s + after.monotonic_s) / 2 - self.start_s
            place = after.last_cpu, after.domain, int(middle_s / self.bin_s)
            self._used.add(*place, (after.run_ns - before.run_ns) / 1e9)
            self._waited.add(*place, (after.wait_ns - before.wait_ns) / 1e9)

    def forget(self, before_s: float) -> None:
        """Drops what is older, so that a long watch needs no more memory."""
        first = int((before_s - self.start_s) / self.bin_s)
        self._used.forget(first)
        self._waited.forget(first)
        self._before = {thread: one for thread, one in self._before.items() if one.monotonic_s >= before_s}

    def track(self, first: int = 0) -> Track:
        """The shares from the bin of number *first* on."""
        bins = range(first, int((self.last_s - self.start_s) / self.bin_s) + 1)
        shares, waits = (sums.shares(self.bin_s, bins, sorted(self.domains)) for sums in (self._used, self._waited))
        return Track(self.start_s + first * self.bin_s, self.bin_s, shares, waits)


def track(samples: Sequence[Sample], bin_s: float) -> Track:
    """All samples of a run in bins. Programs may be too short to be sampled: without samples there are no shares."""
    if not samples:
        return Track(0.0, bin_s, {})
    bins = Bins(bin_s, min(sample.monotonic_s for sample in samples))
    bins.add(samples)
    return bins.track()
