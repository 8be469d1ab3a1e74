"""How long the best partition takes, and how this grows with parts and chunks. Run this file, or call measured()."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from vscaf_policies.optimum import best_partition_bounded

SIZES = ((1250, 4096), (2500, 8192), (5000, 16384), (10_000, 32_768))
"""Parts and chunks. The last is 65,536 pCPUs in chunks of 2."""

Curve = tuple[float, ...]


def logarithmic(chance: np.random.Generator, longest: int) -> Curve:
    return tuple((1 + chance.uniform(0.05, 4) * np.log(2 * np.arange(1, longest + 1))).tolist())


def amdahl(chance: np.random.Generator, longest: int) -> Curve:
    serial = chance.uniform(0, 0.3)
    return tuple((1 / (serial + (1 - serial) / np.arange(1, longest + 1))).tolist())


def s_shaped(chance: np.random.Generator, longest: int) -> Curve:
    middle, width = chance.uniform(2, 0.7 * longest), chance.uniform(1, 4)
    return tuple((chance.uniform(5, 40) / (1 + np.exp((middle - np.arange(1, longest + 1)) / width))).tolist())


def noisy(chance: np.random.Generator, longest: int) -> Curve:
    return tuple((np.array(logarithmic(chance, longest)) * (1 + 0.1 * chance.standard_normal(longest))).tolist())


SHAPES: dict[str, Callable[[np.random.Generator, int], Curve]] = {
    "logarithmic": logarithmic,
    "amdahl": amdahl,
    "s_shaped": s_shaped,
    "noisy": noisy,
}
CONCAVE = ("logarithmic", "amdahl")


def cpu_seconds(shape: str, parts: int, chunks: int, longest: int = 64, repeats: int = 3) -> tuple[float, float]:
    """The least CPU time (s) of *repeats* runs, and the relative gap between the result and its proven bound."""
    chance = np.random.default_rng(parts)
    curves = [SHAPES[shape](chance, longest) for _ in range(parts)]
    times, gap = [], 0.0
    for _ in range(repeats):
        begun = time.thread_time()
        found = best_partition_bounded(curves, [1] * parts, [longest] * parts, chunks)
        times.append(time.thread_time() - begun)
        gap = (found.bound - found.value) / found.value
    return min(times), gap


def exponent(sizes: Sequence[tuple[int, int]], seconds: Iterable[float]) -> float:
    """The exponent with which time grows with the number of parts: the slope of a line through the logarithms."""
    slope, _offset = np.polyfit(
        [math.log(parts) for parts, _chunks in sizes], [math.log(time_s) for time_s in seconds], 1
    )
    return float(slope)


def measured(
    sizes: Sequence[tuple[int, int]] = SIZES, longest: int = 64, repeats: int = 3
) -> dict[str, dict[str, float]]:
    """For each shape: CPU seconds by "PARTSxCHUNKS", "gap" at the largest size, and "exponent"."""
    results = {}
    for shape in SHAPES:
        figures = [cpu_seconds(shape, parts, chunks, longest, repeats) for parts, chunks in sizes]
        seconds = [time_s for time_s, _gap in figures]
        results[shape] = {
            **{f"{parts}x{chunks}": time_s for (parts, chunks), time_s in zip(sizes, seconds, strict=True)},
            "gap": figures[-1][1],
            "exponent": exponent(sizes, seconds),
        }
    return results


if __name__ == "__main__":
    for longest in (64, 256):
        for shape, figures in measured(longest=longest).items():
            print(f"{shape}, {longest} long: " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()))
