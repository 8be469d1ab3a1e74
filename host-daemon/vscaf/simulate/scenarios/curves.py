"""Speedup curves: published points with an assumed shape between them, or one of the usual formulas."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from vscaf.errors import UsageError

Between = Literal["log", "linear", "monotone"]
Positive = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class SpeedupCurve:
    """Published points of a speedup curve, and the interpolation between them.

    points: (threads, speedup) by rising threads, the first (1, 1.0). assumed_points: more points that were not
    published; the curve goes through both. between: linear in the logarithm of the threads, linear in the threads, or a
    monotone cubic (Fritsch and Butland 1984) in the logarithm. Beyond the last point the curve is flat. assumed: which
    part of the shape was not published; empty: none. ipc: instructions per cycle and thread, measured alone, None: not
    known.
    """

    name: str
    title: str
    source: str
    assumed: str
    points: tuple[tuple[float, float], ...]
    between: Between = "monotone"
    ipc: float | None = None
    assumed_points: tuple[tuple[float, float], ...] = ()

    def speedup(self, cpus: float) -> float:
        """S(cpus) against one CPU. Less than one CPU is a share of one: S(p) = p."""
        if cpus <= 1.0:
            return max(0.0, cpus)
        return self._shape.at(cpus)

    @cached_property
    def _shape(self) -> "_Shape":
        return _Shape(tuple(sorted(self.points + self.assumed_points)), self.between)


@dataclass(frozen=True)
class FormulaCurve:
    """A speedup curve by one of the usual formulas. Its fields are those of SpeedupCurve."""

    formula: "Formula"
    name: str
    ipc: float | None = None
    source: str = "a formula"
    assumed: str = ""

    @property
    def title(self) -> str:
        """The same as its name."""
        return self.name

    def speedup(self, cpus: float) -> float:
        """S(cpus) against one CPU. Less than one CPU is a share of one: S(p) = p."""
        if cpus <= 1.0:
            return max(0.0, cpus)
        return max(0.0, self.formula.speedup(cpus))


Curve = SpeedupCurve | FormulaCurve


class Amdahl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="model", tag="amdahl"):
    """S = 1 / (serial + (1 - serial) / p): Amdahl 1967. serial: the share of the work that only one CPU can do."""

    serial: Fraction
    ipc: Positive | None = None

    def speedup(self, cpus: float) -> float:
        """At *cpus* >= 1."""
        return 1.0 / (self.serial + (1.0 - self.serial) / cpus)


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="model", tag="log"):
    """S = 1 + weight ln p: Creech 2015, equation 4.4."""

    weight: Annotated[float, Meta(ge=0)]
    ipc: Positive | None = None

    def speedup(self, cpus: float) -> float:
        """At *cpus* >= 1."""
        return 1.0 + self.weight * math.log(cpus)


class Usl(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="model", tag="usl"):
    """S = p / (1 + contention (p - 1) + coherence p (p - 1)): the universal scalability law, Gunther 1993."""

    contention: Fraction
    coherence: Fraction = 0.0
    ipc: Positive | None = None

    def speedup(self, cpus: float) -> float:
        """At *cpus* >= 1."""
        return cpus / (1.0 + self.contention * (cpus - 1.0) + self.coherence * cpus * (cpus - 1.0))


class Downey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="model", tag="downey"):
    """Average parallelism and its variance: Downey 1997, "A model for speedup of parallel programs"."""

    parallelism: Annotated[float, Meta(ge=1)]
    sigma: Annotated[float, Meta(ge=0)] = 0.0
    ipc: Positive | None = None

    def speedup(self, cpus: float) -> float:
        """At *cpus* >= 1."""
        most, sigma, p = self.parallelism, self.sigma, cpus
        if sigma <= 1.0:
            if p <= most:
                return most * p / (most + sigma / 2.0 * (p - 1.0))
            if p <= 2.0 * most - 1.0:
                return most * p / (sigma * (most - 0.5) + p * (1.0 - sigma / 2.0))
            return most
        if p <= most + most * sigma - sigma:
            return p * most * (sigma + 1.0) / (sigma * (p + most - 1.0) + most)
        return most


class Perfect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="model", tag="perfect"):
    """S = p, up to `most` CPUs (absent: no limit)."""

    most: Annotated[float, Meta(ge=1)] | None = None
    ipc: Positive | None = None

    def speedup(self, cpus: float) -> float:
        """At *cpus* >= 1."""
        return cpus if self.most is None else min(cpus, self.most)


Formula = Amdahl | Log | Usl | Downey | Perfect


class _CurveFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    source: str
    points: list[tuple[Annotated[float, Meta(ge=1)], Positive]]
    assumed_points: list[tuple[Annotated[float, Meta(ge=1)], Positive]] = []
    title: str = ""
    assumed: str = ""
    between: Between = "monotone"
    ipc: Positive | None = None


def formula_curve(formula: Formula) -> FormulaCurve:
    """The curve of *formula*. Its name has the formula's parameters."""
    figures = {key: value for key, value in msgspec.to_builtins(formula).items() if key != "model"}
    parameters = " ".join(f"{key} {value:g}" for key, value in figures.items() if value is not None and key != "ipc")
    model = str(msgspec.to_builtins(formula)["model"])
    return FormulaCurve(formula, f"{model} {parameters}".strip(), formula.ipc)


def shipped_curves() -> tuple[str, ...]:
    """Names under which load_curve() finds the curves that come with vscaf."""
    return shipped("curves")


def load_curve(name_or_path: str | Path) -> SpeedupCurve:
    """The shipped curve of that name (the file name without .toml), or else the one in that file.

    UsageError, with the file, the key and the fix, for one that cannot be used.
    """
    return _load(found_file("curves", name_or_path))


@lru_cache(maxsize=256)
def _load(path: Path) -> SpeedupCurve:
    where = f"curve {path}"
    try:
        content = msgspec.toml.decode(path.read_bytes(), type=_CurveFile)
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}: give a readable file") from error
    except msgspec.ValidationError as error:
        keys = ", ".join(_CurveFile.__struct_fields__)
        raise UsageError(f"{where}: {error}: the keys are {keys}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}: fix that line") from error
    threads = [point[0] for point in content.points]
    if threads[:1] != [1.0] or content.points[0][1] != 1.0:
        raise UsageError(f"{where}: points: the first is not [1, 1.0] (speedups are against one thread): add it")
    for key, numbers in (("points", threads), ("assumed_points", [point[0] for point in content.assumed_points])):
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise UsageError(f"{where}: {key}: threads do not rise from one to the next: sort them, each once")
    both = sorted(set(threads) & {point[0] for point in content.assumed_points})
    if both:
        raise UsageError(f"{where}: assumed_points: {both[0]:g} threads are in points too: remove it from one of them")
    gaps = threads != [float(number) for number in range(1, len(threads) + 1)]
    if (gaps or content.assumed_points) and not content.assumed:
        raise UsageError(
            f"{where}: assumed: is missing, but some numbers of threads have no published point: add a sentence that "
            "states what is assumed between the points"
        )
    return SpeedupCurve(
        content.name,
        content.title or content.name,
        content.source,
        content.assumed,
        tuple(content.points),
        content.between,
        content.ipc,
        tuple(content.assumed_points),
    )


def shipped(folder: str) -> tuple[str, ...]:
    """Names of the TOML files that come with vscaf in *folder* of this package."""
    files = resources.files("vscaf.simulate").joinpath(folder)
    if not files.is_dir():
        return ()
    return tuple(sorted(one.name.removesuffix(".toml") for one in files.iterdir() if one.name.endswith(".toml")))


def found_file(folder: str, name_or_path: str | Path) -> Path:
    """The path of the shipped file of that name, or else the given path."""
    if str(name_or_path) in shipped(folder):
        return Path(str(resources.files("vscaf.simulate").joinpath(folder, f"{name_or_path}.toml")))
    path = Path(name_or_path)
    if path.suffix != ".toml" and not path.exists():
        kind = folder.removesuffix("s")
        known = ", ".join(shipped(folder)) or "none"
        raise UsageError(f"{kind} {name_or_path}: no shipped one has that name ({known}), and no file: give one")
    return path


class _Shape:
    """The value of a curve at any number of CPUs >= 1, from its points."""

    def __init__(self, points: tuple[tuple[float, float], ...], between: Between) -> None:
        self._logarithmic = between != "linear"
        self._at = [math.log(p) if self._logarithmic else p for p, _speedup in points]
        self._speedups = [speedup for _p, speedup in points]
        self._slopes = _monotone_slopes(self._at, self._speedups) if between == "monotone" else None
        self._known: dict[float, float] = {}

    def at(self, cpus: float) -> float:
        value = self._known.get(cpus)
        if value is None:
            value = self._value(math.log(cpus) if self._logarithmic else cpus)
            if len(self._known) < 4096:
                self._known[cpus] = value
        return value

    def _value(self, x: float) -> float:
        positions, speedups = self._at, self._speedups
        if x >= positions[-1]:
            return speedups[-1]
        after = next(index for index, one in enumerate(positions) if one > x)
        low, width = after - 1, positions[after] - positions[after - 1]
        part = (x - positions[low]) / width
        if self._slopes is None:
            return speedups[low] + part * (speedups[after] - speedups[low])
        rest = 1.0 - part
        return (
            speedups[low] * (1.0 + 2.0 * part) * rest * rest
            + self._slopes[low] * width * part * rest * rest
            + speedups[after] * part * part * (3.0 - 2.0 * part)
            - self._slopes[after] * width * part * part * rest
        )


def _monotone_slopes(positions: list[float], values: list[float]) -> list[float]:
    """Slopes at the points of a cubic that is monotone where the points are (weighted harmonic means)."""
    count = len(positions)
    if count < 3:
        return [(values[-1] - values[0]) / (positions[-1] - positions[0])] * 2 if count == 2 else [0.0] * count
    widths = [after - before for before, after in itertools.pairwise(positions)]
    steps = [(after - before) / width for before, after, width in zip(values, values[1:], widths, strict=False)]
    slopes = [_end_slope(widths[0], widths[1], steps[0], steps[1])]
    for index in range(1, count - 1):
        before, after = steps[index - 1], steps[index]
        if before * after <= 0.0:
            slopes.append(0.0)
            continue
        first, second = 2.0 * widths[index] + widths[index - 1], widths[index] + 2.0 * widths[index - 1]
        slopes.append((first + second) / (first / before + second / after))
    return [*slopes, _end_slope(widths[-1], widths[-2], steps[-1], steps[-2])]


def _end_slope(width: float, next_width: float, step: float, next_step: float) -> float:
    """The slope at an end, from three points, limited so that the cubic does not overshoot."""
    slope = ((2.0 * width + next_width) * step - width * next_step) / (width + next_width)
    if slope * step <= 0.0:
        return 0.0
    if step * next_step <= 0.0 and abs(slope) > 3.0 * abs(step):
        return 3.0 * step
    return slope
