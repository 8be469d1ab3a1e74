"""What the live view says about the selected domain."""

import textwrap

from vscaf.control.messages import ProcessStatus
from vscaf.terminal import printable
from vscaf.top.columns import UNKNOWN
from vscaf.top.domains import Domain, figures, measured
from vscaf.values import State

PARTS = ("useful", "inflation", "fork", "dispatch", "barrier", "steal")
BAR = 24


def detail(domain: Domain, width: int) -> list[str]:
    """The domain, and each program that runs in it with its speedup curve. *width*: where a list of pCPUs is wrapped.

    The list is whole here, as it is cut in the table.
    """
    lines = [f"{domain.name}: {domain.state}" + (f": {domain.why}" if domain.why else "")]
    if domain.state != State.NOT_RUNNING:
        age = "no report" if domain.report_age_s is None else f"report {domain.report_age_s:.1f} s old"
        vcpus = [UNKNOWN if count is None else str(count) for count in (domain.vcpus, domain.vcpus_maximum)]
        lines.append(f"{'/'.join(vcpus)} vCPUs, agent {domain.agent or UNKNOWN}, {age}")
        if domain.partition:
            listed = f"pCPUs {domain.partition.replace(',', ', ')}"
            lines += textwrap.wrap(listed, max(20, width), subsequent_indent="  ", break_on_hyphens=False)
        stolen = "unknown" if domain.steal_s is None else f"{domain.steal_s:.1f} s"
        predicted = "unknown" if domain.speedup is None else f"{domain.speedup:.2f}"
        lines.append(f"predicted speedup {predicted}, steal so far {stolen}")
    known = figures(domain)
    if not known.readable:
        lines.append("programs: unknown: the daemon is of another version")
    for program in known.programs:
        lines += _program(program)
    return [printable(line) for line in lines]


def _program(program: ProcessStatus) -> list[str]:
    lines = [f"{program.name}: team {program.team}, {program.malleable}"]
    parts = program.decomposition
    if parts is None:
        lines[0] += ", thread time unknown"
    else:
        lines.append(
            "  " + " ".join(f"{name} {100 * parts[name]:.0f}%" for name in PARTS if parts.get(name, 0) >= 0.01)
        )
    points = measured(program)
    if not points:
        return [*lines, "  speedup unknown"]
    top = max(1.0, *(point.speedup for point in points))
    for point in points:
        bar = "█" * max(1, round(BAR * point.speedup / top))
        lines.append(f"  S({point.p}) {point.speedup:.2f} ±{1.96 * point.standard_error:.2f} {bar}")
    return lines
