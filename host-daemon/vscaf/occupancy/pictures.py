"""Rows of a picture: who computed on a pCPU over time. They need matplotlib."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from vscaf.occupancy.timeline import Track

# Those of Okabe and Ito, which people with any kind of colour vision can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442")


def draw_row(axis: Axes, track: Track, pcpu: int, colours: Mapping[str, str], begin_s: float) -> None:
    """Draws one pCPU: the height of a domain's colour is its share of the pCPU's time. Times are seconds from begin_s.

    Domains without a colour are left out.
    """
    shares = track.shares.get(pcpu, {})
    used = [name for name in colours if any(shares.get(name, ()))]  # the others would only make the file larger
    bins = len(shares[used[0]]) if used else 0
    axis.stackplot(
        [track.start_s + number * track.bin_s - begin_s for number in range(bins)],
        [[min(1.0, share) for share in shares[name]] for name in used],
        colors=[colours[name] for name in used],
        step="post",
        linewidth=0,
    )
    axis.set_ylim(0, 1.02)
    axis.set_yticks([])
    axis.margins(x=0)
