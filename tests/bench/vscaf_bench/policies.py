"""How good the policies are, in the simulator: against the thesis, the best split, equal shares, liars and time.

`thesis`: SCAF's published choices, from the information that SCAF had. `oracle`: the gap to the best static split.
`equipartition`: wins, even pairs and losses against equal shares, as in Table 7.1 of Creech 2015. `liar`: the gain from
a false report. It ends with the table of the option `most_of_equal`: its cost, and what a liar still gains. `decide`:
time and memory of a decision for numbers of domains and pCPUs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from . import policies_decide, policies_equipartition, policies_liar, policies_oracle, policies_thesis
from .policies_runs import Bench, worker_pool
from .report import run_benchmark

PARTS = {
    "thesis": policies_thesis.measure,
    "oracle": policies_oracle.measure,
    "equipartition": policies_equipartition.measure,
    "liar": policies_liar.measure,
    "decide": policies_decide.measure,
}


@contextmanager
def prepared(options: argparse.Namespace) -> Iterator[Bench]:
    """Provides the worker processes while the parts run."""
    with worker_pool() as pool:
        yield Bench(options.quick, pool)


def main() -> None:
    run_benchmark("policies", __doc__, {}, prepared, PARTS)


if __name__ == "__main__":
    main()
