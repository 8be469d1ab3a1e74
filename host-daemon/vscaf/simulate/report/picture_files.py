"""Pictures of runs as PNG files: which ones a scenario has, and their names."""

import re
from collections.abc import Sequence
from pathlib import Path

from vscaf.simulate.engine.result import Run
from vscaf.simulate.report.document import Outcomes
from vscaf.simulate.report.pictures import allocations_figure
from vscaf.simulate.report.split_pictures import splits_figure


def write_pictures(outcomes: Outcomes, directory: Path) -> list[Path]:
    """Writes the pictures of one scenario's first seed as PNG files into *directory*; returns their paths.

    Two kinds: allocations-NAME.png, and for two or three guests splits-NAME.png.
    """
    runs = first_seed(outcomes.runs)
    if not runs:
        return []
    figures = {"allocations": allocations_figure(outcomes.scenario, runs), "splits": splits_figure(outcomes, runs)}
    paths = []
    for kind, figure in figures.items():
        if figure is not None:
            paths.append(directory / f"{kind}-{file_name(outcomes.scenario.name)}.png")
            figure.savefig(paths[-1], dpi=120)
    return paths


def file_name(name: str) -> str:
    """*name* without characters that a file name should not have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "scenario"


def first_seed(runs: Sequence[Run]) -> list[Run]:
    """For each policy, the run with the first seed."""
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.policy, run)
    return list(first.values())
