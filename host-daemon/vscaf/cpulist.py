"""The kernel's CPU lists ("0-3,8") as sets of CPU numbers."""

from collections.abc import Iterable


def parse_cpu_list(text: str) -> frozenset[int]:
    """The CPU numbers in *text*, in the kernel's list format; empty text: none. ValueError for anything else."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise ValueError(f"{part.strip()!r} in CPU list {text!r} is not N or N-M")
        low, high = int(first), int(last or first)
        if low > high or high >= 65536:
            raise ValueError(f"{part.strip()!r} in CPU list {text!r} is not a rising range of CPU numbers below 65536")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The shortest list of numbers and ranges for *cpus*."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
