"""Rows of a picture: who computed on a pCPU over time. They need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from vscaf.occupancy.timeline import Track

# Those of Okabe and Ito, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442")


def draw_row(axis: Axes, track: Track, pcpu: int, colours: Mapping[str, str], begin_s: float) -> None:
    """Draws one pCPU: the height of a domain's colour is its share of the pCPU's time. Times are seconds from begin_s.

    Domains without a colour are left out.
    """
    _stack(axis, track, track.shares.get(pcpu, {}), colours, begin_s)
    axis.set_ylim(0, 1.02)
    axis.set_yticks([])
    axis.margins(x=0)


def draw_waits(axis: Axes, track: Track, pcpu: int, colours: Mapping[str, str], begin_s: float) -> None:
    """Draws below a row of `draw_row` whose threads waited for the pCPU: the depth of a domain's colour is how many of
    its threads did, on average. If more than one did in all, the row is full, and the colours are the domains' parts.
    """
    waits = track.waits.get(pcpu, {})
    totals = [max(1.0, sum(column)) for column in zip(*waits.values(), strict=True)]
    below = {name: [-one / total for one, total in zip(ones, totals, strict=True)] for name, ones in waits.items()}
    _stack(axis, track, below, colours, begin_s, alpha=0.5)
    axis.axhline(0, color="black", linewidth=0.6)
    axis.set_ylim(-1.02, 1.02)


def _stack(
    axis: Axes,
    track: Track,
    parts: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    begin_s: float,
    *,
    alpha: float = 1.0,
) -> None:
    """Stacks a value of each domain in each bin. Above 1 it is drawn as 1."""
    used = [name for name in colours if any(parts.get(name, ()))]  # the others would only make the file larger
    if not used:
        return
    axis.stackplot(
        [track.start_s + number * track.bin_s - begin_s for number in range(len(parts[used[0]]))],
        [[min(1.0, part) for part in parts[name]] for name in used],
        colors=[colours[name] for name in used],
        step="post",
        linewidth=0,
        alpha=alpha,
    )
